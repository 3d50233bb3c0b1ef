import random
from typing import Any

import pytest

from reactive_desched.sim.clock import VirtualClock
from reactive_desched.sim.seed import seed
from reactive_desched.sim.status import StatusError
from reactive_desched.sim.store import DeleteOptions, Store
from tests.support.golden import verbatim

START = 1_800_000_000.0


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


@pytest.fixture
def store(clock: VirtualClock) -> Store:
    made = Store(clock, random.Random(7))
    seed(made)
    return made


def add_pod(store: Store, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "app:1"}]
    spec = {"nodeName": "n1", "containers": containers, **spec}
    return store.create("pods", {"metadata": {"name": "p", "namespace": "default"}, "spec": spec})


def delete(store: Store, grace: int | None = None, **options: Any) -> dict[str, Any]:
    return store.delete("pods", "default", "p", DeleteOptions(grace, **options))


def marks(pod: dict[str, Any]) -> tuple[str, int]:
    meta = pod["metadata"]
    return meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"]


def test_the_deletion_timestamp_is_when_the_grace_ends(store: Store) -> None:
    add_pod(store)
    left = delete(store)
    assert marks(left) == ("2027-01-15T08:00:30Z", 30)
    assert left["metadata"]["generation"] == 2
    assert store.get("pods", "default", "p") == left


@pytest.mark.parametrize(
    ("asked", "spec", "granted"),
    [
        pytest.param(None, {"terminationGracePeriodSeconds": 5}, 5, id="the pod's own grace"),
        pytest.param(7, {"terminationGracePeriodSeconds": 5}, 7, id="the grace asked for"),
        pytest.param(-3, {}, 1, id="a negative grace is one second"),
    ],
)
def test_the_grace_is(store: Store, asked: int | None, spec: dict[str, int], granted: int) -> None:
    add_pod(store, **spec)
    assert marks(delete(store, asked))[1] == granted


def test_grace_zero_removes_the_pod_at_once(store: Store) -> None:
    add_pod(store)
    delete(store, 0)
    assert store.get("pods", "default", "p") is None


def test_a_pod_without_a_node_goes_at_once(store: Store) -> None:
    add_pod(store, nodeName="")
    delete(store)
    assert store.get("pods", "default", "p") is None


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_an_ended_pod_goes_at_once(store: Store, phase: str) -> None:
    add_pod(store)
    store.modify(
        "pods", "default", "p", lambda p: {**p, "status": {"phase": phase}}, subresource="status"
    )
    delete(store)
    assert store.get("pods", "default", "p") is None


def test_a_second_delete_with_longer_grace_changes_nothing(
    store: Store, clock: VirtualClock
) -> None:
    add_pod(store)
    first = delete(store)
    clock.advance(5)
    assert delete(store, 60) == first
    assert delete(store, 30) == first
    clock.advance(100)
    assert delete(store, 30) == first


def test_a_second_delete_with_shorter_grace_counts_from_the_first(
    store: Store, clock: VirtualClock
) -> None:
    add_pod(store)
    delete(store)
    clock.advance(5)
    left = delete(store, 10)
    assert marks(left) == ("2027-01-15T08:00:10Z", 10)
    assert left["metadata"]["generation"] == 2


def test_a_shorter_grace_that_is_already_over_leaves_one_second(
    store: Store, clock: VirtualClock
) -> None:
    add_pod(store)
    delete(store)
    clock.advance(20)
    assert marks(delete(store, 10)) == ("2027-01-15T08:00:20Z", 1)


def test_a_terminating_pod_is_removed_by_grace_zero(store: Store) -> None:
    add_pod(store)
    delete(store)
    delete(store, 0)
    assert store.get("pods", "default", "p") is None


@pytest.mark.parametrize("field", ["uid", "resource_version"])
def test_a_precondition_that_does_not_hold_is_a_conflict(store: Store, field: str) -> None:
    add_pod(store)
    options: dict[str, Any] = {field: "1"}
    with pytest.raises(StatusError, match="in the precondition") as refused:
        delete(store, **options)
    assert (refused.value.code, refused.value.reason) == (409, "Conflict")


def test_preconditions_that_hold_let_the_deletion_through(store: Store) -> None:
    meta = add_pod(store)["metadata"]
    delete(store, 0, uid=meta["uid"], resource_version=meta["resourceVersion"])
    assert store.get("pods", "default", "p") is None


def test_a_dry_run_deletes_nothing(store: Store) -> None:
    before = add_pod(store)
    delete(store, 0, dry_run=True)
    assert store.get("pods", "default", "p") == before


@pytest.mark.parametrize(
    ("policy", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")]
)
def test_the_fate_of_dependents_is_left_to_a_finalizer(
    store: Store, policy: str, finalizer: str
) -> None:
    store.create("configmaps", {"metadata": {"name": "a", "namespace": "default"}})
    options = DeleteOptions(propagation_policy=policy)
    left = store.delete("configmaps", "default", "a", options)
    assert left["metadata"]["finalizers"] == [finalizer]
    assert left["metadata"]["deletionTimestamp"] == "2027-01-15T08:00:00Z"
    assert store.get("configmaps", "default", "a") == left


def test_a_deletion_cannot_be_taken_back(store: Store) -> None:
    add_pod(store)
    left = delete(store)
    meta = {k: v for k, v in left["metadata"].items() if not k.startswith("deletion")}
    updated = store.update("pods", {**left, "metadata": {**meta, "labels": {"a": "b"}}})
    assert marks(updated) == marks(left)


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_the_namespaces_every_cluster_needs_stay(store: Store, name: str) -> None:
    with pytest.raises(StatusError, match=verbatim("this namespace may not be deleted")) as refused:
        store.delete("namespaces", "", name)
    assert (refused.value.code, refused.value.reason) == (403, "Forbidden")
