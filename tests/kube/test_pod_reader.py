"""Pods are read field by field and shared; a plain reading of the same JSON must agree."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.state.kinds.interning import InternTables
from tests.support.codecs import make_codecs
from tests.support.plain_pods import reference_pod
from tests.support.pods_as_json import PODS

JSON = dict[str, Any]  # any JSON object


@given(
    generated=st.lists(PODS, min_size=1, max_size=3),
    indent=st.sampled_from([None, 1]),
    ascii_only=st.booleans(),
    budget=st.sampled_from([0, 3, 1000]),
)
def test_a_pod_is_read_as_a_plain_reading_of_its_json_would(
    generated: list[JSON], indent: int | None, *, ascii_only: bool, budget: int
) -> None:
    shared = InternTables()
    codec = make_codecs(shared).pods
    kept = []
    for pod in generated:
        text = json.dumps(pod, indent=indent, ensure_ascii=ascii_only).encode()
        kept.append(codec.decode_object(text))
        shared.sweep(budget)
    assert kept == [reference_pod(pod) for pod in generated]


@given(PODS)
def test_an_event_carries_the_same_pod_as_a_list_item(pod: JSON) -> None:
    line = json.dumps({"type": "MODIFIED", "object": {"kind": "Pod"} | pod}).encode()

    event = make_codecs(InternTables()).pods.decode_event(line)

    assert (event.type, event.object) == ("MODIFIED", reference_pod(pod))
    assert event.resource_version == (pod["metadata"].get("resourceVersion") or "")


def test_conditions_change_whole_seconds_after_the_creation_whatever_the_fractions() -> None:
    conditions = [
        {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01.1Z"},
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2025-12-31T23:59:59Z"},
        {"type": "Initialized", "status": "True"},
    ]
    metadata = {"name": "web", "uid": "u1", "creationTimestamp": "2026-01-01T00:00:00.9Z"}
    pod = {"metadata": metadata, "status": {"conditions": conditions}}

    record = make_codecs(InternTables()).pods.decode_object(json.dumps(pod).encode())

    assert record.condition_transitions == (1, -1, None)
