from collections.abc import Hashable, Iterator
from random import Random
from typing import Any
from uuid import UUID

import msgspec
import pytest

from reactive_desched.api.index import Cluster, Index
from reactive_desched.model.changes import (
    Change,
    CompletedPodDeleted,
    PendingPodAdded,
    PendingPodDeleted,
    PodBound,
    PodGone,
    PodMetadataChanged,
    PodSpecChanged,
    PodStatusChanged,
    PodTerminating,
)
from reactive_desched.model.objects import Annotations, OwnerReference, Pod, PodStatus
from reactive_desched.state import pods as pods_module
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.indexes.owners import OwnerSizeChanged, ReplicaCounts
from reactive_desched.testing.builders import node, pod

WEB = pod("web", on="n1", version=5)


def state_with(*things: Pod) -> ClusterState:
    state = ClusterState()
    state.index(ReplicaCounts)
    state.upsert(node("n1"))
    for thing in things:
        state.upsert(thing)
    return state


def changed(thing: Pod = WEB, **fields: Any) -> Pod:  # any field of a pod
    return msgspec.structs.replace(thing, resource_version=thing.resource_version + 1, **fields)


def owners(*names: str) -> tuple[OwnerReference, ...]:
    return tuple(OwnerReference("ReplicaSet", name, f"owner-{name}") for name in names)


@pytest.mark.parametrize(
    "marks",
    [
        pytest.param({"annotations": Annotations(evict="")}, id="an annotation"),
        pytest.param({"start_delay_s": 9}, id="the start"),
    ],
)
def test_marks_are_what_guards_read(marks: dict[str, Any]) -> None:
    assert state_with(WEB).upsert(changed(**marks)) == [PodMetadataChanged(changed(**marks))]


def test_a_pod_given_to_another_owner_changes_the_size_of_both() -> None:
    moved = changed(owners=owners("db", "both"))
    state = state_with(changed(owners=owners("web", "both")))

    assert state.upsert(moved) == [
        PodMetadataChanged(moved),
        OwnerSizeChanged("owner-web"),
        OwnerSizeChanged("owner-db"),
    ]
    counts = state.index(ReplicaCounts)
    sizes = {name: counts.count(f"owner-{name}") for name in ("web", "db", "both")}
    assert sizes == {"web": 0, "db": 1, "both": 1}


def test_equal_owners_of_another_record_are_no_change() -> None:
    again = changed(owners=(OwnerReference("ReplicaSet", "web", "owner-web", controller=True),))

    assert state_with(WEB).upsert(again) == []


def test_an_ended_pod_whose_status_differs_is_not_gone_twice() -> None:
    ended = changed(status=PodStatus("Failed"))
    state = state_with(WEB)
    assert state.upsert(ended) == [PodGone(ended)]
    evicted = changed(ended, status=PodStatus("Failed", reason="Evicted"))

    assert state.upsert(evicted) == [PodStatusChanged(evicted)]
    assert state.remove(evicted) == [CompletedPodDeleted(evicted), OwnerSizeChanged("owner-web")]


def test_a_running_pod_that_is_deleted_is_gone() -> None:
    assert state_with(WEB).remove(WEB) == [PodGone(WEB), OwnerSizeChanged("owner-web")]


def test_a_pod_that_waits_for_a_node_comes_and_goes() -> None:
    waiting = pod("web", owner=None)
    state = state_with()

    assert state.upsert(waiting) == [PendingPodAdded(waiting)]
    assert state.remove(waiting) == [PendingPodDeleted(waiting)]


def test_a_pod_that_ended_without_a_node_goes_quietly() -> None:
    failed = pod("web", owner=None, status=PodStatus("Failed"))

    assert state_with(failed).remove(failed) == []


def test_deletion_begins_once() -> None:
    leaving = changed(deletion_s=9)
    state = state_with(WEB)
    assert state.upsert(leaving) == [PodTerminating(leaving)]

    assert state.upsert(changed(leaving, deletion_s=5)) == []


def test_a_pod_that_appears_on_its_node_already_ended_takes_no_room() -> None:
    ended = pod("job", on="n1", status=PodStatus("Succeeded"), requests={"cpu": "1"})
    state = state_with()

    assert state.upsert(ended) == [PodBound(ended), OwnerSizeChanged("owner-web")]
    assert state.nodes.record("n1").requested == {}


def test_other_tolerations_or_requests_are_a_change_of_the_spec() -> None:
    tolerant = changed(spec=pod("web", tolerates="*").spec)

    assert state_with(WEB).upsert(tolerant) == [PodSpecChanged(tolerant)]


def test_a_condition_that_changed_again_is_a_change_of_status() -> None:
    state = state_with(changed(condition_transitions=(5,)))

    assert [c.kind for c in state.upsert(changed(condition_transitions=(9,)))] == [
        "PodStatusChanged"
    ]
    assert state.upsert(changed(condition_transitions=(9,))) == []


def test_a_resize_under_way_is_a_change_of_the_spec() -> None:
    state = state_with(changed(resize_delta={"cpu": 500}))

    assert [c.kind for c in state.upsert(changed())] == ["PodSpecChanged"]


def test_an_equally_new_version_is_applied() -> None:
    same = msgspec.structs.replace(changed(start_delay_s=3), resource_version=5)

    assert state_with(WEB).upsert(same) == [PodMetadataChanged(same)]


def test_versions_that_are_no_numbers_are_never_older() -> None:
    unversioned = msgspec.structs.replace(WEB, resource_version=0, start_delay_s=3)

    assert state_with(WEB).upsert(unversioned) == [PodMetadataChanged(unversioned)]


def test_owners_without_pods_are_forgotten() -> None:
    state = state_with(WEB, pod("web-2", on="n1"))
    state.remove(WEB)
    counts = state.index(ReplicaCounts)
    assert counts.count("owner-web") == 1
    state.remove(pod("web-2"))

    assert counts.answers() == {}


def test_unknown_nodes_are_forgotten_with_their_last_pod() -> None:
    stray = pod("web", on="nowhere")
    state = state_with(stray)
    assert state.node_info("nowhere") is not None
    state.remove(stray)

    assert state.node_info("nowhere") is None


def test_the_oldest_deletion_is_forgotten_at_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pods_module, "MAX_TOMBSTONES", 2)
    state = state_with()
    gone = [pod(name, on="n1", owner=None) for name in "abc"]
    for one in gone:
        state.upsert(one)
        state.remove(one)

    late: list[list[Change]] = [state.upsert(one) for one in gone]
    assert late == [[PodBound(gone[0])], [], []]


class FollowedPods(Index):
    """The calls of its hook, by labels of the pod before and after."""

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self.calls: list[tuple[str | None, str | None]] = []

    def on_pod(self, old: Pod | None, new: Pod | None) -> Iterator[Change]:
        """Note the call, when what it returns is read."""
        before, after = (None if pod is None else pod.labels["app"] for pod in (old, new))
        self.calls.append((before, after))
        yield from ()

    def answers(self) -> object:
        """Return nothing."""
        return None


def test_pods_of_a_list_are_stored_as_one_by_one_and_followed_in_order() -> None:
    state = state_with()
    followed = state.index(FollowedPods)
    gone = pod("gone", on="n1")
    state.remove(gone)
    web = pod("web", on="n1", labels={"app": "1"}, version=5)
    other = pod("other", labels={"app": "2"})
    again = changed(web, labels={"app": "3"}, node="n2")
    older = pod("web", on="n1", labels={"app": "4"}, version=4)

    state.load([web, gone, other, again, older])

    assert list(state.pods) == [again, other]
    assert followed.calls == [(None, "1"), (None, "2"), ("1", "3")]
    assert not state.nodes.record("n1").active
    assert list(state.nodes.record("n2").active) == [web.uid]


def test_uids_are_handed_out_in_batches_of_some_thousands_in_the_largest_cluster() -> None:
    state, draw = ClusterState(), Random(1)
    uids = [str(UUID(int=draw.getrandbits(128), version=4)) for _ in range(10_000)]
    for uid in uids:
        state.upsert(msgspec.structs.replace(WEB, uid=uid, name=uid))

    batches = list(state.key_batches("pods"))

    assert sorted(uid for batch in batches for uid in batch) == sorted(uids)
    of_largest = 500_000 / len(uids)
    assert max(map(len, batches)) * of_largest < 5_000  # 31,000 took 2.4 to 3.2 ms


def test_equal_parts_that_are_not_shared_are_no_change() -> None:
    before = pod("web", on="n1", version=5, labels={"app": "web", "tier": "a"})
    state = state_with(before)
    owned = changed(before, owners=owners("rs"))
    state.upsert(owned)
    index = state.index(SeenPods)

    fields = {"labels": dict(sorted(before.labels.items(), reverse=True)), "owners": owners("rs")}
    assert state.upsert(changed(owned, **fields)) == []

    assert index.seen == []
    kept = state.pods.get(before.uid)
    assert kept is not None
    assert (kept.labels, kept.owners) == (before.labels, owned.owners)
    assert kept.labels is before.labels
    assert kept.resource_version == 7


class SeenPods(Index):
    """Notes the pods that differ."""

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self.seen: list[object] = []

    def on_pod(self, old: Pod | None, new: Pod | None) -> tuple[Change, ...]:
        self.seen.append((old, new))
        return ()

    def answers(self) -> object:
        return self.seen
