"""Claims find volumes by their class, and volumes go with their claims."""

from typing import Any

import pytest

from tests.support.golden import verbatim
from tests.support.sim_world import SimulatedCluster

ONE = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
USED = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}


CLAIMS, VOLUMES = "persistentvolumeclaims", "persistentvolumes"


def storage_class(world: SimulatedCluster, name: str, mode: str, **fields: Any) -> None:
    own = {"provisioner": "example.com/disk", "volumeBindingMode": mode, **fields}
    world.store.create("storageclasses", {"metadata": {"name": name}, **own})
    world.cluster.settle()


def volume(world: SimulatedCluster, name: str, size: str, **fields: Any) -> None:
    spec = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], **fields}
    world.store.create(VOLUMES, {"metadata": {"name": name}, "spec": spec})
    world.cluster.settle()


def phase(world: SimulatedCluster, name: str = "data") -> str:
    found: str = world.status(CLAIMS, name)["phase"]
    return found


def test_a_claim_of_the_default_class_waits_for_its_first_pod() -> None:
    world = SimulatedCluster().nodes("n1")
    world.create(CLAIMS, "data", ONE)
    world.advance(60)
    assert world.get(CLAIMS, "data")["spec"]["storageClassName"] == "standard"
    assert phase(world) == "Pending"
    assert verbatim("waiting for first consumer to be created before binding") in world.events(
        "WaitForFirstConsumer"
    )

    world.pod("user", volumes=[USED])
    world.advance(5)

    claim = world.get(CLAIMS, "data")
    made = world.get(VOLUMES, claim["spec"]["volumeName"])
    assert (phase(world), made["status"]["phase"]) == ("Bound", "Bound")
    assert made["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
    assert claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == "n1"
    assert world.phases()["user"] == "Ready"


def test_a_class_may_make_the_volume_at_once() -> None:
    world = SimulatedCluster()
    storage_class(world, "quick", "Immediate")
    world.create(CLAIMS, "data", {**ONE, "storageClassName": "quick"})
    assert phase(world) == "Bound"


def test_a_claim_of_a_class_that_is_not_there_waits_for_it() -> None:
    world = SimulatedCluster().nodes("n1")
    world.create(CLAIMS, "data", {**ONE, "storageClassName": "later"})
    world.pod("user", volumes=[USED])
    world.advance(30)
    assert (phase(world), world.phases()["user"]) == ("Pending", "Pending")

    storage_class(world, "later", "WaitForFirstConsumer")
    world.advance(30)
    assert (phase(world), world.phases()["user"]) == ("Bound", "Ready")


def test_a_claim_without_class_takes_the_smallest_volume_that_suits_it() -> None:
    world = SimulatedCluster()
    world.create(CLAIMS, "data", {**ONE, "storageClassName": ""})
    volume(world, "small", "1Mi")
    volume(world, "of-a-class", "1Gi", storageClassName="x")
    volume(world, "shared", "1Gi", accessModes=["ReadOnlyMany"])
    assert phase(world) == "Pending"

    volume(world, "large", "5Gi")
    assert world.get(CLAIMS, "data")["spec"]["volumeName"] == "large"
    assert world.status(CLAIMS, "data")["capacity"] == {"storage": "5Gi"}
    assert world.status(VOLUMES, "small")["phase"] == "Available"


def test_a_volume_goes_with_its_claim_or_is_released() -> None:
    world = SimulatedCluster()
    for name, policy in (("goes", "Delete"), ("stays", "Retain")):
        storage_class(world, name, "Immediate", reclaimPolicy=policy)
        world.create(CLAIMS, name, {**ONE, "storageClassName": name})
    kept = world.get(CLAIMS, "stays")["spec"]["volumeName"]

    for name in ("goes", "stays"):
        world.delete(CLAIMS, name)

    (left,) = world.store.list(VOLUMES)
    assert (left["metadata"]["name"], left["status"]["phase"]) == (kept, "Released")


@pytest.mark.parametrize(
    ("policy", "scaled", "deleted"),
    [
        ({}, 2, 2),
        ({"whenScaled": "Delete"}, 1, 1),
        ({"whenDeleted": "Delete"}, 2, 0),
        ({"whenScaled": "Delete", "whenDeleted": "Delete"}, 1, 0),
    ],
)
def test_claims_of_a_stateful_set_stay_or_go_by_its_policy(
    policy: dict[str, str], scaled: int, deleted: int
) -> None:
    world = SimulatedCluster().nodes("n1")
    templates = [{"metadata": {"name": "data"}, "spec": ONE}]
    spec = {"volumeClaimTemplates": templates, "persistentVolumeClaimRetentionPolicy": policy}
    world.stateful_set("db", 2, spec)
    world.advance(20)
    assert world.phases() == {"db-0": "Ready", "db-1": "Ready"}

    world.edit("statefulsets", "db", replicas=1)
    world.advance(20)
    assert len(world.store.list(CLAIMS)) == scaled
    world.delete("statefulsets", "db")
    world.advance(20)
    assert len(world.store.list(CLAIMS)) == deleted


def test_a_claim_that_names_its_volume_gets_that_one() -> None:
    world = SimulatedCluster()
    place = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    spec = {"nodeAffinity": {"required": {"nodeSelectorTerms": [place]}}}
    world.store.create("persistentvolumes", {"metadata": {"name": "local"}, "spec": spec})

    world.create("persistentvolumeclaims", "data", {**ONE, "volumeName": "local"})

    assert world.get("persistentvolumeclaims", "data")["status"]["phase"] == "Bound"
    assert [v["metadata"]["name"] for v in world.store.list("persistentvolumes")] == ["local"]


def test_a_claim_stays_while_a_pod_uses_it() -> None:
    world = SimulatedCluster().nodes("n1")
    world.create("persistentvolumeclaims", "data", {"resources": {"requests": {"storage": "1Gi"}}})
    source = {"persistentVolumeClaim": {"claimName": "data"}}
    world.pod("user", volumes=[{"name": "data", **source}])
    world.advance(5)

    world.delete("persistentvolumeclaims", "data")
    world.advance(5)
    assert "deletionTimestamp" in world.get("persistentvolumeclaims", "data")["metadata"]
    world.delete("pods", "user")
    world.advance(60)

    assert world.store.list("persistentvolumeclaims") == []
