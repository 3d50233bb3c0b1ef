"""A controller that stood still, with its machine or its container, and then goes on."""

import re
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.limits import UNLIMITED

NODE = "node-1"
SUSPENDED_S = 6
"""In this time one more eviction comes to be allowed, and no two."""


@pytest.fixture
def settings() -> str:
    return UNLIMITED.replace("cluster: null", "cluster: {evictions: 15, per: 1m, burst: 2}", 1)


def evicted(program: Any) -> int:  # from the fixture
    return len(re.findall(r"\] evicted ", program.output))


def test_a_controller_that_was_suspended_evicts_no_pod_for_a_reason_that_ended_meanwhile(
    cluster: Any, controller: Callable[..., Any]
) -> None:
    program = controller()
    program.wait_for("the cluster is synced")
    cluster.taint(NODE, "gpu")
    program.wait_until(lambda: evicted(program) >= 2 and "deferred" in program.output)

    program.process.send_signal(signal.SIGSTOP)
    cluster.untaint(NODE)
    time.sleep(SUSPENDED_S)
    stay = cluster.pods_on(NODE)  # without one whose eviction was on its way
    assert set(stay.values()) > {"DaemonSet"}
    program.process.send_signal(signal.SIGCONT)

    cluster.taint("node-2", "gpu")  # it goes on: here is a reason that holds
    program.wait_for(r"\] evicted .* node=node-2 ")
    assert stay.keys() <= cluster.pods_on(NODE).keys()
