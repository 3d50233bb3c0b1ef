"""The limits of evictions, counted in the audit log of a real API server."""

import time
from datetime import datetime
from pathlib import Path

import pytest

from tests.support.controller_process import ControllerProcess
from tests.support.limits import UNLIMITED
from tests.support.playground import E2ENamespace
from tests.support.referee import AuditCrosscheck, unpaired_intents

pytestmark = [pytest.mark.real, pytest.mark.timeout(240)]

NODES = tuple(f"n{number}" for number in range(10))
APPS = ("web", "api", "db", "queue", "cache")
BURST, PER_SECOND = 5, 0.5
LIVES, LIFE_S = 6, 6.0
# The "30 a minute", and nothing else that would slow the controller down.
LIMITS = (
    "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"
    "debounce: {quiet: 200ms, maxWait: 2s}\n"
) + UNLIMITED.replace("cluster: null", f"cluster: {{evictions: 30, per: 1m, burst: {BURST}}}", 1)


def test_a_controller_killed_every_six_seconds_keeps_to_thirty_a_minute(
    playground: E2ENamespace, kubeconfig: Path, referee: AuditCrosscheck, tmp_path: Path
) -> None:
    playground.add_nodes(*NODES)
    for app in APPS:
        playground.deploy(app, 12)
    playground.add_nodes("free1", "free2")
    controller = ControllerProcess(tmp_path, kubeconfig, playground.policy(), LIMITS)
    for name in NODES:
        playground.taint(name, "gpu=yes:NoSchedule")

    for _ in range(LIVES):
        controller.start()
        time.sleep(LIFE_S)
        controller.kill()
    with controller:
        assert controller.stop() == 0, controller.tail()

    evicted = {each.uid for each in referee.evicted()}
    requests = referee.audit.evictions(referee.user, referee.since)
    times = sorted(
        datetime.fromisoformat(each.at).timestamp() for each in requests if each.uid in evicted
    )
    assert len(times) > BURST, "nothing was refilled in half a minute"
    for start, earlier in enumerate(times):
        for count, later in enumerate(times[start:], 1):
            assert count <= BURST + PER_SECOND * (later - earlier) + 1, "faster than the limit"
    assert unpaired_intents(controller.journal) == []
