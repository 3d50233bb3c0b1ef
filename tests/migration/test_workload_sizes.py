"""How large the workload of a pod is, and what is known of one that is gone."""

from typing import Any

import pytest
from msgspec.structs import replace

from reactive_desched.migration.workload_sizes import INDEXES, workload_size
from reactive_desched.model.objects import (
    Deployment,
    Job,
    OwnerReference,
    Pod,
    ReplicaSet,
    StatefulSet,
)
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.state.resources import REPLICA_SETS
from reactive_desched.testing.builders import READY


def owner(kind: str, uid: str = "w", group: str = "apps/v1") -> OwnerReference:
    return OwnerReference(kind, uid, uid, controller=True, api_version=group)


def pod(name: str, of: OwnerReference, **fields: Any) -> Pod:
    return replace(Pod("shop", name, name, node="n1", owners=(of,), status=READY), **fields)


def size(of: Pod, *objects: Any, unreadable: str = "") -> tuple[int, set[str], bool]:
    """Return how many pods are wanted, the unavailable ones, and whether the workload is gone."""
    state = ClusterState()
    state.keep_indexes((kind, None) for kind in INDEXES)
    for each in (of, *objects):
        state.upsert(each)
    if unreadable:
        state.set_readable(unreadable, readable=False)
    found = workload_size(of, ClusterView(state, lambda: 0.0))
    assert found is not None
    return found.replicas, {each.name for each in found.pods}, found.is_gone


@pytest.mark.parametrize(
    ("of", "objects", "replicas"),
    [
        (owner("StatefulSet"), [StatefulSet("shop", "w", "w", replicas=7)], 7),
        (owner("ReplicaSet"), [ReplicaSet("w", replicas=6)], 6),
        (owner("ReplicaSet"), [ReplicaSet("w")], 1),
        (
            owner("ReplicaSet"),
            [
                ReplicaSet("w", replicas=2, controller=owner("Deployment", "d")),
                Deployment("shop", "d", "d", replicas=9),
            ],
            9,
        ),
        (owner("CloneSet", group="apps.kruise.io/v1alpha1"), [], 1),
        (owner("Job", group="batch/v1"), [Job("w")], 0),
    ],
    ids=[
        "a StatefulSet",
        "a ReplicaSet",
        "a ReplicaSet of which only metadata is known has the pods that are there",
        "a Deployment above the ReplicaSet",
        "a kind that is not watched has the pods that are there",
        "a batch Job has none",
    ],
)
def test_a_workload_is_as_large_as_its_topmost_controller_says(
    of: OwnerReference, objects: list[Any], replicas: int
) -> None:
    assert size(pod("p", of), *objects) == (replicas, set(), False)


def test_a_controller_that_is_gone_would_make_no_pod_again() -> None:
    assert size(pod("p", owner("ReplicaSet")), pod("q", owner("ReplicaSet"))) == (0, set(), True)


def test_a_controller_that_cannot_be_read_has_the_pods_that_are_there() -> None:
    of = owner("ReplicaSet")

    assert size(pod("p", of), pod("q", of), unreadable=REPLICA_SETS) == (2, set(), False)


def test_pods_of_every_replica_set_of_a_deployment_may_be_unavailable() -> None:
    above = owner("Deployment", "d")
    sets = [ReplicaSet(each, controller=above) for each in ("old", "new")]
    deployment = Deployment("shop", "d", "d", replicas=3)
    unready = pod("q", owner("ReplicaSet", "old"), status=replace(READY, conditions=()))

    found = size(pod("p", owner("ReplicaSet", "new")), *sets, deployment, unready)

    assert found == (3, {"q"}, False)
