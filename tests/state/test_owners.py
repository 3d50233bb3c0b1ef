"""From a pod to what stands at the top of its owners, as far as anybody has told."""

from itertools import pairwise

import msgspec
import pytest
from msgspec.structs import replace

from reactive_desched.model.changes import WorkloadChanged
from reactive_desched.model.objects import (
    ClusterObject,
    Job,
    OwnerReference,
    Pod,
    ReplicaSet,
    controller_of,
)
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.state.indexes.owners import MAX_OWNER_CHAIN, OwnerIndex
from reactive_desched.state.resources import (
    JOBS,
    OPTIONAL_RESOURCES,
    OWNER_RESOURCES,
    REPLICA_SETS,
    RESOURCES,
)
from reactive_desched.testing.builders import node, pod


def ref(text: str, api_version: str = "apps/v1", *, controller: bool = True) -> OwnerReference:
    """Read "Kind/name"; the uid is made of the name."""
    kind, _, name = text.partition("/")
    return OwnerReference(kind, name, f"uid-{name}", controller, api_version)


DEPLOYMENT, SET = ref("Deployment/web"), ref("ReplicaSet/web-1")
CRON, JOB = ref("CronJob/nightly", "batch/v1"), ref("Job/nightly-1", "batch/v1")
HELPER = ref("Fleet/f", "example.com/v1", controller=False)


def owned(*owners: OwnerReference) -> Pod:
    return msgspec.structs.replace(pod("p", on="n1"), owners=owners)


def seen(*things: ClusterObject) -> ClusterView:
    state = ClusterState()
    for thing in things:
        state.upsert(thing)
    return ClusterView(state, lambda: 0)


@pytest.mark.parametrize(
    ("owners", "chain"),
    [
        pytest.param((SET,), (SET, DEPLOYMENT), id="a Deployment's pod"),
        pytest.param((JOB,), (JOB, CRON), id="a CronJob's pod"),
        pytest.param((HELPER, SET), (SET, DEPLOYMENT), id="only controllers lead up"),
        pytest.param((HELPER,), (), id="an owner that controls nothing"),
        pytest.param((), (), id="a bare pod"),
        pytest.param((ref("StatefulSet/db"),), (ref("StatefulSet/db"),), id="a StatefulSet's pod"),
        pytest.param((ref("ReplicaSet/old"),), (ref("ReplicaSet/old"),), id="a set of its own"),
        pytest.param((ref("ReplicaSet/x"),), (ref("ReplicaSet/x"),), id="a set nobody told of"),
    ],
)
def test_a_chain_leads_from_controller_to_controller_nearest_first(
    owners: tuple[OwnerReference, ...], chain: tuple[OwnerReference, ...]
) -> None:
    view = seen(
        ReplicaSet(SET.uid, 5, DEPLOYMENT), Job(JOB.uid, 6, CRON), ReplicaSet("uid-old", 7, None)
    )

    assert view.index(OwnerIndex).chain(owned(*owners)) == chain


def test_a_chain_may_lead_through_both_kinds_and_on() -> None:
    workflow = ref("Workflow/w", "example.com/v1")
    view = seen(ReplicaSet(SET.uid, 1, JOB), Job(JOB.uid, 2, workflow))

    assert view.index(OwnerIndex).chain(owned(SET)) == (SET, JOB, workflow)


@pytest.mark.parametrize("loop", [(SET,), (SET, ref("ReplicaSet/b")), (SET, JOB, CRON)])
def test_owners_that_own_each_other_come_once(loop: tuple[OwnerReference, ...]) -> None:
    above = [*loop[1:], loop[0]]
    view = seen(*(ReplicaSet(it.uid, 1, up) for it, up in zip(loop, above, strict=True)))

    assert view.index(OwnerIndex).chain(owned(SET)) == loop


def test_a_chain_is_no_longer_than_the_bound() -> None:
    every = [ref(f"ReplicaSet/{number}") for number in range(MAX_OWNER_CHAIN + 2)]
    view = seen(*(ReplicaSet(it.uid, 1, up) for it, up in pairwise(every)))

    assert view.index(OwnerIndex).chain(owned(every[0])) == tuple(every[:MAX_OWNER_CHAIN])


@pytest.mark.parametrize(
    ("resource", "kind", "version"),
    [(REPLICA_SETS, ReplicaSet, 0), (JOBS, Job, 1)],
    ids=["ReplicaSet", "Job"],
)
def test_what_is_released_or_deleted_leads_nowhere_any_more(
    resource: str, kind: type[ReplicaSet] | type[Job], version: int
) -> None:
    state = ClusterState()
    view = ClusterView(state, lambda: 0)
    state.upsert(kind(SET.uid, 1, DEPLOYMENT))
    assert list(state.keys(resource)) == [SET.uid]
    assert state.get(resource, SET.uid) == kind(SET.uid, version, DEPLOYMENT)

    state.upsert(kind(SET.uid, 2, None))
    assert view.index(OwnerIndex).chain(owned(SET)) == (SET,)

    state.upsert(kind(SET.uid, 3, CRON))
    assert view.index(OwnerIndex).chain(owned(SET)) == (SET, CRON)
    assert state.remove(kind(SET.uid, 4, CRON)) == [WorkloadChanged(SET.uid)]
    assert view.index(OwnerIndex).chain(owned(SET)) == (SET,)
    assert state.remove(kind(SET.uid, 5, None)) == []
    assert (list(state.keys(resource)), state.get(resource, SET.uid)) == ([], None)


def test_an_object_without_a_controller_has_its_size() -> None:
    state = ClusterState()
    alone = ReplicaSet("alone", 1, replicas=3)
    assert state.upsert(alone) == [WorkloadChanged("alone")]
    assert state.upsert(replace(alone, resource_version=2)) == []
    assert state.upsert(replace(alone, resource_version=3, replicas=4)) != []
    state.upsert(Job("one-off", 1, None))

    assert state.get(REPLICA_SETS, "alone") == ReplicaSet("alone", replicas=4)
    assert [*state.keys(REPLICA_SETS), *state.keys(JOBS)] == ["alone", "one-off"]
    state.remove(alone)
    assert state.get(REPLICA_SETS, "alone") is None


def test_owners_are_watched_and_can_be_done_without() -> None:
    assert {REPLICA_SETS, JOBS} <= OWNER_RESOURCES
    assert OWNER_RESOURCES <= OPTIONAL_RESOURCES
    assert set(RESOURCES) >= OPTIONAL_RESOURCES


def test_the_zone_of_a_node_is_its_label_or_nothing() -> None:
    state = ClusterState()
    state.upsert(node("n1", labels={"topology.kubernetes.io/zone": "z1"}))
    state.upsert(node("n2"))
    state.upsert(pod("web", on="unseen"))
    view = ClusterView(state, lambda: 0)

    assert [view.zone(name) for name in ("n1", "n2", "unseen", "unknown")] == ["z1", "", "", ""]


def test_the_controller_is_the_owner_that_is_marked_as_one() -> None:
    assert controller_of((HELPER, SET)) is SET
    assert controller_of((HELPER,)) is None
