"""Nodes fall silent, come back, and are tainted for what ails them."""

from typing import Any

import pytest

from reactive_desched.sim.conditions import condition_status, with_condition
from reactive_desched.sim.node_switch import ANNOTATION
from tests.support.golden import verbatim
from tests.support.sim_world import SimulatedCluster

PREFIX = "node.kubernetes.io"
LOST = {f"{PREFIX}/unreachable:NoSchedule", f"{PREFIX}/unreachable:NoExecute"}


def report(world: SimulatedCluster, kind: str, status: str) -> None:
    """Let the node n1 report a condition."""

    def change(node: dict[str, Any]) -> dict[str, Any]:
        conditions = node["status"]["conditions"]
        fresh = with_condition(conditions, {"type": kind, "status": status}, "2027-01-15T08:00:00Z")
        return {**node, "status": {**node["status"], "conditions": fresh}}

    world.store.modify("nodes", "", "n1", change, subresource="status")
    world.cluster.settle()


def test_a_new_node_is_kept_empty_until_its_kubelet_reports() -> None:
    world = SimulatedCluster()
    world.store.create("nodes", {"metadata": {"name": "n1"}})
    assert world.taints("n1") == {f"{PREFIX}/not-ready:NoSchedule"}

    world.cluster.settle()

    assert world.taints("n1") == set()
    assert condition_status(world.get("nodes", "n1"), "Ready") == "True"


def test_a_cordoned_node_carries_the_matching_taint_until_it_is_uncordoned() -> None:
    world = SimulatedCluster().nodes("n1", taints=({"key": "mine", "effect": "NoSchedule"},))

    world.edit("nodes", "n1", unschedulable=True)
    cordoned = world.taints("n1")
    world.edit("nodes", "n1", unschedulable=False)

    assert cordoned == {"mine:NoSchedule", f"{PREFIX}/unschedulable:NoSchedule"}
    assert world.taints("n1") == {"mine:NoSchedule"}


@pytest.mark.parametrize(
    ("condition", "taint"),
    [
        ("MemoryPressure", "memory-pressure"),
        ("DiskPressure", "disk-pressure"),
        ("PIDPressure", "pid-pressure"),
        ("NetworkUnavailable", "network-unavailable"),
    ],
)
def test_pressure_keeps_new_pods_away(condition: str, taint: str) -> None:
    world = SimulatedCluster().nodes("n1")

    report(world, condition, "True")
    pressed = world.taints("n1")
    report(world, condition, "False")

    assert pressed == {f"{PREFIX}/{taint}:NoSchedule"}
    assert world.taints("n1") == set()


def test_a_node_that_says_it_is_not_ready_is_tainted_at_once() -> None:
    world = SimulatedCluster().nodes("n1", "n2")
    world.pod("p", nodeName="n1")
    world.advance(15)

    report(world, "Ready", "False")

    marks = {f"{PREFIX}/not-ready:NoSchedule", f"{PREFIX}/not-ready:NoExecute"}
    assert world.taints("n1") == marks
    assert world.phases() == {"p": "Running"}


def test_a_dead_kubelet_is_noticed_after_fifty_seconds_and_its_pods_go_after_five_minutes() -> None:
    world = SimulatedCluster().nodes("n1", "n2")
    world.deployment("web", 2)
    world.advance(5)
    lost = next(name for name, place in world.nodes_of_pods().items() if place == "n1")
    world.cluster.stop_node("n1")

    world.advance(49)
    assert world.taints("n1") == set()
    assert world.phases()[lost] == "Ready"
    world.advance(1)
    assert world.taints("n1") == LOST
    assert condition_status(world.get("nodes", "n1"), "Ready") == "Unknown"
    assert world.phases()[lost] == "Running"
    world.advance(299)
    assert world.phases()[lost] == "Running"
    world.advance(1)

    assert world.phases()[lost] == "Terminating"
    world.advance(1000)
    assert world.phases()[lost] == "Terminating"
    assert sorted(world.nodes_of_pods().values()) == ["n1", "n2", "n2"]


def test_a_node_that_comes_back_finishes_its_terminating_pods_and_is_used_again() -> None:
    world = SimulatedCluster().nodes("n1", "n2")
    world.deployment("web", 2)
    world.advance(5)
    lost = next(name for name, place in world.nodes_of_pods().items() if place == "n1")
    world.cluster.stop_node("n1")
    world.advance(400)

    world.cluster.start_node("n1")
    world.advance(5)

    assert world.taints("n1") == set()
    assert lost not in world.names()
    world.edit("deployments", "web", replicas=4)
    assert "n1" in world.nodes_of_pods().values()
    assert verbatim("Node n1 status is now: NodeReady") in world.events("NodeReady")


def test_pods_of_a_node_that_comes_back_in_time_are_ready_again() -> None:
    world = SimulatedCluster().nodes("n1")
    world.pod("p")
    world.advance(5)
    world.cluster.stop_node("n1")
    world.advance(100)
    assert world.phases() == {"p": "Running"}

    world.cluster.start_node("n1")
    world.advance(1)

    assert world.phases() == {"p": "Ready"}


def test_a_node_that_never_reported_is_given_a_minute_and_keeps_its_pods_so_long() -> None:
    world = SimulatedCluster()
    meta = {"name": "n1", "annotations": {ANNOTATION: "down"}}
    world.nodes("n2").store.create("nodes", {"metadata": meta})
    world.pod("early", nodeName="n1", tolerations=[])
    world.advance(59)
    assert world.taints("n1") == {f"{PREFIX}/not-ready:NoSchedule"}
    world.advance(1)

    assert world.taints("n1") == LOST
    (ready,) = [c for c in world.status("nodes", "n1")["conditions"] if c["type"] == "Ready"]
    assert (ready["status"], ready["reason"]) == ("Unknown", "NodeStatusNeverUpdated")
