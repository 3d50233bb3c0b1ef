"""Dependents follow their owners, in the order that was asked for."""

from tests.support.sim_world import SimulatedCluster


def test_deleting_a_deployment_takes_everything_below_it() -> None:
    world = SimulatedCluster().nodes("n1")
    world.deployment("web", 2)
    world.advance(5)

    world.delete("deployments", "web")
    assert world.store.list("replicasets") == []
    assert set(world.phases().values()) == {"Terminating"}
    world.advance(5)

    assert world.names() == set()


def test_in_the_foreground_the_owner_waits_for_its_dependents() -> None:
    world = SimulatedCluster().nodes("n1")
    world.deployment("web", 1)
    world.advance(5)

    world.delete("deployments", "web", propagation_policy="Foreground")

    assert world.get("deployments", "web")["metadata"]["deletionTimestamp"]
    assert set(world.phases().values()) == {"Terminating"}
    world.advance(5)
    assert world.store.list("deployments") == []
    assert world.store.list("replicasets") == []
    assert world.names() == set()


def test_orphans_stay_and_forget_their_owner() -> None:
    world = SimulatedCluster().nodes("n1")
    world.deployment("web", 1)
    world.advance(5)

    world.delete("deployments", "web", propagation_policy="Orphan")
    world.advance(5)

    assert world.store.list("deployments") == []
    (rs,) = world.store.list("replicasets")
    assert not rs["metadata"].get("ownerReferences")
    assert set(world.phases().values()) == {"Ready"}


def test_an_object_whose_owner_never_existed_is_deleted() -> None:
    world = SimulatedCluster()
    ghost = {"apiVersion": "v1", "kind": "ConfigMap", "name": "ghost", "uid": "no-such-uid"}

    world.create("configmaps", "left", {}, ownerReferences=[ghost])

    assert world.store.get("configmaps", "default", "left") is None


def test_one_existing_owner_is_enough() -> None:
    world = SimulatedCluster()
    owner = world.create("configmaps", "owner", {})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner"}
    alive = {**reference, "uid": owner["metadata"]["uid"]}
    ghost = {**reference, "name": "ghost", "uid": "no-such-uid"}

    world.create("configmaps", "shared", {}, ownerReferences=[ghost, alive])

    assert world.get("configmaps", "shared")["metadata"]["ownerReferences"] == [alive]
