"""A DaemonSet has one pod on every node it belongs on."""

from typing import Any

from tests.support.sim_world import SimulatedCluster, pod_template


def daemon_set(
    world: SimulatedCluster, more: dict[str, Any] | None = None, **template: Any
) -> None:
    """Create a DaemonSet called agent."""
    spec = {
        **(more or {}),
        "selector": {"matchLabels": {"app": "agent"}},
        "template": pod_template("agent", **template),
    }
    world.create("daemonsets", "agent", spec)


def nodes_with_agent(world: SimulatedCluster) -> list[str]:
    """Return the node of each pod, sorted."""
    return sorted(world.nodes_of_pods("agent").values())


def test_every_node_gets_one_also_those_that_come_later() -> None:
    world = SimulatedCluster().nodes("n1", "n2")
    daemon_set(world)
    assert nodes_with_agent(world) == ["n1", "n2"]

    world.nodes("n3")

    assert nodes_with_agent(world) == ["n1", "n2", "n3"]


def test_selector_and_hard_taints_keep_it_off_a_node_but_a_cordon_does_not() -> None:
    world = SimulatedCluster().nodes("n1", labels={"pool": "a"}).nodes("n2")
    gpu = {"key": "gpu", "effect": "NoSchedule"}
    world.nodes("n3", labels={"pool": "a"}, taints=(gpu,)).nodes("n4", labels={"pool": "a"})
    world.edit("nodes", "n4", unschedulable=True)

    daemon_set(world, nodeSelector={"pool": "a"})

    assert nodes_with_agent(world) == ["n1", "n4"]
    status = world.status("daemonsets", "agent")
    assert status["desiredNumberScheduled"] == status["currentNumberScheduled"] == 2


def test_an_evicted_pod_is_made_again_on_its_node_when_the_old_one_is_gone() -> None:
    world = SimulatedCluster().nodes("n1", "n2")
    daemon_set(world)
    world.advance(5)
    old = next(name for name, place in world.nodes_of_pods().items() if place == "n1")

    world.evict(old)
    assert nodes_with_agent(world) == ["n1", "n2"]
    world.advance(5)

    assert nodes_with_agent(world) == ["n1", "n2"]
    assert old not in world.names()


def test_a_node_that_stops_matching_loses_its_pod() -> None:
    world = SimulatedCluster().nodes("n1", labels={"pool": "a"})
    daemon_set(world, nodeSelector={"pool": "a"})
    world.advance(5)

    def relabelled(node: dict[str, Any]) -> dict[str, Any]:
        node["metadata"]["labels"]["pool"] = "b"
        return node

    world.store.modify("nodes", "", "n1", relabelled)
    world.advance(5)

    assert world.names() == set()


def test_a_pod_whose_node_is_gone_is_left_to_the_pod_garbage_collector() -> None:
    world = SimulatedCluster().nodes("n1", "n2")
    daemon_set(world)
    world.advance(5)

    world.store.delete("nodes", "", "n1")
    world.advance(30)
    assert nodes_with_agent(world) == ["n1", "n2"]
    assert world.status("daemonsets", "agent")["desiredNumberScheduled"] == 1
    world.advance(30)

    assert nodes_with_agent(world) == ["n2"]


def test_pods_stay_on_a_silent_node() -> None:
    world = SimulatedCluster().nodes("n1")
    daemon_set(world)
    world.advance(5)
    before = world.names()
    world.cluster.stop_node("n1")

    world.advance(1000)

    assert world.names() == before
    assert "Terminating" not in world.phases().values()


def test_an_update_replaces_one_pod_at_a_time() -> None:
    world = SimulatedCluster().nodes("n1", "n2")
    daemon_set(world)
    world.advance(5)

    world.edit("daemonsets", "agent", template=pod_template("agent", labels={"v": "2"}))
    assert sorted(world.phases().values()) == ["Ready", "Terminating"]
    world.advance(20)

    assert {pod["metadata"]["labels"]["v"] for pod in world.pods()} == {"2"}


def updating(**rolling: Any) -> SimulatedCluster:
    """Return a cluster of four nodes whose DaemonSet has a new template since a moment."""
    world = SimulatedCluster().nodes("n1", "n2", "n3", "n4")
    more = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}
    daemon_set(world, {**more, "minReadySeconds": 10})
    world.advance(20)
    world.edit("daemonsets", "agent", template=pod_template("agent", labels={"v": "2"}))
    return world


def test_as_many_pods_are_replaced_at_a_time_as_may_be_unavailable() -> None:
    world = updating(maxUnavailable="50%", maxSurge=0)

    assert sorted(world.phases().values()) == ["Ready", "Ready", "Terminating", "Terminating"]
    world.advance(1)
    while (status := world.status("daemonsets", "agent"))["numberReady"] < 4:
        world.advance(1)
    assert status["numberAvailable"] == 2
    assert "Terminating" not in world.phases().values()
    world.advance(60)

    assert {pod["metadata"]["labels"].get("v") for pod in world.pods()} == {"2"}


def test_with_a_surge_an_old_pod_leaves_when_the_new_one_of_its_node_is_available() -> None:
    world = updating(maxUnavailable=0, maxSurge=2)

    assert "Terminating" not in world.phases().values()
    assert len(world.pods()) == 6
    world.advance(8)
    assert world.status("daemonsets", "agent")["numberAvailable"] == 4
    assert len(world.pods()) == 6
    world.advance(60)

    assert nodes_with_agent(world) == ["n1", "n2", "n3", "n4"]
    assert {pod["metadata"]["labels"].get("v") for pod in world.pods()} == {"2"}


def test_an_update_whose_surge_is_taken_back_leaves_one_pod_on_each_node() -> None:
    world = updating(maxUnavailable=0, maxSurge=2)
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}

    world.edit("daemonsets", "agent", updateStrategy=rolling)
    world.advance(300)

    assert nodes_with_agent(world) == ["n1", "n2", "n3", "n4"]
    assert {pod["metadata"]["labels"].get("v") for pod in world.pods()} == {"2"}


def test_events_say_which_pods_were_made_and_deleted() -> None:
    world = SimulatedCluster().nodes("n1", labels={"pool": "a"})
    daemon_set(world, nodeSelector={"pool": "a"})
    world.advance(5)
    (name,) = world.names()
    assert world.events("SuccessfulCreate") == [f"Created pod: {name}"]
    node = world.get("nodes", "n1")
    world.store.update("nodes", {**node, "metadata": {**node["metadata"], "labels": {}}})
    world.advance(5)

    assert world.events("SuccessfulDelete") == [f"Deleted pod: {name}"]
