import random
from typing import Any

import pytest

from reactive_desched.sim.binding import bind, bind_as_asked
from reactive_desched.sim.clock import VirtualClock
from reactive_desched.sim.conditions import find_condition
from reactive_desched.sim.seed import seed
from reactive_desched.sim.status import StatusError
from reactive_desched.sim.store import DeleteOptions, Store


@pytest.fixture
def store() -> Store:
    made = Store(VirtualClock(1_800_000_000.0), random.Random(7))
    seed(made)
    return made


def add_pod(store: Store, finalizers: Any = (), **spec: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "app:1"}], **spec}
    meta = {"name": "p", "namespace": "default", "finalizers": list(finalizers)}
    return store.create("pods", {"metadata": meta, "spec": spec})


def test_a_bound_pod_has_its_node_and_says_since_when(store: Store) -> None:
    add_pod(store)
    bind(store, "default", "p", "n1")

    pod = store.get("pods", "default", "p")
    assert pod is not None
    assert pod["spec"]["nodeName"] == "n1"
    scheduled = find_condition(pod, "PodScheduled")
    assert scheduled is not None
    assert (scheduled["status"], scheduled["lastTransitionTime"]) == (
        "True",
        "2027-01-15T08:00:00Z",
    )


def test_labels_and_annotations_of_the_binding_go_to_the_pod(store: Store) -> None:
    add_pod(store)
    meta = {"name": "p", "annotations": {"a": "b"}, "labels": {"zone": "z"}}
    asked = {"metadata": meta, "target": {"kind": "Node", "name": "n1"}}
    bind_as_asked(store, "default", "p", asked)

    pod = store.get("pods", "default", "p")
    assert pod is not None
    assert (pod["metadata"]["annotations"], pod["metadata"]["labels"]) == (
        {"a": "b"},
        {"zone": "z"},
    )


def test_a_pod_is_bound_only_once(store: Store) -> None:
    add_pod(store)
    bind(store, "default", "p", "n1")
    with pytest.raises(StatusError, match='already assigned to node "n1"') as refused:
        bind(store, "default", "p", "n2")
    assert refused.value.code == 409


def test_a_gated_pod_is_not_bound(store: Store) -> None:
    add_pod(store, schedulingGates=[{"name": "wait"}])
    with pytest.raises(StatusError, match="schedulingGates"):
        bind(store, "default", "p", "n1")


def test_a_pod_being_deleted_is_not_bound(store: Store) -> None:
    add_pod(store, finalizers=["a/b"])
    store.delete("pods", "default", "p", DeleteOptions())
    with pytest.raises(StatusError, match="being deleted"):
        bind(store, "default", "p", "n1")


def test_another_uid_is_a_conflict(store: Store) -> None:
    add_pod(store)
    asked = {"metadata": {"name": "p", "uid": "other"}, "target": {"name": "n1"}}
    with pytest.raises(StatusError) as refused:
        bind_as_asked(store, "default", "p", asked)
    assert refused.value.code == 409


def test_a_missing_pod_cannot_be_bound(store: Store) -> None:
    with pytest.raises(StatusError, match='pods "p" not found'):
        bind(store, "default", "p", "n1")


def test_a_dry_run_binds_nothing(store: Store) -> None:
    add_pod(store)
    asked = {"metadata": {"name": "p"}, "target": {"name": "n1"}}
    bind_as_asked(store, "default", "p", asked, dry_run=True)
    pod = store.get("pods", "default", "p")
    assert pod is not None
    assert "nodeName" not in pod["spec"]
