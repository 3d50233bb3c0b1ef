"""Claims, volumes and what a node's drivers can attach, as the API server tells them."""

import json
from typing import Any

import pytest

from reactive_desched.errors import Malformed
from reactive_desched.model.labels import Requirement
from reactive_desched.model.node_affinity import NodeSelector, NodeSelectorTerm
from reactive_desched.model.objects import CSINode, PersistentVolume, PersistentVolumeClaim
from reactive_desched.state.kinds.interning import InternTables
from tests.support.codecs import Codecs, make_codecs

METADATA = {"name": "x", "uid": "u1", "resourceVersion": "7", "namespace": "shop"}
ZONE, BETA = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"


def fresh() -> Codecs:
    return make_codecs(InternTables())


def claim(**members: Any) -> PersistentVolumeClaim:  # any JSON value
    obj = {"metadata": METADATA} | members
    return fresh().pvcs.decode_object(json.dumps(obj).encode())


def volume(spec: Any, **metadata: Any) -> PersistentVolume:  # any JSON value
    obj = {"metadata": METADATA | metadata, "spec": spec}
    return fresh().pvs.decode_object(json.dumps(obj).encode())


def test_a_claim_says_whether_it_serves_one_pod_alone() -> None:
    assert claim(spec={"accessModes": ["ReadWriteOncePod"]}).read_write_once_pod
    assert not claim(spec={"accessModes": ["ReadWriteOnce", "ReadOnlyMany"]}).read_write_once_pod


def test_a_claim_says_how_it_fares_and_whether_it_is_being_deleted() -> None:
    leaving = METADATA | {"deletionTimestamp": "1970-01-01T00:00:09Z"}

    assert claim(status={"phase": "Lost"}).phase == "Lost"
    assert claim(metadata=leaving).deletion_s == 9
    assert claim().deletion_s is None


def test_a_volume_says_where_it_is_and_which_driver_attaches_it() -> None:
    terms = [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["1"]}]}]
    labels = {ZONE: "a", BETA: "r", "app": "db"}
    spec = {
        "csi": {"driver": "disks.example.com", "volumeHandle": "h1", "fsType": "ext4"},
        "claimRef": {"namespace": "shop", "name": "data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
    }

    assert volume(spec, labels=labels) == PersistentVolume(
        "x",
        "u1",
        7,
        NodeSelector((NodeSelectorTerm((Requirement("disk", "In", ("1",)),)),)),
        {ZONE: "a", BETA: "r"},
        "disks.example.com",
        "h1",
        "shop/data",
    )


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="an empty spec"),
        pytest.param({"hostPath": {"path": "/x"}}, id="a disk of the node"),
        pytest.param({"csi": None, "claimRef": None, "nodeAffinity": {}}, id="nulls"),
    ],
)
def test_a_volume_that_says_nothing_of_this_has_nothing(spec: Any) -> None:  # any JSON value
    assert volume(spec) == PersistentVolume("x", "u1", 7)


def test_a_driver_that_gives_no_number_has_no_limit() -> None:
    drivers = [
        {"name": "counts", "nodeID": "i-1", "allocatable": {"count": 25}},
        {"name": "none", "allocatable": {"count": 0}},
        {"name": "says nothing"},
        {"name": "says little", "allocatable": {}},
    ]
    text = json.dumps({"metadata": METADATA, "spec": {"drivers": drivers}}).encode()

    assert fresh().csi_nodes.decode_object(text) == CSINode("x", "u1", 7, {"counts": 25, "none": 0})


def test_a_volume_that_cannot_be_read_is_named() -> None:
    with pytest.raises(Malformed, match="PersistentVolume shop/x"):
        volume({"nodeAffinity": []})
