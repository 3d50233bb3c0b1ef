"""ReplicaSets and Jobs, of which only what controls them is read."""

import gc
import json
import tracemalloc
from typing import Any

import pytest

from reactive_desched.errors import Malformed
from reactive_desched.model.objects import Job, OwnerReference, ReplicaSet
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.kinds.interning import InternTables
from tests.support.codecs import Codecs, make_codecs

JSON = dict[str, Any]  # any JSON object
DEPLOYMENT: JSON = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "name": "web",
    "uid": "d1",
    "controller": True,
    "blockOwnerDeletion": True,
}
HELPER = {"apiVersion": "example.com/v1", "kind": "Fleet", "name": "f", "uid": "f1"}
ABOVE = OwnerReference("Deployment", "web", "d1", controller=True, api_version="apps/v1")


def fresh() -> Codecs:
    return make_codecs(InternTables())


def partial(*owners: JSON, uid: str = "r1", **members: Any) -> JSON:  # any JSON value
    """Write a ReplicaSet as the API server does when asked for metadata alone."""
    metadata = {
        "name": "web-5d",
        "namespace": "shop",
        "uid": uid,
        "resourceVersion": "7",
        "generation": 3,
        "labels": {"app": "web", "pod-template-hash": "5d"},
        "annotations": {"deployment.kubernetes.io/revision": "4"},
        "managedFields": [{"manager": "kube-controller-manager", "fieldsV1": {"f:spec": {}}}],
    }
    if owners:
        metadata["ownerReferences"] = list(owners)
    kind = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    return kind | {"metadata": metadata | members}


def text(obj: JSON) -> bytes:
    return json.dumps(obj).encode()


def test_a_whole_object_says_its_size_besides_what_a_partial_one_says() -> None:
    whole = partial(DEPLOYMENT) | {
        "kind": "ReplicaSet",
        "apiVersion": "apps/v1",
        "spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "c"}]}}},
        "status": {"replicas": 3},
    }

    assert fresh().replica_sets.decode_object(text(partial(DEPLOYMENT))) == ReplicaSet(
        "r1", 7, ABOVE
    )
    assert fresh().replica_sets.decode_object(text(whole)) == ReplicaSet("r1", 7, ABOVE, replicas=3)


@pytest.mark.parametrize(
    ("owners", "controller"),
    [
        pytest.param((HELPER, DEPLOYMENT), ABOVE, id="only what controls it counts"),
        pytest.param((HELPER,), None, id="an owner that does not control it"),
        pytest.param((), None, id="nobody"),
    ],
)
def test_a_job_says_what_controls_it(
    owners: tuple[JSON, ...], controller: OwnerReference | None
) -> None:
    assert fresh().jobs.decode_object(text(partial(*owners))) == Job("r1", 7, controller)


def test_a_null_for_owners_is_no_owner() -> None:
    obj = partial(ownerReferences=None, annotations=None)

    assert fresh().replica_sets.decode_object(text(obj)) == ReplicaSet("r1", 7, None)


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
def test_a_watch_line_carries_a_partial_object(kind: str) -> None:
    event = fresh().replica_sets.decode_event(text({"type": kind, "object": partial(DEPLOYMENT)}))

    assert (event.type, event.object) == (kind, ReplicaSet("r1", 7, ABOVE))
    assert event.resource_version == "7"


def test_a_bookmark_of_partial_objects_ends_the_initial_events() -> None:
    metadata = {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}
    obj = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
    event = fresh().jobs.decode_event(text({"type": "BOOKMARK", "object": obj}))

    assert (event.object, event.resource_version, event.initial_events_end) == (None, "9", True)


def test_a_page_holds_partial_objects() -> None:
    listed = {
        "kind": "PartialObjectMetadataList",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": "9", "continue": "more", "remainingItemCount": 1},
        "items": [partial(DEPLOYMENT), partial(uid="r2")],
    }
    made = fresh().replica_sets
    page = made.read_page(text(listed))

    owners = [each for each in made.decode_page(page) if not isinstance(each, Malformed)]
    assert [each.uid for each in owners] == ["r1", "r2"]
    assert (page.resource_version, page.continue_token) == ("9", "more")


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        pytest.param({"uid": ""}, "uid", id="no uid"),
        pytest.param({"ownerReferences": [{"kind": "Deployment"}]}, "ownerRef", id="half an owner"),
    ],
)
def test_what_cannot_be_read_is_named(members: JSON, reason: str) -> None:
    with pytest.raises(Malformed, match=reason) as caught:
        fresh().replica_sets.decode_object(text(partial(**members)))

    assert (caught.value.kind, caught.value.name) == ("ReplicaSet", "shop/web-5d")


def test_siblings_share_what_controls_them_whatever_else_is_written_there() -> None:
    made = fresh().replica_sets
    other = {key: DEPLOYMENT[key] for key in reversed(DEPLOYMENT)}
    one, two = (
        made.decode_object(text(partial(owner, uid=owner["name"]))) for owner in (DEPLOYMENT, other)
    )
    alien = made.decode_object(text(partial(DEPLOYMENT | {"uid": "d2", "name": "db"})))

    assert one.controller is two.controller
    assert alien.controller is not None
    assert one.controller is not None
    assert alien.controller.kind is one.controller.kind
    assert alien.controller.api_version is one.controller.api_version


def test_a_controller_outlives_a_sweep_of_shared_parts_while_it_is_held() -> None:
    shared, state = InternTables(), ClusterState()
    made = make_codecs(shared).replica_sets
    state.upsert(made.decode_object(text(partial(DEPLOYMENT))))
    for _ in range(3):
        shared.sweep(1_000_000)
    again = made.decode_object(text(partial(DEPLOYMENT, uid="r2")))

    kept = state.store(ReplicaSet).get("r1")
    assert kept is not None
    assert again.controller is kept.controller
    del again, kept
    state.remove(ReplicaSet("r1"))
    for _ in range(3):
        shared.sweep(1_000_000)
    assert shared.sizes()["controllers"] == 0


def test_pods_share_the_words_of_their_owners() -> None:
    made = fresh().pods

    def owner(name: str) -> OwnerReference:
        reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name}
        metadata = {"name": name, "uid": name, "ownerReferences": [reference]}
        return made.decode_object(text({"metadata": metadata})).owners[0]

    web, db = owner("web"), owner("db")
    assert web == OwnerReference(
        "ReplicaSet", "web", "web", controller=False, api_version="apps/v1"
    )
    assert (web.kind is db.kind, web.api_version is db.api_version) == (True, True)


def test_a_replica_set_takes_two_hundred_bytes_and_one_without_a_controller_half_of_that() -> None:
    sets, siblings = 5_000, 5
    shared, state = InternTables(), ClusterState()
    made = make_codecs(shared).replica_sets

    def take(controlled: bool) -> float:  # noqa: FBT001 -- one word of the sentence
        lines = []
        for number in range(sets):
            name, uid = f"web-{number // siblings}", f"00000000-0000-4000-a000-{number:012}"
            above = DEPLOYMENT | {"name": name, "uid": f"11111111-0000-4000-a000-{name:>12}"}
            lines.append(text(partial(above if controlled else HELPER, uid=uid)))
        gc.collect()
        tracemalloc.start()
        for line in lines:
            state.upsert(made.decode_object(line))
        grown = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return grown / sets

    assert take(controlled=False) < 115
    assert take(controlled=True) < 210
    assert len(state.store(ReplicaSet)) == sets
