"""Nodes that shut down gracefully."""

from typing import Any

from reactive_desched.sim.conditions import find_condition
from reactive_desched.sim.node_switch import ANNOTATION
from tests.support.golden import verbatim
from tests.support.sim_world import SimulatedCluster


def shut_down(world: SimulatedCluster, node: str = "n1") -> None:
    """Turn the switch of a node, as kubectl annotate does."""

    def change(current: dict[str, Any]) -> dict[str, Any]:
        return {
            **current,
            "metadata": {**current["metadata"], "annotations": {ANNOTATION: "shutdown"}},
        }

    world.store.modify("nodes", "", node, change)
    world.cluster.settle()


def critical(world: SimulatedCluster) -> None:
    """Create an agent of the node."""
    spec = {
        "containers": [{"name": "main", "image": "example/agent:1"}],
        "priorityClassName": "system-node-critical",
        "nodeName": "n1",
    }
    world.store.create(
        "pods", {"metadata": {"name": "agent", "namespace": "kube-system"}, "spec": spec}
    )


def agent_phase(world: SimulatedCluster) -> str:
    """Return the phase of the agent."""
    agent = world.store.get("pods", "kube-system", "agent")
    assert agent is not None
    return str(agent["status"]["phase"])


def test_pods_end_as_terminated_critical_ones_later_and_replacements_go_elsewhere() -> None:
    world = SimulatedCluster().nodes("n1")
    world.deployment("web", 1)
    critical(world)
    world.advance(5)
    world.nodes("n2")

    shut_down(world)

    (ended,) = [pod for pod in world.pods("web") if pod["status"]["phase"] == "Failed"]
    message = verbatim("Pod was terminated in response to imminent node shutdown.")
    assert (ended["status"]["reason"], ended["status"]["message"]) == ("Terminated", message)
    mark = find_condition(ended, "DisruptionTarget")
    assert mark is not None
    assert (mark["reason"], mark["message"]) == ("TerminationByKubelet", message)
    ready = find_condition(world.get("nodes", "n1"), "Ready")
    assert ready is not None
    assert (ready["status"], ready["message"]) == ("False", "node is shutting down")
    assert agent_phase(world) == "Running"
    world.advance(10)
    assert agent_phase(world) == "Failed"
    others = [pod for pod in world.pods("web") if pod["status"]["phase"] == "Running"]
    assert [pod["spec"]["nodeName"] for pod in others] == ["n2"]


def test_no_pod_is_admitted_while_the_node_shuts_down_and_then_it_is_silent() -> None:
    world = SimulatedCluster().nodes("n1").advance(5)
    shut_down(world)

    world.pod("late", nodeName="n1")
    world.advance(5)

    status = world.status("pods", "late")
    assert (status["phase"], status["reason"]) == ("Failed", "NodeShutdown")
    world.advance(90)
    ready = find_condition(world.get("nodes", "n1"), "Ready")
    assert ready is not None
    assert (ready["status"], ready["reason"]) == ("Unknown", "NodeStatusUnknown")
