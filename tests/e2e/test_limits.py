"""The limits of evictions, counted in the audit log of a real API server."""

import time
from pathlib import Path

import pytest

from tests.support.audit_crosscheck import AuditCrosscheck, above_rate, unpaired_intents
from tests.support.control_plane import wait_until
from tests.support.controller_process import ControllerProcess
from tests.support.limits import UNLIMITED
from tests.support.playground import E2ENamespace

pytestmark = pytest.mark.real

NODES = tuple(f"n{number}" for number in range(10))
APPS = ("web", "api", "db", "queue", "cache")
BURST, PER_MINUTE = 5, 30
LIVES, LIFE_S = 4, 6.0
# The "30 a minute", and nothing else that would slow the controller down.
LIMITS = (
    "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"
    "debounce: {quiet: 200ms, maxWait: 2s}\n"
) + UNLIMITED.replace(
    "cluster: null", f"cluster: {{evictions: {PER_MINUTE}, per: 1m, burst: {BURST}}}", 1
)


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
    left = set(unpaired_intents(controller.journal))  # the last one may not have been accepted
    with controller:
        wait_until(
            lambda: left.isdisjoint(unpaired_intents(controller.journal)),
            within_s=150,  # a request may arrive for 90 s
            what=f"{left} have ended",
        )
        assert controller.stop() == 0, controller.tail()

    times = referee.evicted_at().values()
    assert len(times) > BURST, "nothing was refilled"
    assert above_rate(times, PER_MINUTE, BURST) == []
    assert unpaired_intents(controller.journal) == []
