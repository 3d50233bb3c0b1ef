"""managedFields say nothing that is read: with or without them, a pod is the same pod."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.errors import Malformed
from reactive_desched.model.objects import Pod
from reactive_desched.state.kinds.interning import InternTables
from tests.support.codecs import make_codecs

JSON = dict[str, Any]  # any JSON object
METADATA: JSON = {"name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": "7"}
SPEC: JSON = {"nodeName": "n1", "tolerations": [{"key": "a]},b", "operator": "Exists"}]}
STATUS: JSON = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
FIELDS = [{"manager": "kubelet", "fieldsV1": {"f:spec": {'k:{"name":"app"}': {".": {}}}}}]

POD_PARTS = ["metadata", "spec", "status"]
TRICKY_TEXTS = st.sampled_from(["]", "[", ']},"spec":{', ',"managedFields":[', "}", "{", '"'])
JSON_VALUES = st.recursive(
    st.none() | TRICKY_TEXTS | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["spec", "managedFields", "status"]) | TRICKY_TEXTS, inner, max_size=3
        )
    ),
    max_leaves=8,
)


def compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def pod_of(parts: list[str] = POD_PARTS, **metadata: object) -> JSON:
    whole = {"metadata": METADATA | metadata, "spec": SPEC, "status": STATUS}
    return {part: whole[part] for part in parts}


PLAIN = make_codecs(InternTables()).pods.decode_object(compact(pod_of()))


def read_event(pod: JSON) -> Pod | None:
    return (
        make_codecs(InternTables())
        .pods.decode_event(compact({"type": "MODIFIED", "object": pod}) + b"\n")
        .object
    )


def read_page(*pods: JSON) -> list[Pod | Malformed]:
    codec = make_codecs(InternTables()).pods
    page = compact({"kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": pods})
    return list(codec.decode_page(codec.read_page(page)))


@given(
    st.lists(JSON_VALUES, max_size=3),
    st.permutations(POD_PARTS),
    st.sampled_from([JSON(), {"ownerReferences": []}]),
)
def test_whatever_they_hold_and_wherever_they_stand_the_pod_is_the_same(
    fields: list[object], parts: list[str], after: JSON
) -> None:
    pod = pod_of(parts, managedFields=fields, **after)

    assert read_event(pod) == PLAIN
    assert read_page(pod, pod_of(), pod) == [PLAIN] * 3


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param([{"v": ["x"]}], id="an array within"),
        pytest.param([{"a": {"b": []}, "spec": {}}], id="an array within, and a spec after it"),
        pytest.param([{"a": {"b": []}, "spec": {}}, {"spec": {}}], id="two specs after it"),
        pytest.param([{'k:{"name":"a]b"}': {}}], id="a bracket in a name"),
        pytest.param([{"],": ":1,", ":1}]": 1}], id="names that look like JSON after a bracket"),
        pytest.param([], id="none"),
    ],
)
def test_brackets_within_them_end_nothing(fields: list[object]) -> None:
    assert read_event(pod_of(managedFields=fields)) == PLAIN
    assert read_page(pod_of(managedFields=fields)) == [PLAIN]


def test_they_are_not_even_parsed() -> None:
    broken = compact({"type": "ADDED", "object": pod_of(managedFields=FIELDS)}).replace(
        b'"kubelet"', b"?"
    )

    assert make_codecs(InternTables()).pods.decode_event(broken).object == PLAIN


def test_those_of_a_later_pod_are_not_searched_for() -> None:
    pages = read_page(pod_of(), pod_of(managedFields=FIELDS))

    assert pages == [PLAIN, PLAIN]
