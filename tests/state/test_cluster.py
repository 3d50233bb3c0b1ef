from collections import Counter

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.model.changes import (
    NodeAdded,
    NodeCapacityDecreased,
    NodeCapacityIncreased,
    NodeGone,
    NodeLabelsChanged,
    NodeTaintsChanged,
    PodBound,
    PodGone,
    PodLabelsChanged,
    PodMetadataChanged,
    PodSpecChanged,
    PodStatusChanged,
    PodTerminating,
)
from reactive_desched.model.labels import parse_selector
from reactive_desched.model.objects import Node, Pod, PodStatus
from reactive_desched.model.resources import PODS
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.state.indexes.owners import ReplicaCounts
from reactive_desched.testing.builders import node, pod, tolerations


def state_with(*things: Node | Pod) -> ClusterState:
    state = ClusterState()
    for thing in things:
        state.upsert(thing)
    return state


WEB = pod("web", on="n1", version=5)


def changed(**fields: object) -> Pod:
    return msgspec.structs.replace(WEB, resource_version=6, **fields)


def test_each_difference_of_a_pod_has_its_own_change() -> None:
    leaving = changed(deletion_s=9)
    labelled = changed(labels={"tier": "front"})
    ended = changed(status=PodStatus("Succeeded"))
    tolerant = changed(spec=msgspec.structs.replace(WEB.spec, tolerations=tolerations("a")))
    started = changed(start_delay_s=7)
    restarted = changed(status=PodStatus("Running", reason="x"))

    assert state_with(WEB).upsert(leaving) == [PodTerminating(leaving)]
    assert state_with(WEB).upsert(labelled) == [PodLabelsChanged(labelled)]
    assert state_with(WEB).upsert(ended) == [PodGone(ended)]
    assert state_with(WEB).upsert(tolerant) == [PodSpecChanged(tolerant)]
    assert state_with(WEB).upsert(started) == [PodMetadataChanged(started)]
    assert state_with(WEB).upsert(restarted) == [PodStatusChanged(restarted)]


def test_a_pod_is_bound_when_it_appears_on_a_node_or_is_given_one() -> None:
    waiting = pod("web", version=5)

    assert state_with().upsert(WEB) == [PodBound(WEB)]
    assert state_with(waiting).upsert(changed()) == [PodBound(changed())]


def test_each_difference_of_a_node_has_its_own_change() -> None:
    state = state_with(node("n1"))

    assert state.upsert(node("n1", "a:NoSchedule")) == [NodeTaintsChanged("n1")]
    assert state.upsert(node("n1", "a:NoSchedule", labels={"x": "1"})) == [
        NodeLabelsChanged("n1", frozenset({"x"}))
    ]
    assert state.upsert(node("n1")) == [
        NodeTaintsChanged("n1"),
        NodeLabelsChanged("n1", frozenset({"x"})),
    ]
    assert state.upsert(node("n1", unschedulable=True)) == [NodeCapacityDecreased("n1")]
    assert state.upsert(node("n1")) == [NodeCapacityIncreased("n1")]
    assert state.upsert(node("n1", allocatable={"cpu": "8", "memory": "8Gi", "pods": "110"})) == [
        NodeCapacityIncreased("n1")
    ]
    assert state.upsert(node("n1", ready="False")) == [NodeGone("n1")]
    assert state.upsert(node("n1", "b:NoSchedule", ready="False")) == []
    assert state.upsert(node("n1")) == [NodeAdded("n1")]
    assert state.remove(node("n1")) == [NodeGone("n1")]


def test_only_nodes_the_policy_selects_count() -> None:
    state = ClusterState(parse_selector("pool=a"))

    assert NodeAdded("n1") not in state.upsert(node("n1"))
    assert state.upsert(node("n1", labels={"pool": "a"})) == [NodeAdded("n1")]
    assert state.nodes.eligible_count == 1
    assert NodeGone("n1") in state.upsert(node("n1", labels={"pool": "b"}))
    assert state.nodes.eligible_count == 0


def test_a_ready_node_that_the_policy_leaves_out_still_announces_capacity() -> None:
    state = ClusterState(parse_selector("pool=a"))
    outside = {"pool": "b"}
    more = [NodeCapacityIncreased("n1")]

    assert state.upsert(node("n1", "x:NoSchedule", labels=outside)) == more
    assert state.upsert(node("n1", labels=outside)) == more
    assert state.upsert(node("n1", labels=outside)) == []
    assert state.upsert(node("n1", labels={"pool": "c"})) == more
    assert state.upsert(node("n1", labels={"pool": "c"}, unschedulable=True)) == []
    assert state.upsert(node("n1", labels={"pool": "c"})) == more
    assert state.upsert(node("n1", labels={"pool": "c"}, ready="False")) == []
    assert state.upsert(node("n1", labels=outside, ready="False")) == []
    assert state.upsert(node("n1", labels=outside)) == more
    assert state.upsert(node("n1", labels={"pool": "a"})) == [NodeAdded("n1")]
    assert state.upsert(node("n1", labels=outside)) == [NodeGone("n1"), *more]
    assert state.remove(node("n1", labels=outside)) == []


def test_a_pod_that_runs_again_is_not_kept_among_the_ended() -> None:
    ended = pod("web", on="n1", status=PodStatus("Failed"))
    state = state_with(ended)
    state.upsert(pod("web", on="n1"))
    state.remove(ended)

    assert state.node_info("n1") is None


def test_an_older_version_is_ignored() -> None:
    state = state_with(WEB)

    assert state.upsert(msgspec.structs.replace(WEB, resource_version=4, labels={"a": "b"})) == []
    assert state.pods.get("web") == WEB


def test_a_late_event_does_not_bring_a_deleted_pod_back() -> None:
    state = state_with(WEB)
    state.remove(WEB)

    assert state.upsert(changed(labels={"a": "b"})) == []
    assert state.pods.get("web") is None


def test_a_pod_recreated_under_its_name_is_another_pod() -> None:
    state = state_with(WEB)
    reborn = pod("web", on="n2", uid="web-reborn", version=7)
    state.upsert(reborn)
    state.remove(WEB)
    view = ClusterView(state, lambda: 0)

    assert view.pods() == ["web-reborn"]
    assert state.node_info("n1") is None
    there = state.node_info("n2")
    assert there is not None
    assert list(there.active) == ["web-reborn"]


def test_a_node_recreated_under_its_name_survives_the_late_deletion_of_the_old_one() -> None:
    state = state_with(node("n1"))
    reborn = msgspec.structs.replace(node("n1"), uid="reborn")
    state.upsert(reborn)

    assert state.remove(node("n1")) == []
    assert state.get("nodes", "n1") == reborn


nodes = st.builds(
    lambda name, zone, ready, version: node(
        name,
        labels={"topology.kubernetes.io/zone": zone},
        ready=ready,
        version=version,
    ),
    st.sampled_from(["n1", "n2", "n3"]),
    st.sampled_from(["z1", "z2"]),
    st.sampled_from(["True", "False"]),
    st.integers(0, 5),
)
pods = st.builds(
    lambda name, uid, on, phase, cpu, owner, version: msgspec.structs.replace(
        pod(
            name,
            uid=f"{name}-{uid}",
            on=on,
            requests={"cpu": cpu},
            owner=owner,
            status=PodStatus(phase),
        ),
        resource_version=version,
    ),
    st.sampled_from(["p1", "p2"]),
    st.integers(1, 3),
    st.sampled_from([None, "n1", "n2", "n3"]),
    st.sampled_from(["Running", "Succeeded"]),
    st.sampled_from(["100m", "1"]),
    st.sampled_from(["ReplicaSet/a", "ReplicaSet/b", None]),
    st.integers(0, 5),
)
steps = st.lists(
    st.tuples(st.sampled_from(["upsert", "upsert", "remove"]), nodes | pods), max_size=40
)


@given(steps)
def test_indexes_and_sums_equal_those_counted_afresh(
    steps: list[tuple[str, Node | Pod]],
) -> None:
    state = ClusterState()
    for step, thing in steps:
        getattr(state, step)(thing)
    view = ClusterView(state, lambda: 0)
    kept = [state.pods.get(uid) for uid in view.pods()]
    alive = [p for p in kept if p is not None]

    for name in ("n1", "n2", "n3"):
        entry = state.nodes.info(name)
        here = [p for p in alive if p.node == name]
        active = [p for p in here if p.is_active]
        if entry is None:
            assert here == []
            continue
        assert {p.uid for p in active} == set(entry.active)
        assert {p.uid for p in here} == set(entry.active) | set(entry.completed)
        cpu = sum(p.spec.requests["cpu"] for p in active)
        assert entry.requested.get("cpu", 0) == cpu
        assert entry.requested.get(PODS, 0) == len(active)
    owners = Counter(owner.uid for p in alive for owner in p.owners)
    for owner in ("owner-a", "owner-b"):
        assert state.index(ReplicaCounts).count(owner) == owners[owner]
    assert state.nodes.eligible_count == len(list(view.nodes()))


@given(steps)
def test_repeating_every_update_changes_nothing(steps: list[tuple[str, Node | Pod]]) -> None:
    state = ClusterState()
    for step, thing in steps:
        getattr(state, step)(thing)
    for resource in ("pods", "nodes"):
        for key in list(state.keys(resource)):
            known = state.get(resource, key)
            assert known is not None
            assert state.upsert(known) == []
