"""Dependents follow their owners, in the order that was asked for."""

from reactive_desched.sim.store import DeleteOptions
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


def test_what_another_owner_has_too_stays_when_one_waits_for_its_dependents() -> None:
    world = SimulatedCluster()

    def reference(name: str) -> dict[str, object]:
        owner = world.get("configmaps", name)
        head = {"apiVersion": "v1", "kind": "ConfigMap", "name": name}
        return {**head, "uid": owner["metadata"]["uid"], "blockOwnerDeletion": True}

    for name in ("going", "staying"):
        world.create("configmaps", name, {})
    world.create("secrets", "both", {}, ownerReferences=list(map(reference, ("going", "staying"))))
    world.create("secrets", "one", {}, ownerReferences=[reference("going")])

    foreground = DeleteOptions(propagation_policy="Foreground")
    world.store.delete("configmaps", "default", "going", foreground)
    world.cluster.settle()

    assert world.store.get("configmaps", "default", "going") is None
    assert world.store.get("secrets", "default", "one") is None
    owners = world.get("secrets", "both")["metadata"]["ownerReferences"]
    assert [each["name"] for each in owners] == ["staying"]
