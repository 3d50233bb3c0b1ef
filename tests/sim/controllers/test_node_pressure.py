"""Nodes that run short of memory or disk, and the pods that their kubelets end."""

from typing import Any

import pytest

from reactive_desched.sim.conditions import find_condition
from reactive_desched.sim.controllers.node_pressure import TRANSITION_S
from reactive_desched.sim.objects import Obj
from tests.support.golden import verbatim
from tests.support.sim_world import SimulatedCluster

SHORT = "node.kubernetes.io/memory-pressure:NoSchedule"


def using(memory: str = "", disk: str = "") -> dict[str, str]:
    """Return the annotations of a pod that uses so much."""
    wished = {"usage-memory": memory, "usage-ephemeral-storage": disk}
    return {f"sim.reactive-desched/{name}": amount for name, amount in wished.items() if amount}


def cluster(**node: Any) -> SimulatedCluster:
    """Return a cluster of one node with eight gibibytes, of which the system uses half of one."""
    return SimulatedCluster().nodes("n1", **node)


def condition(world: SimulatedCluster, kind: str) -> Obj:
    """Return a condition of the node."""
    found = find_condition(world.get("nodes", "n1"), kind)
    assert found is not None
    return found


def test_a_pod_that_uses_more_than_it_asked_for_ends_as_evicted_when_memory_is_short() -> None:
    world = cluster()
    world.deployment("quiet", 1, memory="1Gi", annotations=using("1Gi"))
    world.pod("greedy", memory="2Gi", annotations=using("6600Mi"))

    world.advance(20)

    status = world.status("pods", "greedy")
    message = verbatim(
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 56Mi. "
        "Container main was using 6600Mi, request is 2Gi, has larger consumption of memory. "
    )
    assert (status["phase"], status["reason"], status["message"]) == ("Failed", "Evicted", message)
    mark = find_condition(world.get("pods", "greedy"), "DisruptionTarget")
    assert mark is not None
    assert (mark["status"], mark["reason"], mark["message"]) == (
        "True",
        "TerminationByKubelet",
        message,
    )
    assert set(world.phases("quiet").values()) == {"Ready"}
    assert world.events("Evicted") == [message]
    assert world.events("EvictionThresholdMet") == ["Attempting to reclaim memory"]


def test_the_node_says_so_and_is_closed_until_five_minutes_after_the_shortage() -> None:
    world = cluster()
    world.pod("greedy", annotations=using("8Gi"))
    world.advance(20)

    short = condition(world, "MemoryPressure")
    assert (short["status"], short["reason"]) == ("True", "KubeletHasInsufficientMemory")
    assert SHORT in world.taints("n1")
    world.advance(TRANSITION_S - 20)
    assert condition(world, "MemoryPressure")["status"] == "True"
    world.advance(40)

    enough = condition(world, "MemoryPressure")
    assert (enough["status"], enough["reason"]) == ("False", "KubeletHasSufficientMemory")
    for reason in ("NodeHasInsufficientMemory", "NodeHasSufficientMemory"):
        assert world.events(reason) == [f"Node n1 status is now: {reason}"]
    assert SHORT not in world.taints("n1")


@pytest.mark.parametrize(
    ("first", "pods"),
    [
        pytest.param(
            "above", {"above": ("2Gi", "3Gi", "high"), "within": ("5Gi", "5Gi", "low")}, id="above"
        ),
        pytest.param(
            "low", {"low": ("1Gi", "2Gi", "low"), "high": ("1Gi", "6Gi", "high")}, id="priority"
        ),
        pytest.param(
            "more", {"less": ("2Gi", "4Gi", "low"), "more": ("1Gi", "4Gi", "low")}, id="by how much"
        ),
    ],
)
def test_the_first_to_end_is_above_its_request_of_low_priority_and_large(
    first: str, pods: dict[str, tuple[str, str, str]]
) -> None:
    world = cluster()
    for name, value in (("low", 1), ("high", 1000)):
        world.store.create("priorityclasses", {"metadata": {"name": name}, "value": value})
    for name, (asked, used, priority) in pods.items():
        notes = using(used)
        world.pod(name, memory=asked, priorityClassName=priority, annotations=notes)

    world.advance(19)

    assert {name for name, phase in world.phases().items() if phase == "Failed"} == {first}


def test_one_pod_ends_at_each_look_until_there_is_enough_again() -> None:
    world = cluster()
    for number in range(4):
        world.pod(f"p{number}", annotations=using("3Gi"))
    world.advance(10)
    assert sorted(world.phases().values()).count("Failed") == 1

    world.advance(30)

    assert sorted(world.phases().values()) == ["Failed", "Failed", "Ready", "Ready"]


def test_a_critical_pod_stays_and_a_node_without_others_stays_short() -> None:
    world = cluster()
    critical = {"priorityClassName": "system-node-critical", "annotations": using("8Gi")}
    world.store.create(
        "pods",
        {
            "metadata": {
                "name": "agent",
                "namespace": "kube-system",
                "annotations": critical["annotations"],
            },
            "spec": {
                "containers": [{"name": "main", "image": "example/agent:1"}],
                "priorityClassName": "system-node-critical",
            },
        },
    )
    world.advance(TRANSITION_S * 2)

    assert condition(world, "MemoryPressure")["status"] == "True"
    agent = world.store.get("pods", "kube-system", "agent")
    assert agent is not None
    assert agent["status"]["phase"] == "Running"


def test_disk_is_short_below_a_tenth_and_no_pod_is_admitted_then() -> None:
    world = cluster()
    world.pod("logs", annotations=using(disk="95Gi"))
    world.advance(20)

    assert world.status("pods", "logs")["reason"] == "Evicted"
    assert condition(world, "DiskPressure")["reason"] == "KubeletHasDiskPressure"
    world.pod("sent", cpu="1", nodeName="n1")
    world.advance(5)

    refused = world.status("pods", "sent")
    message = "The node had condition: [DiskPressure]. "
    assert (refused["phase"], refused["reason"], refused["message"]) == (
        "Failed",
        "Evicted",
        message,
    )


def test_under_memory_pressure_only_best_effort_pods_without_a_toleration_are_refused() -> None:
    world = cluster()
    world.pod("greedy", annotations=using("8Gi"))
    world.advance(20)
    tolerated = [{"key": "node.kubernetes.io/memory-pressure", "operator": "Exists"}]

    world.pod("best-effort", nodeName="n1")
    world.pod("burstable", cpu="1", nodeName="n1")
    world.pod("tolerant", nodeName="n1", tolerations=tolerated)
    world.advance(5)

    phases = world.phases()
    assert [phases[name] for name in ("best-effort", "burstable", "tolerant")] == [
        "Failed",
        "Ready",
        "Ready",
    ]


def test_the_replacement_of_an_evicted_replica_goes_to_another_node() -> None:
    world = SimulatedCluster().nodes("n1", "n2")
    world.deployment("web", 1, memory="1Gi", annotations=using("1Gi"))
    world.advance(5)
    (before,) = world.nodes_of_pods().values()

    for name in world.names("web"):
        world.store.modify(
            "pods",
            "default",
            name,
            lambda pod: {
                **pod,
                "metadata": {**pod["metadata"], "annotations": using("8Gi")},
            },
        )
    world.advance(30)

    ended = [pod for pod in world.pods("web") if pod["status"]["phase"] == "Failed"]
    others = [pod for pod in world.pods("web") if pod["status"]["phase"] == "Running"]
    assert [pod["spec"]["nodeName"] for pod in ended] == [before]
    assert [pod["spec"]["nodeName"] != before for pod in others] == [True]


SOFT = "sim.reactive-desched/eviction-soft"
KUBELET = {
    SOFT: "memory.available<2Gi",
    f"{SOFT}-grace-period": "memory.available=1m30s",
    "sim.reactive-desched/eviction-max-pod-grace-period": "20",
}


def with_thresholds(**more: str) -> SimulatedCluster:
    """Return a cluster whose kubelet has a soft threshold, for a minute and a half."""
    world = cluster()
    notes = {
        **KUBELET,
        **{f"sim.reactive-desched/{key.replace('_', '-')}": more[key] for key in more},
    }
    world.store.modify(
        "nodes", "", "n1", lambda it: {**it, "metadata": {**it["metadata"], "annotations": notes}}
    )
    return world


def test_a_soft_threshold_ends_a_pod_once_it_was_met_for_its_grace_period() -> None:
    world = with_thresholds()
    slow = {**using("6Gi"), "sim.reactive-desched/shutdown-seconds": "60"}
    world.pod("greedy", memory="1Gi", annotations=slow, terminationGracePeriodSeconds=50)
    world.advance(30)
    assert condition(world, "MemoryPressure")["status"] == "True"  # at once, as the kubelet's
    assert world.phases() == {"greedy": "Ready"}

    world.advance(75)
    assert world.events("Evicted")
    assert world.phases() == {"greedy": "Ready"}  # it shuts down, for 20 s at most
    world.advance(20)
    status = world.status("pods", "greedy")
    assert (status["phase"], status["reason"]) == ("Failed", "Evicted")
    assert "Threshold quantity: 2Gi, available: 1536Mi" in status["message"]


def test_a_shortage_that_ends_in_time_ends_no_pod_and_the_next_one_waits_anew() -> None:
    world = with_thresholds()
    world.pod("greedy", annotations=using("6Gi"))

    def use(memory: str) -> None:
        world.store.modify(
            "pods",
            "default",
            "greedy",
            lambda it: {**it, "metadata": {**it["metadata"], "annotations": using(memory)}},
        )

    for _ in range(2):
        world.advance(60)
        use("1Gi")
        world.advance(20)
        use("6Gi")
    assert world.phases() == {"greedy": "Ready"}
    world.advance(120)

    assert world.phases() == {"greedy": "Failed"}


def test_hard_thresholds_are_those_of_the_annotation() -> None:
    world = with_thresholds(eviction_hard="memory.available<25%")
    world.pod("greedy", annotations=using("6Gi"))
    world.advance(20)

    assert world.phases() == {"greedy": "Failed"}
