"""Each resource's codec: objects, watch lines and pages in, records or a named refusal out."""

import json
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.errors import Malformed
from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import (
    Annotations,
    Namespace,
    Node,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PriorityClass,
)
from reactive_desched.model.taints import Taint
from reactive_desched.state.kinds.interning import InternTables
from tests.support.codecs import Codecs, make_codecs

JSON = dict[str, Any]  # any JSON object
METADATA = {"name": "n1", "uid": "u1", "resourceVersion": "7", "namespace": "shop"}
POD = {"metadata": METADATA | {"name": "web"}, "spec": {"nodeName": "n1"}}


def fresh() -> Codecs:
    return make_codecs(InternTables())


def as_line(kind: str, obj: Any) -> bytes:  # any JSON value
    return json.dumps({"type": kind, "object": obj}).encode()


def all_of(made: Codecs) -> list[Any]:  # codecs of different records
    return list(made.all())


# --- pods --------------------------------------------------------------------------------------


def read(**members: Any) -> Pod:  # any JSON value
    """Read a minimal pod with these members."""
    pod = {"metadata": {"name": "web", "namespace": "shop", "uid": "u1"}} | members
    return fresh().pods.decode_object(json.dumps(pod).encode())


def test_other_annotations_leave_no_trace() -> None:
    annotations = {"k8s.v1.cni.cncf.io/network-status": "x" * 500, "odd": 5}

    pod = read(metadata={"name": "web", "uid": "u1", "annotations": annotations})

    assert pod.annotations == Annotations()


@pytest.mark.parametrize(
    ("volume", "is_local"),
    [
        pytest.param({"emptyDir": {}}, True, id="an empty directory is local"),
        pytest.param({"emptyDir": {"medium": "Memory"}}, True, id="so is one in memory"),
        pytest.param({"hostPath": {"path": "/var"}}, True, id="so is a path of the host"),
        pytest.param({"emptyDir": None}, False, id="a null is no volume source"),
        pytest.param({"projected": {"sources": []}}, False, id="a projected token is not"),
        pytest.param({"persistentVolumeClaim": {"claimName": "d"}}, False, id="a claim is not"),
    ],
)
def test_local_storage_is_known_by_its_source(volume: JSON, *, is_local: bool) -> None:
    assert read(spec={"volumes": [{"name": "v"} | volume]}).spec.has_local_storage is is_local


def test_a_volume_of_two_kinds_counts_as_both() -> None:
    pod = read(spec={"volumes": [{"emptyDir": {}, "persistentVolumeClaim": {"claimName": "d"}}]})

    assert (pod.spec.has_local_storage, pod.pvc_names) == (True, ("d",))


@pytest.mark.parametrize(
    ("quantity", "cpu"),
    [
        pytest.param("250m", 250, id="a text"),
        pytest.param(1, 1000, id="a bare integer"),
        pytest.param(0.5, 500, id="a bare fraction"),
    ],
)
def test_a_request_may_be_a_text_or_a_number(quantity: Any, cpu: int) -> None:  # any JSON value
    containers = [{"resources": {"requests": {"cpu": quantity}}}]

    assert read(spec={"containers": containers}).spec.requests == {"cpu": cpu}


def test_a_fraction_beside_a_null_keeps_every_digit() -> None:
    text = (
        b'{"metadata":{"name":"web","uid":"u1","labels":null},"spec":{"containers":'
        b'[{"resources":{"requests":{"memory":12345678901234560.9}}}]}}'
    )

    assert fresh().pods.decode_object(text).spec.requests == {"memory": 12345678901234561}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        pytest.param("1970-01-01T00:00:00Z", 0, id="the epoch"),
        pytest.param("2025-10-09T08:53:20Z", 1_760_000_000, id="whole seconds"),
        pytest.param("2025-10-09T08:53:20.999999Z", 1_760_000_000, id="a fraction is cut off"),
        pytest.param("2025-10-09T10:53:20+02:00", 1_760_000_000, id="another zone"),
        pytest.param("0001-01-01T00:00:00Z", -62_135_596_800, id="Go's zero time"),
    ],
)
def test_times_are_whole_seconds_since_the_epoch(text: str, seconds: int) -> None:
    assert read(status={"startTime": text}).started_s == seconds


@pytest.mark.parametrize(
    ("text", "version"),
    [
        pytest.param("900000001", 900_000_001, id="a decimal number"),
        pytest.param("", 0, id="none"),
        pytest.param("v7", 0, id="not a number"),
        pytest.param("٣", 0, id="a digit of another script"),
        pytest.param("9" * 5000, 0, id="longer than any version"),
    ],
)
def test_a_version_that_is_no_decimal_number_is_zero(text: str, version: int) -> None:
    metadata = {"name": "web", "uid": "u1", "resourceVersion": text}

    assert read(metadata=metadata).resource_version == version


# --- the other resources -----------------------------------------------------------------------


def test_a_node_keeps_its_taints_its_ready_status_and_what_it_can_allocate() -> None:
    node = {
        "metadata": METADATA | {"labels": {"topology.kubernetes.io/zone": "z1"}},
        "spec": {
            "unschedulable": True,
            "taints": [{"key": "gpu", "effect": "NoSchedule", "timeAdded": None}],
        },
        "status": {
            "allocatable": {"cpu": "3920m", "memory": "2Gi", "pods": 110},
            "conditions": [
                {"type": "DiskPressure", "status": "False"},
                {"type": "Ready", "status": "Unknown"},
            ],
        },
    }

    assert fresh().nodes.decode_object(json.dumps(node).encode()) == Node(
        name="n1",
        uid="u1",
        resource_version=7,
        labels={"topology.kubernetes.io/zone": "z1"},
        taints=(Taint("gpu", "NoSchedule"),),
        unschedulable=True,
        allocatable={"cpu": 3920, "memory": 2 * 2**30, "pods": 110},
        ready_status="Unknown",
        conditions=(("DiskPressure", "False"),),
        conditions_changed_s=(None,),
    )


def test_a_node_without_a_ready_condition_has_none() -> None:
    assert (
        fresh().nodes.decode_object(json.dumps({"metadata": METADATA}).encode()).ready_status
        is None
    )


def test_a_namespace_keeps_its_labels() -> None:
    namespace = {"metadata": METADATA | {"labels": {"team": "a"}}, "status": {"phase": "Active"}}

    assert fresh().namespaces.decode_object(json.dumps(namespace).encode()) == Namespace(
        name="n1", uid="u1", resource_version=7, labels={"team": "a"}
    )


@pytest.mark.parametrize(
    ("deleted", "is_terminating"), [(None, False), ("2026-01-02T03:04:05Z", True)]
)
def test_a_namespace_says_whether_it_is_being_deleted(
    deleted: str | None, *, is_terminating: bool
) -> None:
    namespace = {"metadata": {"name": "shop", "uid": "u", "deletionTimestamp": deleted}}
    found = fresh().namespaces.decode_object(json.dumps(namespace).encode())

    assert found.is_terminating is is_terminating


def test_a_priority_class_keeps_its_value() -> None:
    text = json.dumps({"metadata": METADATA, "value": -10, "globalDefault": False}).encode()

    assert fresh().priority_classes.decode_object(text) == PriorityClass(
        name="n1", uid="u1", resource_version=7, value=-10
    )


@pytest.mark.parametrize(
    ("spec", "selector"),
    [
        pytest.param({}, None, id="no selector covers nobody"),
        pytest.param({"selector": None}, None, id="nor does a null"),
        pytest.param({"selector": {}}, LabelSelector(), id="an empty one covers everybody"),
        pytest.param(
            {"selector": {"matchLabels": {"app": "web"}, "matchExpressions": None}},
            LabelSelector({"app": "web"}),
            id="a null inside is absent",
        ),
    ],
)
def test_a_budget_keeps_its_selector_and_what_it_allows(
    spec: JSON, selector: LabelSelector | None
) -> None:
    budget = {"metadata": METADATA, "spec": spec, "status": {"disruptionsAllowed": 2}}

    assert fresh().pdbs.decode_object(json.dumps(budget).encode()) == PodDisruptionBudget(
        namespace="shop",
        name="n1",
        uid="u1",
        resource_version=7,
        selector=selector,
        disruptions_allowed=2,
    )


def test_a_claim_keeps_its_storage_class_and_its_volume() -> None:
    claim = {"metadata": METADATA, "spec": {"storageClassName": "fast", "volumeName": "pv1"}}

    assert fresh().pvcs.decode_object(json.dumps(claim).encode()) == PersistentVolumeClaim(
        namespace="shop",
        name="n1",
        uid="u1",
        resource_version=7,
        storage_class="fast",
        volume_name="pv1",
    )


def test_each_codec_lists_its_resource_in_all_namespaces() -> None:
    made = fresh()

    expected = {
        "Pod": "/api/v1/pods",
        "Node": "/api/v1/nodes",
        "Namespace": "/api/v1/namespaces",
        "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
        "PodDisruptionBudget": "/apis/policy/v1/poddisruptionbudgets",
        "PersistentVolumeClaim": "/api/v1/persistentvolumeclaims",
        "PersistentVolume": "/api/v1/persistentvolumes",
        "CSINode": "/apis/storage.k8s.io/v1/csinodes",
        "ReplicaSet": "/apis/apps/v1/replicasets",
        "Job": "/apis/batch/v1/jobs",
    }
    paths = {made_codec.kind: made_codec.path for made_codec in all_of(made)}
    assert {kind: paths[kind] for kind in expected} == expected


# --- what cannot be read -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("member", "name", "reason"),
    [
        pytest.param({"metadata": {"name": "web"}}, "web", "uid", id="no uid"),
        pytest.param({"metadata": METADATA | {"uid": ""}}, "shop/n1", "uid", id="an empty uid"),
        pytest.param({"metadata": {"name": 5}}, "", "metadata", id="a name that is no text"),
        pytest.param({"metadata": "x"}, "", "metadata", id="metadata that is no object"),
        pytest.param({"spec": []}, "shop/web", "spec", id="a list for a spec"),
        pytest.param(
            {"spec": {"tolerations": [{"key": 1}]}},
            "shop/web",
            "tolerations",
            id="a bad toleration",
        ),
        pytest.param(
            {"spec": {"overhead": {"cpu": "1KB"}}}, "shop/web", "'1KB'", id="a bad quantity"
        ),
        pytest.param(
            {"spec": {"overhead": {"cpu": True}}}, "shop/web", "'true'", id="a truth for a quantity"
        ),
        pytest.param(
            {"status": {"startTime": "yesterday"}}, "shop/web", "startTime", id="a bad time"
        ),
        pytest.param(
            {"status": {"startTime": "2025-10-09T08:53:20"}}, "shop/web", "zone", id="no time zone"
        ),
    ],
)
def test_an_object_that_cannot_be_read_is_named_with_the_reason(
    member: JSON, name: str, reason: str
) -> None:
    text = json.dumps(POD | member).encode()

    with pytest.raises(Malformed) as of_item:
        fresh().pods.decode_object(text)
    with pytest.raises(Malformed) as of_event:
        fresh().pods.decode_event(as_line("ADDED", POD | member))

    for refused in (of_item.value, of_event.value):
        assert (refused.kind, refused.name) == ("Pod", name)
        assert reason in refused.message


def test_one_malformed_object_does_not_spoil_its_page() -> None:
    items = [POD, {"metadata": {"name": "bad"}}, "what?", POD | {"spec": {"nodeName": "n2"}}]
    codec = fresh().pods
    read_ones: list[Pod] = []
    refused: list[str] = []

    body = json.dumps({"metadata": {}, "items": items}).encode()
    for obj in codec.decode_page(codec.read_page(body)):
        if isinstance(obj, Malformed):
            refused.append(obj.name)
        else:
            read_ones.append(obj)

    assert ([pod.node for pod in read_ones], refused) == (["n1", "n2"], ["bad", ""])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["metadata", "name", "uid", "labels", "spec", "status", "type", "object", "items"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(json_values.map(json.dumps).map(str.encode) | st.binary(max_size=30))
def test_whatever_arrives_nothing_but_malformed_is_raised(text: bytes) -> None:
    for codec in all_of(fresh()):
        for read_it in (codec.decode_object, codec.decode_event, read_whole_page(codec)):
            try:
                read_it(text)
            except Malformed as error:
                assert error.message  # noqa: PT017  most inputs are refused, some are not


# --- pages -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metadata", "version", "token"),
    [
        pytest.param({"resourceVersion": "9", "continue": "abc"}, "9", "abc", id="more follows"),
        pytest.param({"resourceVersion": "9"}, "9", "", id="the last page"),
        pytest.param({"resourceVersion": None, "continue": None}, "", "", id="nulls"),
    ],
)
def test_a_page_says_where_it_stands_and_how_to_continue(
    metadata: JSON, version: str, token: str
) -> None:
    body = as_page(named("web"), 5, **metadata)

    page = fresh().pods.read_page(body)

    assert (page.resource_version, page.continue_token) == (version, token)


@pytest.mark.parametrize("items", [[], None])
def test_an_empty_page_may_be_a_list_or_null(items: list[JSON] | None) -> None:
    codec = fresh().pods
    page = codec.read_page(json.dumps({"metadata": {}, "items": items}).encode())

    assert list(codec.decode_page(page)) == []


def test_a_reply_without_items_is_not_taken_for_an_empty_cluster() -> None:
    with pytest.raises(Malformed, match="items"):
        fresh().pods.read_page(b'{"kind":"Status","metadata":{},"status":"Failure","code":500}')


MISLEADING = [{"metadata": {"name": "no item"}}, {"metadata": {"name": "nor this"}}]
odd_members = st.sampled_from(
    [
        {},
        {"spec": {"nodeName": "n1"}},
        {"spec": {"unknown": MISLEADING}},
        {"unknown": {"deeper": [MISLEADING, MISLEADING]}},
        {"status": {"message": json.dumps(MISLEADING)}},
        {"spec": 5},
        {"metadata": None},
        {"metadata": {"name": "without-a-uid"}},
    ]
)


@given(st.lists(odd_members, max_size=6), st.sampled_from(["", "\n"]))
def test_a_page_decodes_as_its_objects_one_by_one(members: list[JSON], tail: str) -> None:
    items = [named(f"pod-{number}") | more for number, more in enumerate(members)]
    codec = fresh().pods

    page = codec.read_page(as_page(*items, resourceVersion="9", tail=tail))

    assert list(map(outcome, codec.decode_page(page))) == [one_by_one(each) for each in items]


def test_the_objects_of_a_page_from_an_api_server_are_cut_out() -> None:
    items = [named("a") | {"spec": {"unknown": MISLEADING}}, named("b")]

    assert fresh().pods.read_page(as_page(named("a"))).items_at > 0
    assert fresh().pods.read_page(as_page(*items)).items_at > 0
    assert fresh().pods.read_page(as_page(5, *items)).items_at < 0


@given(st.lists(st.integers(0, 2000), min_size=1, max_size=20))
def test_neighbours_of_any_length_are_cut_out_one_by_one(lengths: list[int]) -> None:
    items = [named(str(n)) for n in range(len(lengths))]
    for item, length in zip(items, lengths, strict=True):
        item["metadata"]["labels"] = {"padding": "x" * length}
    codec = fresh().pods
    with patch.object(codec, "_decode_whole_page", side_effect=AssertionError):
        found = list(codec.decode_page(codec.read_page(as_page(*items, resourceVersion="9"))))

    assert found == [one_by_one(item) for item in items]


@pytest.mark.parametrize("cut", [-1, -2, -3, -40])
def test_a_page_that_was_cut_short_is_malformed(cut: int) -> None:
    body, codec = as_page(named("a"), named("b"))[:cut], fresh().pods

    with pytest.raises(Malformed):
        list(codec.decode_page(codec.read_page(body)))


def named(name: str) -> JSON:
    return {"metadata": {"name": name, "namespace": "shop", "uid": name}}


def as_page(*items: object, tail: str = "", **metadata: object) -> bytes:
    """Write a list as an API server does."""
    listed = {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items}
    return json.dumps(listed, separators=(",", ":")).encode() + tail.encode()


def outcome(found: Pod | Malformed) -> object:
    return (found.kind, found.name, found.message) if isinstance(found, Malformed) else found


def one_by_one(item: JSON) -> object:
    try:
        return fresh().pods.decode_object(json.dumps(item).encode())
    except Malformed as error:
        return outcome(error)


def read_whole_page(codec: Any) -> Any:  # of any kind
    return lambda text: list(codec.decode_page(codec.read_page(text)))
