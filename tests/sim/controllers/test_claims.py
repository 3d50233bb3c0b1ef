"""Every claim finds a volume."""

from tests.support.sim_world import SimulatedCluster

ONE = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def test_a_claim_is_bound_to_a_volume_made_for_it() -> None:
    world = SimulatedCluster()

    world.create("persistentvolumeclaims", "data", ONE)

    claim = world.get("persistentvolumeclaims", "data")
    volume = world.get("persistentvolumes", claim["spec"]["volumeName"])
    assert claim["status"]["phase"] == "Bound"
    assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]


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
