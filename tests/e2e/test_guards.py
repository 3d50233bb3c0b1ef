"""What the controller leaves alone on a real cluster, by default."""

import time

import pytest

from tests.support.controller_process import RunController
from tests.support.playground import E2ENamespace
from tests.support.referee import AuditCrosscheck

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]

LONG_ENOUGH_S = 5.0


def test_a_cordon_empties_no_node_and_another_taint_does(
    playground: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    playground.add_nodes("n1", "n2")
    playground.deploy("web", 6)
    on_n1 = playground.pods_on("web", "n1")
    assert on_n1

    with run_controller() as controller:
        playground.cordon("n1")
        time.sleep(LONG_ENOUGH_S)
        assert referee.evicted() == []
        assert playground.pods_on("web", "n1") == on_n1

        playground.taint("n1", "maintenance=now:NoSchedule")
        playground.await_healthy("web", 6, off="n1")

    assert {each.uid for each in referee.evicted()} == on_n1
    assert "leaves alone cordoned nodes" in controller.tail(200)
