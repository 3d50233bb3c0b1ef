"""The scores of a pod that runs are those of its replacement, once the pod has left its node."""

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


def asks(name: str, on: str, cpu: str) -> Pod:
    return pod(name, on=on, requests={"cpu": cpu, "memory": "1Gi"})


@pytest.mark.parametrize(
    ("cpu", "expected"), [("100m", {"n1"}), ("0", {"n1", "n2"})], ids=["others", "no others"]
)
def test_its_own_requests_do_not_count_on_its_node(cpu: str, expected: set[str]) -> None:
    others = [] if cpu == "0" else [asks("other", "n2", cpu)]

    assert chosen(asks("moved", "n1", "1"), *others) == expected


def test_it_repels_itself_from_no_node() -> None:
    term = PodAffinityTerm("kubernetes.io/hostname", LabelSelector({"app": "web"}))
    apart = (WeightedPodAffinityTerm(100, term),)
    plain = pod("moved", on="n1", labels={"app": "web"}, requests={"cpu": "1", "memory": "1Gi"})
    moved = with_spec(plain, preferred_anti_affinity=apart)

    assert chosen(moved, asks("other", "n2", "100m")) == {"n1"}
