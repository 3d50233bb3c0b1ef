"""A budget over pods of a custom resource counts against what its Scale says."""

from typing import Any

from tests.support.custom_resources import definition
from tests.support.sim_world import SimulatedCluster, pod_template


def with_pods(subresources: dict[str, Any]) -> SimulatedCluster:
    """Return a cluster with two Ready pods of a Widget that wants five."""
    world = SimulatedCluster().nodes("n1")
    made = definition()
    for version in made["spec"]["versions"]:
        version["subresources"] = subresources
    world.store.create("customresourcedefinitions", made)
    world.cluster.settle()
    meta = {"name": "w", "namespace": "default"}
    owner = world.store.create("widgets", {"metadata": meta, "spec": {"size": 5}})
    reference = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "name": "w",
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    for name in ("one", "two"):
        pod = pod_template("w")
        named = {**pod["metadata"], "name": name, "namespace": "default"}
        named["ownerReferences"] = [reference]
        world.store.create("pods", {"metadata": named, "spec": pod["spec"]})
    world.pdb("w", maxUnavailable=4)
    return world.advance(5)


def test_pods_that_are_missing_count_as_unavailable() -> None:
    paths = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    status = with_pods({"status": {}, "scale": paths}).status("poddisruptionbudgets", "w")

    assert (status["expectedPods"], status["disruptionsAllowed"]) == (5, 1)


def test_without_a_scale_nothing_may_be_evicted() -> None:
    status = with_pods({"status": {}}).status("poddisruptionbudgets", "w")

    assert status["disruptionsAllowed"] == 0
    (condition,) = status["conditions"]
    assert condition["reason"] == "SyncFailed"
