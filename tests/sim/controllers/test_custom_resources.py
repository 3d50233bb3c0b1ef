"""Definitions are accepted, and take the objects of their kind along."""

import pytest

from reactive_desched.sim.conditions import condition_status
from reactive_desched.sim.objects import Obj
from tests.support.custom_resources import definition
from tests.support.sim_world import SimulatedCluster

DEFINITIONS = "customresourcedefinitions"


def define(world: SimulatedCluster, made: Obj) -> str:
    """Return whether the definition is established."""
    world.store.create(DEFINITIONS, made)
    world.cluster.settle()
    found = world.get(DEFINITIONS, made["metadata"]["name"])
    return condition_status(found, "Established") or ""


def widget(name: str, namespace: str = "default", **meta: object) -> Obj:
    return {"metadata": {"name": name, "namespace": namespace, **meta}, "spec": {}}


def test_a_definition_is_established_and_its_objects_go_with_it() -> None:
    world = SimulatedCluster()
    assert define(world, definition()) == "True"
    stored = world.status(DEFINITIONS, "widgets.example.com")
    assert (stored["storedVersions"], stored["acceptedNames"]["kind"]) == (["v1"], "Widget")
    world.store.create("widgets", widget("kept", finalizers=["example.com/wait"]))
    world.store.create("widgets", widget("w"))

    world.delete(DEFINITIONS, "widgets.example.com")
    world.advance(5)
    (left,) = world.store.list("widgets")
    assert left["metadata"]["name"] == "kept"
    world.store.modify("widgets", "default", "kept", lambda it: it | widget("kept"))
    world.advance(5)

    assert world.store.list(DEFINITIONS) == []
    assert world.store.kinds.view("example.com", "v1", "widgets") is None
    assert define(world, definition()) == "True"


@pytest.mark.parametrize(
    ("made", "established"),
    [
        (definition("pods"), "False"),
        (definition("podmigrationjobs", "scheduling.koordinator.sh"), "True"),
    ],
)
def test_a_built_in_kind_keeps_its_plural(made: Obj, established: str) -> None:
    world = SimulatedCluster().nodes("n1")
    world.pod("p")
    assert define(world, made) == established

    world.delete(DEFINITIONS, made["metadata"]["name"])

    assert world.store.list(DEFINITIONS) == []
    assert world.names() == {"p"}
    assert world.store.kinds.view("scheduling.koordinator.sh", "v1alpha1", "podmigrationjobs")


def test_the_second_definition_of_a_plural_is_not_accepted() -> None:
    world = SimulatedCluster()
    define(world, definition())
    assert define(world, definition(group="other.example.com")) == "False"


def test_custom_resources_own_and_are_owned_and_go_with_their_namespace() -> None:
    world = SimulatedCluster().nodes("n1")
    define(world, definition())
    world.store.create("namespaces", {"metadata": {"name": "home"}})
    owner = world.store.create("widgets", widget("owner", "home"))
    meta = owner["metadata"]
    reference = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "name": "owner",
        "uid": meta["uid"],
    }
    world.store.create("widgets", widget("owned", "home", ownerReferences=[reference]))
    config = {"metadata": {"name": "of-it", "namespace": "home", "ownerReferences": [reference]}}
    world.store.create("configmaps", config)
    world.store.create("widgets", widget("other", "home"))
    world.cluster.settle()

    world.store.delete("widgets", "home", "owner")
    world.cluster.settle()
    assert [each["metadata"]["name"] for each in world.store.list("widgets")] == ["other"]
    assert world.store.get("configmaps", "home", "of-it") is None
    world.store.delete("namespaces", "", "home")
    world.advance(60)

    assert world.store.list("widgets") == []
    assert world.store.get("namespaces", "", "home") is None
