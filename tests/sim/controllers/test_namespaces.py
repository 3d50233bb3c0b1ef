"""Namespaces come furnished and leave nothing behind."""

from reactive_desched.sim.conditions import find_condition
from reactive_desched.sim.controllers.namespaces import ROOT_CA
from tests.support.golden import verbatim
from tests.support.sim_world import SimulatedCluster, workload


def test_a_new_namespace_gets_its_service_account() -> None:
    world = SimulatedCluster()

    world.store.create("namespaces", {"metadata": {"name": "shop"}})
    world.cluster.settle()

    assert world.store.get("serviceaccounts", "shop", "default") is not None


def test_each_namespace_has_the_config_map_of_the_certificate_and_gets_it_again() -> None:
    world = SimulatedCluster()
    world.cluster.settle()
    homes = {each["metadata"]["namespace"] for each in world.store.list("configmaps")}
    assert homes == {each["metadata"]["name"] for each in world.store.list("namespaces")}

    world.store.delete("configmaps", "default", ROOT_CA)
    world.cluster.settle()
    assert world.store.get("configmaps", "default", ROOT_CA) is not None

    world.store.create("namespaces", {"metadata": {"name": "shop"}})
    world.delete("namespaces", "shop")
    world.advance(10)
    assert world.store.list("configmaps", "shop") == []


def test_a_deleted_namespace_goes_when_its_last_pod_is_gone() -> None:
    world = SimulatedCluster().nodes("n1")
    world.store.create("namespaces", {"metadata": {"name": "shop"}})
    meta = {"name": "web", "namespace": "shop"}
    world.store.create("deployments", {"metadata": meta, "spec": workload("web", 2)})
    world.advance(5)

    world.delete("namespaces", "shop")
    world.advance(4)
    phase = world.get("namespaces", "shop")["status"]["phase"]
    objects = [world.store.list(each, "shop") for each in ("deployments", "pods")]
    world.advance(6)

    assert phase == "Terminating"
    assert [len(each) for each in objects] == [1, 2]  # `kubectl delete -k` deletes them, too
    assert world.store.get("namespaces", "", "shop") is None
    assert world.store.list("pods", "shop") == []
    assert world.store.list("deployments", "shop") == []


def test_pods_go_first_and_conditions_say_what_is_left() -> None:
    world = SimulatedCluster().nodes("n1")
    world.store.create("namespaces", {"metadata": {"name": "shop"}})
    held = {"name": "web", "namespace": "shop", "finalizers": ["example.com/hold"]}
    spec = {"containers": [{"name": "c", "image": "app:1"}]}
    for resource, more in (("pods", {"spec": spec}), ("configmaps", {}), ("secrets", {})):
        world.store.create(resource, {"metadata": held, **more})
    world.advance(5)

    def said(kind: str) -> tuple[str, str]:
        found = find_condition(world.get("namespaces", "shop"), kind)
        assert found is not None
        return found["status"], found["message"]

    world.delete("namespaces", "shop")
    world.advance(10)
    secret = world.store.get("secrets", "shop", "web")
    assert secret is not None
    assert "deletionTimestamp" not in secret["metadata"]  # a pod is still there
    assert said("NamespaceDeletionContentFailure")[0] == "False"

    release(world, "pods")
    release(world, "secrets")
    world.advance(10)
    assert said("NamespaceContentRemaining") == (
        "True",
        verbatim("Some resources are remaining: configmaps. has 1 resource instances"),
    )
    assert said("NamespaceFinalizersRemaining") == (
        "True",
        verbatim(
            "Some content in the namespace has finalizers remaining:"
            " example.com/hold in 1 resource instances"
        ),
    )
    release(world, "configmaps")
    world.advance(10)
    assert world.store.get("namespaces", "", "shop") is None


def release(world: SimulatedCluster, resource: str) -> None:
    """Let an object in the namespace `shop` go."""
    world.store.modify(
        resource,
        "shop",
        "web",
        lambda obj: {**obj, "metadata": {**obj["metadata"], "finalizers": []}},
    )
