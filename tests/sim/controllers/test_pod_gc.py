"""Pods whose node is gone are cleared away."""

from tests.support.sim_world import SimulatedCluster


def test_pods_of_a_deleted_node_go_after_forty_seconds() -> None:
    world = SimulatedCluster().nodes("n1", "n2")
    world.deployment("web", 1)
    world.advance(5)
    (old,) = world.names()

    world.delete("nodes", "n1")
    world.advance(39)
    assert world.names() == {old}
    world.advance(2)

    assert old not in world.names()
    assert set(world.nodes_of_pods().values()) == {"n2"}


def test_a_node_that_returns_in_time_keeps_its_pods() -> None:
    world = SimulatedCluster().nodes("n1")
    world.pod("p")
    world.advance(5)
    world.delete("nodes", "n1")
    world.advance(30)

    world.nodes("n1").advance(60)

    assert world.phases() == {"p": "Ready"}


def test_a_node_that_returns_in_time_may_finish_its_terminating_pods() -> None:
    world = SimulatedCluster().nodes("n1")
    slow = {"sim.reactive-desched/shutdown-seconds": "100"}
    world.pod("p", annotations=slow, terminationGracePeriodSeconds=200)
    world.advance(5)
    world.delete("pods", "p")
    world.delete("nodes", "n1")
    world.advance(30)

    world.nodes("n1").advance(30)

    assert world.phases() == {"p": "Terminating"}


def test_a_pod_bound_to_a_node_that_never_was_goes_too() -> None:
    world = SimulatedCluster()
    world.pod("p", nodeName="nowhere")
    world.advance(39)
    assert world.names() == {"p"}

    world.advance(2)

    assert world.names() == set()


def test_a_lost_node_put_out_of_service_gives_up_its_terminating_pods() -> None:
    world = SimulatedCluster().nodes("n1", "n2")
    world.stateful_set("db", 1)
    world.advance(5)
    assert world.nodes_of_pods() == {"db-0": "n1"}
    world.cluster.stop_node("n1")
    world.advance(400)
    assert world.phases() == {"db-0": "Terminating"}

    taints = world.get("nodes", "n1")["spec"]["taints"]
    out = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
    world.edit("nodes", "n1", taints=[*taints, out])
    world.advance(5)

    assert world.nodes_of_pods() == {"db-0": "n2"}
    assert world.phases() == {"db-0": "Ready"}


def test_a_pod_that_stands_every_taint_stays_on_a_node_out_of_service() -> None:
    world = SimulatedCluster().nodes("n1")
    world.pod("p", tolerations=[{"operator": "Exists"}])
    world.advance(5)
    world.cluster.stop_node("n1")
    world.advance(100)

    taints = world.get("nodes", "n1")["spec"]["taints"]
    out = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
    world.edit("nodes", "n1", taints=[*taints, out])
    world.advance(100)

    assert world.phases() == {"p": "Running"}


def test_of_too_many_pods_that_ended_the_evicted_and_then_the_oldest_go() -> None:
    world = SimulatedCluster(most_ended_pods=2).nodes("n1")
    for name in ("a", "b", "c", "d", "runs"):
        world.pod(name)
        world.advance(1)
    for name, reason in (("b", ""), ("a", ""), ("d", "Evicted"), ("c", "")):
        world.store.modify(
            "pods",
            "default",
            name,
            lambda pod, why=reason: {  # type: ignore[misc]
                **pod,
                "status": {**pod["status"], "phase": "Failed", **({"reason": why} if why else {})},
            },
            subresource="status",
        )
    assert world.names() == {"a", "b", "c", "d", "runs"}

    world.advance(21)

    assert world.names() == {"b", "c", "runs"}
