"""Where a preview places pods: by the scores of the kube-scheduler, and by those that pack."""

from collections.abc import Collection

import pytest
from msgspec.structs import replace

from reactive_desched.fit.assumed_scheduler import AssumedScheduler
from reactive_desched.model.objects import CSINode, PersistentVolume, PersistentVolumeClaim
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.testing.builders import node, pod

GPU = "example.com/gpu"
HAS = {"cpu": "8", "memory": "8Gi", GPU: "8", "pods": "10"}


@pytest.mark.parametrize(
    ("packs", "best"),
    [pytest.param((GPU,), "n2", id="packs"), pytest.param((), "n1", id="spreads")],
)
def test_what_an_in_place_resize_adds_counts_where_pods_are_packed_too(
    packs: Collection[str], best: str
) -> None:
    """By its spec the pod of n2 holds one GPU; it is being resized to four."""
    growing = pod("growing", on="n2", requests={GPU: "1", "cpu": "1"})
    state = ClusterState()
    for each in (
        node("n1", allocatable=HAS),
        node("n2", allocatable=HAS),
        pod("even", on="n1", requests={GPU: "2", "cpu": "1"}),
        replace(growing, resize_delta={GPU: 3, "cpu": 1000}),
    ):
        state.upsert(each)
    waiting = pod("waiting", requests={GPU: "1", "cpu": "1"})

    assert AssumedScheduler(ClusterView(state, lambda: 0), packs=packs).choose_node(waiting) == best


def test_volumes_attached_since_the_last_question_count() -> None:
    state = ClusterState()
    for each in (node("n1", allocatable=HAS), CSINode("n1", attach_limits={"disks": 1})):
        state.upsert(each)
    first, second = (replace(pod(name), pvc_names=(name,)) for name in ("first", "second"))
    for name in ("first", "second"):
        claim = PersistentVolumeClaim("default", name, volume_name=name)
        state.upsert(claim)
        state.upsert(PersistentVolume(name, driver="disks", volume_handle=name))
    scheduler = AssumedScheduler(ClusterView(state, lambda: 0))
    assert scheduler.choose_node(first) == "n1"

    state.upsert(replace(first, node="n1"))

    assert scheduler.choose_node(second) == ""
