import random
from typing import Any

import pytest

from reactive_desched.sim.clock import VirtualClock
from reactive_desched.sim.seed import seed
from reactive_desched.sim.status import Expired, StatusError
from reactive_desched.sim.store import Event, Store
from tests.support.golden import verbatim

START = 1_800_000_000.0


@pytest.fixture
def store() -> Store:
    made = Store(VirtualClock(START), random.Random(7))
    seed(made)
    return made


def pod(name: str, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "app:1"}]
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": containers, **spec},
    }


def config(name: str, namespace: str = "default", **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, **fields}


def heard(store: Store) -> list[Event]:
    events: list[Event] = []
    store.subscribe(events.append)
    return events


def test_every_write_takes_the_next_version_of_one_counter_for_all_kinds(store: Store) -> None:
    before = store.rv
    store.create("pods", pod("a"))
    store.create("configmaps", config("b"))

    created = store.get("pods", "default", "a"), store.get("configmaps", "default", "b")
    versions = [obj["metadata"]["resourceVersion"] for obj in created if obj]
    assert versions == [str(before + 1), str(before + 2)]


def test_versions_begin_with_the_clock_so_that_a_restart_never_goes_back() -> None:
    clock = VirtualClock(START)
    first = Store(clock, random.Random(1))
    seed(first)
    clock.advance(1)

    assert Store(clock, random.Random(1)).rv > first.rv


def test_the_server_decides_uid_time_and_generation(store: Store) -> None:
    wish = pod("a")
    wish["metadata"] |= {"uid": "mine", "creationTimestamp": "1999-01-01T00:00:00Z"}
    wish["metadata"] |= {"generation": 9, "resourceVersion": "5", "deletionTimestamp": "x"}

    meta = store.create("pods", wish)["metadata"]

    assert meta["uid"] != "mine"
    assert meta["creationTimestamp"] == "2027-01-15T08:00:00Z"
    assert meta["generation"] == 1
    assert "deletionTimestamp" not in meta


def test_what_a_client_keeps_hold_of_after_a_write_is_not_what_is_stored(store: Store) -> None:
    mine = config("a", data={"k": "v"})
    store.create("configmaps", mine)
    mine["data"]["k"] = "changed"

    stored = store.get("configmaps", "default", "a")
    assert stored is not None
    assert stored["data"] == {"k": "v"}


def test_a_generated_name_keeps_its_prefix_and_fits_a_label(store: Store) -> None:
    wish = pod("")
    wish["metadata"] = {"namespace": "default", "generateName": "x" * 70}

    name = store.create("pods", wish)["metadata"]["name"]

    assert name.startswith("x" * 58)
    assert len(name) == 63


def test_a_second_object_of_the_same_name_is_refused(store: Store) -> None:
    store.create("pods", pod("a"))
    with pytest.raises(StatusError, match='pods "a" already exists') as refused:
        store.create("pods", pod("a"))
    assert (refused.value.code, refused.value.reason) == (409, "AlreadyExists")


def test_a_namespace_must_exist_before_its_objects(store: Store) -> None:
    with pytest.raises(StatusError, match='namespaces "nowhere" not found') as refused:
        store.create("pods", pod("a", "nowhere"))
    assert refused.value.code == 404


def test_a_terminating_namespace_takes_nothing_new_and_says_why(store: Store) -> None:
    store.create("namespaces", {"metadata": {"name": "old"}})
    store.delete("namespaces", "", "old")

    with pytest.raises(StatusError) as refused:
        store.create("pods", pod("a", "old"))

    assert refused.value.code == 403
    assert refused.value.details["causes"][0]["reason"] == "NamespaceTerminating"


def test_a_namespace_goes_when_it_is_finalized(store: Store) -> None:
    store.create("namespaces", {"metadata": {"name": "old"}})
    left = store.delete("namespaces", "", "old")
    assert left["status"]["phase"] == "Terminating"

    store.update("namespaces", {**left, "spec": {"finalizers": []}}, subresource="finalize")

    assert store.get("namespaces", "", "old") is None


def test_a_list_is_in_the_order_of_storage_keys(store: Store) -> None:
    store.create("namespaces", {"metadata": {"name": "default-b"}})
    for name, namespace in (("b", "default"), ("a", "default-b"), ("a", "default")):
        store.create("pods", pod(name, namespace))

    keys = [(p["metadata"]["namespace"], p["metadata"]["name"]) for p in store.list("pods")]
    # "-" sorts before "/", so the longer namespace comes first, as it does in etcd.
    assert keys == [("default-b", "a"), ("default", "a"), ("default", "b")]
    assert [p["metadata"]["name"] for p in store.list("pods", "default")] == ["a", "b"]


def test_an_update_from_an_old_version_is_refused(store: Store) -> None:
    old = store.create("configmaps", config("a"))
    store.update("configmaps", {**old, "data": {"k": "1"}})

    with pytest.raises(StatusError, match="the object has been modified") as refused:
        store.update("configmaps", {**old, "data": {"k": "2"}})
    assert (refused.value.code, refused.value.reason) == (409, "Conflict")


def test_an_update_without_a_version_overwrites_where_that_is_allowed(store: Store) -> None:
    store.create("configmaps", config("a", data={"k": "1"}))
    assert store.update("configmaps", config("a", data={"k": "2"}))["data"] == {"k": "2"}


@pytest.mark.parametrize("resource", ["leases", "poddisruptionbudgets"])
def test_an_update_without_a_version_is_refused_for(store: Store, resource: str) -> None:
    store.create(resource, config("a"))
    with pytest.raises(StatusError, match=verbatim("must be specified for an update")) as refused:
        store.update(resource, config("a", spec={"x": 1}))
    assert refused.value.code == 422


def test_an_update_for_another_uid_is_refused(store: Store) -> None:
    store.create("configmaps", config("a"))
    other = config("a")
    other["metadata"]["uid"] = "somebody-else"
    with pytest.raises(StatusError, match="UID in precondition: somebody-else"):
        store.update("configmaps", other)


def test_a_write_that_changes_nothing_is_no_event_and_no_version(store: Store) -> None:
    first = store.create("configmaps", config("a", data={"k": "v"}))
    events = heard(store)

    assert store.update("configmaps", first) == first
    assert events == []


def test_the_main_endpoint_leaves_the_status_alone(store: Store) -> None:
    store.create("pods", pod("a"))
    running = store.modify("pods", "default", "a", with_phase("Running"), subresource="status")

    said = {**running, "status": {"phase": "Failed"}}
    said["metadata"] = {**running["metadata"], "labels": {"x": "y"}}
    updated = store.update("pods", said)

    assert updated["status"]["phase"] == "Running"
    assert updated["metadata"]["labels"] == {"x": "y"}


def test_the_status_endpoint_leaves_the_spec_alone_and_takes_labels(store: Store) -> None:
    first = store.create("pods", pod("a"))
    said = {**first, "spec": {"containers": []}, "status": {"phase": "Running"}}
    said["metadata"] = {**first["metadata"], "labels": {"x": "y"}}

    updated = store.update("pods", said, subresource="status")

    assert updated["status"] == {"phase": "Running"}
    assert updated["spec"] == first["spec"]
    assert updated["metadata"]["labels"] == {"x": "y"}


def with_phase(phase: str) -> Any:
    return lambda obj: {**obj, "status": {**obj["status"], "phase": phase}}


def test_generation_counts_changes_of_the_spec_only(store: Store) -> None:
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "app:1"}]},
    }
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    store.create("deployments", config("d", spec=spec))

    def generation() -> int:
        found = store.get("deployments", "default", "d")
        assert found is not None
        return int(found["metadata"]["generation"])

    store.modify("deployments", "default", "d", lambda d: {**d, "status": {}}, subresource="status")
    label = {"labels": {"x": "y"}}
    store.modify(
        "deployments", "default", "d", lambda d: {**d, "metadata": {**d["metadata"], **label}}
    )
    assert generation() == 1

    store.modify(
        "deployments", "default", "d", lambda d: {**d, "spec": {**d["spec"], "replicas": 3}}
    )
    assert generation() == 2


def test_a_pod_on_a_node_goes_when_its_last_finalizer_does(store: Store) -> None:
    wish = pod("a", nodeName="n1")
    wish["metadata"]["finalizers"] = ["a/b"]
    store.create("pods", wish)
    left = store.delete("pods", "default", "a", grace(0))
    assert left["metadata"]["deletionGracePeriodSeconds"] == 0
    assert store.get("pods", "default", "a") is not None

    store.modify("pods", "default", "a", without_finalizers)

    assert store.get("pods", "default", "a") is None


def without_finalizers(obj: dict[str, Any]) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "finalizers": []}}


def grace(seconds: int) -> Any:
    from reactive_desched.sim.store import DeleteOptions

    return DeleteOptions(grace_period_seconds=seconds)


def test_a_dry_run_says_what_would_be_and_stores_nothing(store: Store) -> None:
    events = heard(store)

    made = store.create("pods", pod("a"), dry_run=True)

    assert made["spec"]["schedulerName"] == "default-scheduler"
    assert store.get("pods", "default", "a") is None
    assert events == []


def test_listeners_receive_every_write_in_order_even_when_they_write_themselves(
    store: Store,
) -> None:
    def mirror(event: Event) -> None:
        if event.resource == "pods" and event.type == "ADDED":
            store.create("configmaps", config(event.object["metadata"]["name"]))

    store.subscribe(mirror)
    events = heard(store)
    store.create("pods", pod("a"))

    assert [(e.resource, e.type) for e in events] == [("pods", "ADDED"), ("configmaps", "ADDED")]
    assert [e.rv for e in events] == sorted(e.rv for e in events)


def test_a_listener_that_left_receives_no_more(store: Store) -> None:
    events: list[Event] = []
    stop = store.subscribe(events.append)
    stop()
    store.create("pods", pod("a"))
    assert events == []


def test_an_event_carries_what_was_and_what_is(store: Store) -> None:
    events = heard(store)
    first = store.create("configmaps", config("a", data={"k": "1"}))
    second = store.update("configmaps", {**first, "data": {"k": "2"}})
    store.delete("configmaps", "default", "a")

    assert [(e.type, e.previous) for e in events] == [
        ("ADDED", None),
        ("MODIFIED", first),
        ("DELETED", second),
    ]
    gone = events[-1]
    assert gone.object["data"] == {"k": "2"}
    assert gone.object["metadata"]["resourceVersion"] == str(gone.rv)


def test_history_gives_what_came_after_a_version(store: Store) -> None:
    first = store.create("pods", pod("a"))
    store.create("configmaps", config("x"))
    store.create("pods", pod("b"))

    after = store.since("pods", int(first["metadata"]["resourceVersion"]))

    assert [event.object["metadata"]["name"] for event in after] == ["b"]


def test_a_version_older_than_the_history_has_expired() -> None:
    store = Store(VirtualClock(START), random.Random(7), history=2)
    seed(store)
    start = store.rv
    for name in "abc":
        store.create("pods", pod(name))

    with pytest.raises(Expired) as refused:
        store.since("pods", start)
    assert (refused.value.code, refused.value.reason) == (410, "Expired")
    assert [e.object["metadata"]["name"] for e in store.since("pods", start + 1)] == ["b", "c"]


def test_compaction_makes_every_older_version_expire(store: Store) -> None:
    store.compact()
    assert store.since("pods", store.rv) == []
    with pytest.raises(Expired):
        store.since("pods", store.rv - 1)


def test_an_old_state_can_be_listed_again(store: Store) -> None:
    store.create("configmaps", config("a", data={"k": "1"}))
    store.create("configmaps", config("b"))
    then = store.rv
    store.modify("configmaps", "default", "a", lambda c: {**c, "data": {"k": "2"}})
    store.delete("configmaps", "default", "b")
    store.create("configmaps", config("c"))

    old = store.list_at("configmaps", then)

    assert [(c["metadata"]["name"], c.get("data")) for c in old] == [("a", {"k": "1"}), ("b", None)]


def test_owner_references_are_kept_once_per_owner(store: Store) -> None:
    wish = config("a")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p"}
    wish["metadata"]["ownerReferences"] = [{**owner, "uid": uid} for uid in "121"]
    made = store.create("configmaps", wish)
    assert sorted(r["uid"] for r in made["metadata"]["ownerReferences"]) == ["1", "2"]
