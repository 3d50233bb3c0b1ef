"""A controller that is killed again and again evicts no faster than one that is not."""

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reactive_desched.api.event import EVICTION_REQUESTED
from reactive_desched.journal.events import read_events
from tests.support.limits import UNLIMITED

RUNS, RUN_S = 4, 1.5
BURST, PER_SECOND = 3, 0.1
TAINTED = [f"node-{number}" for number in range(1, 6)]


@pytest.fixture
def settings() -> str:
    """Limit the cluster alone, and without a warm-up: what is restored has to do it."""
    limit = f"cluster: {{evictions: {60 * PER_SECOND:.0f}, per: 1m, burst: {BURST}}}"
    return UNLIMITED.replace("cluster: null", limit, 1)


@pytest.fixture
def policy(policy: Path) -> Path:
    """Evict also where no other node has room, so that only the rate limits the evictions."""
    text = policy.read_text(encoding="utf-8")
    policy.write_text(text.replace("nodeFit: true", "nodeFit: false"), encoding="utf-8")
    return policy


def pods_to_move(cluster: Any) -> Iterator[str]:  # from the fixture
    for name in TAINTED:
        yield from (uid for uid, kind in cluster.pods_on(name).items() if kind != "DaemonSet")


def test_a_controller_killed_every_few_seconds_keeps_to_the_rate(
    cluster: Any, controller: Callable[..., Any], tmp_path: Path
) -> None:
    before = set(pods_to_move(cluster))
    assert len(before) > RUNS * BURST, "more could go than the rate allows"
    for name in TAINTED:
        cluster.taint(name, "gpu")
    began = time.monotonic()

    for _ in range(RUNS):
        program = controller()
        program.wait_for('eviction limits are set .*cluster="6 a minute, 3 at once"')
        time.sleep(RUN_S)
        program.process.send_signal(signal.SIGKILL)
        program.process.wait(60)

    moved = before - set(pods_to_move(cluster))
    took_s = time.monotonic() - began
    assert BURST <= len(moved) <= BURST + PER_SECOND * took_s
    requested = [e for e in read_events(tmp_path / "journal") if e.type == EVICTION_REQUESTED]
    assert {event.data.who.uid for event in requested} >= moved
