"""What the controller leaves alone on a real cluster, by default."""

import time
from pathlib import Path

import pytest

from tests.support.audit_crosscheck import AuditCrosscheck
from tests.support.controller_process import RunController
from tests.support.limits import NO_BUDGETS
from tests.support.playground import E2ENamespace

pytestmark = pytest.mark.real

LONG_ENOUGH_S = 5.0
GUARDED = f"""
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
debounce: {{quiet: 200ms, maxWait: 2s}}
guards:
  {{minPodAge: 0s, minReadyTime: 0s,
    standingTimes: {{otherTaints: 0s, nodeLabels: 0s, openNodes: 0s}}}}
{NO_BUDGETS}
"""


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


def test_pods_of_a_stateful_set_leave_in_order_and_one_at_a_time(
    playground: E2ENamespace,
    run_controller: RunController,
    referee: AuditCrosscheck,
    tmp_path: Path,
) -> None:
    playground.settings = GUARDED
    playground.add_nodes("n1")
    pods = playground.deploy_stateful("db", 3)
    playground.add_nodes("n2")

    with run_controller(), playground.watch_health("db", tmp_path / "watch.json") as health:
        playground.taint("n1", "gpu=yes:NoSchedule")
        playground.await_healthy("db", 3, off="n1")
        counts = health.healthy_counts()

    names = {uid: pod.name for uid, pod in pods.items()}
    assert [names.get(each.uid or "") for each in referee.evicted()] == ["db-2", "db-1", "db-0"]
    assert min(counts[counts.index(3) :]) == 2


def test_a_rollout_during_a_taint_is_left_to_the_deployment(
    playground: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    playground.settings = GUARDED
    playground.add_nodes("n1", "n2")
    old = playground.deploy("web", 4)
    assert playground.pods_on("web", "n1")

    with run_controller():
        playground.roll_out("web")
        playground.taint("n1", "gpu=yes:NoSchedule")
        playground.await_healthy("web", 4, off="n1", within_s=120)

    assert {each.uid for each in referee.evicted()} & old.keys() == set()
