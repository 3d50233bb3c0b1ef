"""The plugins that balance, with the real scheduler: what they move goes where it should, once."""

import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.audit_crosscheck import AuditCrosscheck
from tests.support.control_plane import PACKING, wait_until
from tests.support.controller_process import RunController
from tests.support.kubectl import Object
from tests.support.playground import OWNER, E2ENamespace

pytestmark = pytest.mark.real

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
SOON = timedelta(seconds=60)  # after a node is Ready, on a machine that has other work
QUIET_S = 3.0  # fifteen times the quiet time of the debounce
UTILIZATION = {"thresholds": {"cpu": 30}, "targetThresholds": {"cpu": 60}}


def evicted(referee: AuditCrosscheck) -> list[str]:
    return [str(each.uid) for each in referee.evicted()]


def test_a_node_added_to_a_full_cluster_takes_its_share_within_seconds(
    playground: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    playground.add_nodes("n1", "n2")
    playground.balance = {"LowNodeUtilization": UTILIZATION}
    before = playground.deploy("web", 12, cpu="1")  # 75 % of the 8 CPUs of each node

    with run_controller():
        playground.add_nodes("n3")
        playground.await_pods_by_node(n1=4, n2=4, n3=4)
        ready_at = playground.ready_at("n3")
        time.sleep(QUIET_S)

    moved = evicted(referee)
    assert len(moved) == 4
    assert set(moved) <= before.keys(), "a replacement moved"
    for uid in moved:
        answered_at = referee.first_answered_at(uid)
        assert answered_at is not None
        assert answered_at - ready_at < SOON


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_node_that_joins_is_filled_to_the_target_one_pod_of_each_workload_at_a_time(
    playground: E2ENamespace,
    run_controller: RunController,
    referee: AuditCrosscheck,
    replicas: int,
) -> None:
    """By the scheduler's default spreading the second replica of a workload would come back."""
    playground.add_nodes("n1")
    playground.balance = {
        "LowNodeUtilization": {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}
    }
    for number in range(16 // replicas):
        playground.deploy(f"app{number}", replicas, cpu="500m")
    playground.await_pods_by_node(n1=16)

    with run_controller():
        playground.add_nodes("n2")
        playground.await_pods_by_node(n1=8, n2=8)
        time.sleep(QUIET_S)

    moves = Counter(each.pod.partition("-")[0] for each in referee.evicted())
    assert sorted(moves.values()) == [1] * 8


def test_a_node_that_is_hardly_used_is_emptied_and_stays_empty(
    playground: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    playground.add_nodes("n1", "n2")
    playground.balance = {"HighNodeUtilization": {"thresholds": {"cpu": 30}}}
    on_n1 = {OWNER: playground.namespace, HOST: playground.node("n1")}
    playground.deploy("filler", 6, cpu="1", nodeSelector=on_n1)
    playground.deploy("web", 4, cpu="1", schedulerName=PACKING)
    assert playground.pods_by_node() == {"n1": 8, "n2": 2}, "the scheduler fills n1 up"
    doomed = playground.pods_on("web", "n2")

    with run_controller():
        time.sleep(QUIET_S)
        assert evicted(referee) == [], "n1 is full"
        playground.scale(3, "filler")
        playground.await_pods_by_node(n1=7)
        time.sleep(QUIET_S)

    assert sorted(evicted(referee)) == sorted(doomed)
    assert playground.pods_by_node() == {"n1": 7}


def test_no_pod_moves_twice_for_one_reason_while_pods_and_nodes_come_and_go(
    playground: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    """Every workload has one pod: its name tells whose replacement was moved."""
    playground.add_nodes("n1", "n2")
    playground.balance = {"LowNodeUtilization": UTILIZATION}
    apps = [f"app{number}" for number in range(12)]
    playground.deploy_each(*apps, cpu="1")
    playground.await_pods_by_node(n1=6, n2=6)

    def moves() -> Counter[str]:
        return Counter(each.pod.partition("-")[0] for each in referee.evicted())

    with run_controller():
        playground.add_nodes("n3")
        playground.await_pods_by_node(n1=4, n2=4, n3=4)
        time.sleep(QUIET_S)
        for_the_first_reason = moves()

        newcomers = playground.apps_on("n3")
        playground.scale(0, *newcomers)
        playground.await_pods_by_node(n1=4, n2=4)
        playground.kubectl.run("cordon", playground.node("n3"))
        playground.scale(1, *newcomers)
        playground.await_pods_by_node(n1=6, n2=6)
        time.sleep(QUIET_S)
        assert moves() == for_the_first_reason, "there is no room elsewhere"

        playground.kubectl.run("uncordon", playground.node("n3"))
        playground.await_pods_by_node(n1=4, n2=4, n3=4)
        for_the_second_reason = moves() - for_the_first_reason
        time.sleep(5 * QUIET_S)

        assert moves() - for_the_first_reason == for_the_second_reason, "it is balanced"
    for counts in (for_the_first_reason, for_the_second_reason):
        assert sorted(counts.values()) == [1, 1, 1, 1]


def test_replicas_that_share_a_node_part_when_another_node_comes(
    playground: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    playground.add_nodes("n1")
    playground.balance = {"RemoveDuplicates": {}}
    before = playground.deploy("web", 4)

    with run_controller():
        playground.add_nodes("n2")
        playground.await_pods_by_node(n1=2, n2=2)
        time.sleep(QUIET_S)

    moved = evicted(referee)
    assert len(moved) == 2
    assert set(moved) <= before.keys(), "a replacement moved"


def test_a_skewed_spread_is_repaired_and_stays_repaired(
    playground: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    playground.add_nodes("n1", **{ZONE: "a"})
    playground.balance = {"RemovePodsViolatingTopologySpreadConstraint": {}}
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    before = playground.deploy("web", 6, topologySpreadConstraints=[constraint])

    with run_controller():
        playground.add_nodes("n2", **{ZONE: "b"})
        playground.await_pods_by_node(n1=3, n2=3)
        time.sleep(QUIET_S)

    moved = evicted(referee)
    assert len(moved) == 3
    assert set(moved) <= before.keys(), "a replacement moved"


NODE_METRIC_CRD: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "nodemetrics.slo.koordinator.sh"},
    "spec": {
        "group": "slo.koordinator.sh",
        "scope": "Cluster",
        "names": {"kind": "NodeMetric", "plural": "nodemetrics", "singular": "nodemetric"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}


@pytest.fixture
def node_metrics(playground: E2ENamespace) -> Iterator[None]:
    """Serve NodeMetrics, as with koordinator installed, while the test lasts."""
    name = NODE_METRIC_CRD["metadata"]["name"]
    playground.kubectl.apply(NODE_METRIC_CRD)
    playground.kubectl.run("wait", "--for=condition=Established", "crd", name)
    yield
    playground.kubectl.run("delete", "crd", name, "--wait=false")


@pytest.mark.usefixtures("node_metrics")
def test_a_node_that_agents_report_as_overloaded_gives_pods_to_one_with_room(
    playground: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    """Each pod is reported to use 1.5 of the 8 CPUs of its node, whatever it requests."""
    playground.add_nodes("n1")
    before = playground.deploy("web", 4)
    playground.add_nodes("n2")
    playground.balance = {
        "LowNodeLoad": {
            "lowThresholds": {"cpu": 40},
            "highThresholds": {"cpu": 60},
            "anomalyCondition": {"consecutiveAbnormalities": 1},
        }
    }

    def reported() -> bool:
        report_use(playground, "n1", "n2", app="web", cpu="1500m")
        return playground.pods_by_node() == {"n1": 3, "n2": 1}

    with run_controller():
        wait_until(reported, within_s=60, what="one pod has moved to n2")
        for _ in range(5):
            time.sleep(1)
            report_use(playground, "n1", "n2", app="web", cpu="1500m")

    moved = evicted(referee)
    assert len(moved) == 1
    assert set(moved) <= before.keys()


def report_use(playground: E2ENamespace, *nodes: str, app: str, cpu: str) -> None:
    """Write what koordinator's agents report: this use of every pod of an app, and no other."""
    moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    pods = playground.pods(app).values()
    playground.kubectl.apply(
        *(
            {
                "apiVersion": "slo.koordinator.sh/v1alpha1",
                "kind": "NodeMetric",
                "metadata": {"name": playground.node(name)},
                "status": {
                    "updateTime": moment,
                    "nodeMetric": {"systemUsage": {"resources": {"cpu": "0", "memory": "0"}}},
                    "podsMetric": [
                        {
                            "namespace": playground.namespace,
                            "name": pod.name,
                            "podUsage": {"resources": {"cpu": cpu, "memory": "64Mi"}},
                        }
                        for pod in pods
                        if pod.node == playground.node(name)
                    ],
                },
            }
            for name in nodes
        )
    )
