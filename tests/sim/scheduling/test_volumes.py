"""Pods stay where their volumes can be reached."""

from typing import Any

from tests.support.sim_world import ZONE, SimulatedCluster

ONE = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def claiming(
    world: SimulatedCluster, volume: dict[str, Any], **labels: str
) -> dict[str, tuple[str, ...]]:
    """Return the verdicts on a pod whose claim is bound to a volume of this spec."""
    meta = {"name": "v", "labels": {key.replace("_", "/"): text for key, text in labels.items()}}
    world.store.create("persistentvolumes", {"metadata": meta, "spec": volume})
    world.create("persistentvolumeclaims", "data", {**ONE, "volumeName": "v"})
    return verdicts(world)


def verdicts(world: SimulatedCluster) -> dict[str, tuple[str, ...]]:
    """Return the verdicts on a pod that uses the claim data."""
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    pod = world.pod("p", schedulerName="nobody", volumes=volumes)
    return world.cluster.scheduler.verdicts(pod)


def test_a_local_volume_holds_its_pod_on_its_node() -> None:
    world = SimulatedCluster().nodes("n1", "n2")
    place = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [place]}]}

    found = claiming(world, {"nodeAffinity": {"required": required}})

    assert found == {"n1": ("node(s) didn't match PersistentVolume's node affinity",), "n2": ()}


def test_a_zonal_volume_holds_its_pod_in_one_of_its_zones() -> None:
    world = SimulatedCluster().nodes("n1/a", "n2/b", "n3/c", "n4")
    labels = {ZONE.replace("/", "_"): "a__b"}

    found = claiming(world, {}, **labels)

    assert {node for node, reasons in found.items() if not reasons} == {"n1", "n2", "n4"}
    assert found["n3"] == ("node(s) had no available volume zone",)


def test_a_claim_that_does_not_exist_holds_its_pod_everywhere() -> None:
    world = SimulatedCluster().nodes("n1")

    assert verdicts(world) == {"n1": ('persistentvolumeclaim "data" not found',)}
    world.create("persistentvolumeclaims", "data", ONE)

    assert world.cluster.scheduler.verdicts(world.get("pods", "p")) == {"n1": ()}
