"""On a real control plane: what passes by itself moves no pod, and a plan reaches its goal."""

import time

import pytest

from tests.support import manifests
from tests.support.audit_crosscheck import AuditCrosscheck
from tests.support.control_plane import wait_until
from tests.support.controller_process import RunController
from tests.support.kubectl import Object
from tests.support.playground import OWNER, E2ENamespace

pytestmark = pytest.mark.real

AGENT_TAINT = "node.cilium.io/agent-not-ready"
PASSES_S = 6.0
REST_S = 5.0
FULL = 16
"""So many pods of half a CPU fill a node."""

PACED = """
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
guards: {minPodAge: 0s}
budgets:
  cluster: {evictions: 60, per: 1m, burst: 2}
  node: null
  namespace: null
  zone: null
  plugin: null
  warmUp: null
"""
"""Two pods at once, then one a second; all else as it is by default."""


def test_the_taint_of_an_agent_that_restarts_moves_no_pod_and_that_of_a_person_does(
    playground: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    playground.settings = PACED
    playground.add_nodes("n1", "n2")
    playground.deploy("web", 6)
    on_n1 = playground.pods_on("web", "n1")
    assert on_n1

    with run_controller():
        for name in ("n1", "n2"):  # one after the other: pods of one would fit on the other
            playground.taint(name, f"{AGENT_TAINT}=true:NoSchedule")
            time.sleep(PASSES_S)
            playground.taint(name, f"{AGENT_TAINT}-")
            time.sleep(REST_S)
        assert referee.evicted() == []

        playground.taint("n1", "maintenance=now:NoSchedule")
        playground.await_healthy("web", 6, off="n1", within_s=120)

    assert {each.uid for each in referee.evicted()} == on_n1


def test_low_node_utilization_moves_pods_until_the_node_is_at_its_target(
    playground: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    playground.settings = PACED
    playground.add_nodes("n1")
    playground.balance = {
        "LowNodeUtilization": {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}
    }
    playground.deploy_each(*(f"app{number}" for number in range(FULL)), cpu="500m")
    playground.await_pods_by_node(n1=FULL)

    with run_controller():
        playground.add_nodes("n2")
        playground.await_pods_by_node(within_s=220, n1=FULL // 2, n2=FULL // 2)
        time.sleep(REST_S)

    assert playground.pods_by_node() == {"n1": FULL // 2, "n2": FULL // 2}
    apps = [each.pod.partition("-")[0] for each in referee.evicted()]
    assert len(apps) == len(set(apps)) == FULL // 2, "no workload moves twice"


def test_a_job_without_retries_keeps_its_pod_on_a_tainted_node(
    playground: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    playground.settings = PACED
    playground.add_nodes("n1")
    playground.deploy("web", 2)
    playground.kubectl.apply(job(playground))
    playground.await_healthy("report", 1)
    leaving = playground.pods_on("web", "n1")
    playground.add_nodes("n2")

    with run_controller():
        playground.taint("n1", "maintenance=now:NoSchedule")
        playground.await_healthy("web", 2, off="n1", within_s=120)
        time.sleep(REST_S)

    assert {each.uid for each in referee.evicted()} == leaving
    wait_until(lambda: playground.pods("report"), within_s=60, what="the Job's pod is there")
    assert playground.pods_on("report", "n1")


def job(playground: E2ENamespace) -> Object:
    """Return a Job of one pod that runs for an hour and may not fail."""
    made = manifests.deployment(
        playground.namespace,
        "report",
        1,
        nodeSelector={OWNER: playground.namespace},
        restartPolicy="Never",
    )
    template = made["spec"]["template"]
    template["metadata"]["annotations"]["pod-complete.stage.kwok.x-k8s.io/delay"] = "1h"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"namespace": playground.namespace, "name": "report"},
        "spec": {"backoffLimit": 0, "template": template},
    }
