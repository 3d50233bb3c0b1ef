"""Where a placeholder of a pod with volumes may be, and of which pods there is none."""

from typing import Any

import pytest
from msgspec.structs import replace

from reactive_desched.migration.volumes import ANYWHERE, VolumeReach, reach_of
from reactive_desched.model.labels import Requirement
from reactive_desched.model.node_affinity import NodeSelector, NodeSelectorTerm
from reactive_desched.model.objects import (
    ZONE_LABEL,
    ClusterObject,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
)
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.testing.builders import pod

WEB = replace(pod("web", on="n1"), pvc_names=("data",))
CLAIM = PersistentVolumeClaim("default", "data", volume_name="disk")
RACK = NodeSelector((NodeSelectorTerm((Requirement("rack", "In", ("r1",)),)),))


def reach(of: Pod, *objects: ClusterObject) -> VolumeReach:
    """Return what the volumes of a pod ask of a node in a cluster of these objects."""
    state = ClusterState()
    for each in objects:
        state.upsert(each)
    return reach_of(of, ClusterView(state, lambda: 0.0))


def test_a_node_must_match_the_affinity_of_the_volume_and_its_zone() -> None:
    labels = {"failure-domain.beta.kubernetes.io/zone": "a__b"}
    disk = PersistentVolume("disk", required_node_affinity=RACK, topology_labels=labels)
    zone = Requirement(ZONE_LABEL, "In", ("a", "b"))

    found = reach(WEB, CLAIM, disk)

    assert found == VolumeReach((RACK, NodeSelector((NodeSelectorTerm((zone,)),))))


def test_volumes_that_are_everywhere_and_no_volumes_ask_for_nothing() -> None:
    assert reach(WEB, CLAIM, PersistentVolume("disk")) == ANYWHERE
    assert reach(pod("web", on="n1")) == ANYWHERE


@pytest.mark.parametrize(
    ("claim", "error"),
    [
        ({"name": "other"}, 'persistentvolumeclaim "data" not found'),
        ({"volume_name": ""}, 'persistentvolumeclaim "data" is not bound'),
        ({"volume_name": "gone"}, 'persistentvolume "gone" cannot be read'),
        ({"deletion_s": 5}, 'persistentvolumeclaim "data" is being deleted'),
    ],
)
def test_of_some_claims_there_is_no_placeholder(claim: dict[str, Any], error: str) -> None:
    assert reach(WEB, replace(CLAIM, **claim), PersistentVolume("disk")) == VolumeReach(error=error)


def test_a_claim_of_one_pod_is_followed_only_where_the_next_pod_comes_afterwards() -> None:
    claim, disk = replace(CLAIM, read_write_once_pod=True), PersistentVolume("disk")
    db = replace(pod("db-0", on="n1", owner="StatefulSet/db"), pvc_names=("data",))

    assert "ReadWriteOncePod" in reach(WEB, claim, disk).error
    assert reach(db, claim, disk) == VolumeReach(exclusive=("data",))


def test_where_a_claim_of_one_pod_is_follows_also_for_a_place_that_has_none_of_its_claims() -> None:
    claim = replace(CLAIM, read_write_once_pod=True)
    found = reach(WEB, claim, PersistentVolume("disk", required_node_affinity=RACK))

    assert (found.selectors, found.exclusive) == ((RACK,), ("data",))
