"""The scores of a pod that runs are those of its replacement: once it is gone, or as it leaves."""

import pytest

from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import (
    ClusterObject,
    Pod,
    PodAffinityTerm,
    WeightedPodAffinityTerm,
)
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.testing.builders import node, pod, with_spec

NODES = [node(name, labels={"kubernetes.io/hostname": name}) for name in ("n1", "n2")]


def chosen(moved: Pod, *others: ClusterObject) -> set[str]:
    """Return the nodes that the scheduler may choose for the replacement."""
    state = ClusterState()
    objects: tuple[ClusterObject, ...] = (*NODES, moved, *others)
    for each in objects:
        state.upsert(each)
    fit = SchedulerNodeFit(ClusterView(state, lambda: 0), lambda: 0)
    return {each.name for each in NODES if not fit.scored_elsewhere(moved, frozenset({each.name}))}


def asks(name: str, on: str, cpu: str, owner: str = "StatefulSet/web") -> Pod:
    labels = {"app": "web"}
    requests = {"cpu": cpu, "memory": "1Gi"}
    return pod(name, on=on, labels=labels, owner=owner, requests=requests)


REPLACED = pytest.mark.parametrize(
    ("owner", "expected"), [("StatefulSet/web", {"n1"}), ("ReplicaSet/web", {"n2"})]
)
"""A StatefulSet makes it once the pod is gone, a ReplicaSet while that shuts down."""


@REPLACED
def test_its_requests_count_on_its_node_until_it_is_gone(owner: str, expected: set[str]) -> None:
    moved, other = asks("moved", "n1", "1", owner), asks("other", "n2", "100m", "StatefulSet/db")

    assert chosen(moved, other) == expected


@REPLACED
def test_it_repels_the_next_from_its_node_until_it_is_gone(owner: str, expected: set[str]) -> None:
    term = PodAffinityTerm("kubernetes.io/hostname", LabelSelector({"app": "web"}))
    apart = (WeightedPodAffinityTerm(100, term),)
    plain = asks("moved", "n1", "100m", owner)
    moved = with_spec(plain, preferred_anti_affinity=apart)
    other = pod("other", on="n2", requests={"cpu": "500m", "memory": "1Gi"})

    assert chosen(moved, other) == expected


@pytest.mark.parametrize("owner", ["StatefulSet/web", "ReplicaSet/web"])
def test_there_is_room_for_the_next_on_its_node_once_it_is_gone(owner: str) -> None:
    full = asks("other", "n1", "2500m", "StatefulSet/db")
    busy = asks("busy", "n2", "2800m", "StatefulSet/db")

    is_chosen = "n2" in chosen(asks("moved", "n1", "1", owner), full, busy)
    assert is_chosen is (owner == "ReplicaSet/web")
