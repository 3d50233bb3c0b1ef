"""Pods are read field by field and shared; a plain reading of the same JSON must agree."""

import json
from typing import Any

import pytest
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


HALF, ONE, TWO = ({"requests": {"cpu": amount}} for amount in ("500m", "1", "2"))
INFEASIBLE = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]


@pytest.mark.parametrize(
    ("spec", "status", "more"),
    [
        pytest.param({}, {"resources": TWO}, 1000, id="the kubelet has not shrunk it yet"),
        pytest.param({}, {"resources": HALF}, 0, id="nor made it larger"),
        pytest.param(
            {}, {"resources": ONE, "allocatedResources": {"cpu": "2"}}, 1000, id="allocated"
        ),
        pytest.param({}, {"allocatedResources": {"cpu": "2"}}, 0, id="allocated, not reported"),
        pytest.param(
            {},
            {"allocatedResources": {"cpu": "500m"}, "conditions": INFEASIBLE},
            0,
            id="allocated, not reported, and it does not fit its node",
        ),
        pytest.param(
            {}, {"resources": HALF, "conditions": INFEASIBLE}, -500, id="it does not fit its node"
        ),
        pytest.param(
            {}, {"resources": HALF, "resize": "Infeasible"}, -500, id="as Kubernetes 1.32 says it"
        ),
        pytest.param(
            {"resources": ONE}, {"podResources": TWO, "resources": ONE}, 1000, id="a whole pod"
        ),
        pytest.param(
            {"resources": ONE},
            {"podResources": HALF, "resources": ONE, "conditions": INFEASIBLE},
            -500,
            id="a whole pod that does not fit its node",
        ),
        pytest.param(
            {"resources": {"requests": {"memory": "1"}}},
            {"podResources": TWO, "resources": ONE},
            0,
            id="a whole pod that requests other resources",
        ),
        pytest.param(
            {"initContainers": [{"name": "init", "resources": ONE, "restartPolicy": "Always"}]},
            {"initResources": TWO},
            1000,
            id="a sidecar",
        ),
        pytest.param(
            {"initContainers": [{"name": "init", "resources": ONE}]},
            {"initResources": TWO},
            0,
            id="an init container",
        ),
    ],
)
def test_a_pod_in_a_resize_holds_what_the_kube_scheduler_counts(
    spec: JSON, status: JSON, more: int
) -> None:
    container = {"name": "main", **{k: status[k] for k in status if k.endswith("esources")}}
    for others in ("podResources", "initResources"):
        container.pop(others, None)
    init = {"name": "init", "resources": status.get("initResources", ONE)}
    pod = {
        "metadata": {"name": "web", "uid": "u1"},
        "spec": {"nodeName": "n1", "containers": [{"name": "main", "resources": ONE}], **spec},
        "status": {
            "containerStatuses": [container],
            "initContainerStatuses": [init] if "initContainers" in spec else [],
            "conditions": status.get("conditions", []),
            "resize": status.get("resize", ""),
            **({"resources": status["podResources"]} if "podResources" in status else {}),
        },
    }

    record = make_codecs(InternTables()).pods.decode_object(json.dumps(pod).encode())

    assert record.held.get("cpu", 0) - record.spec.requests["cpu"] == more


def test_no_name_that_is_kept_of_a_pod_holds_a_command_for_a_terminal() -> None:
    hostile = "red\x1b[31m\x9b2J\u202e\n"
    owner = {"kind": hostile, "name": hostile, "uid": hostile, "apiVersion": hostile}
    pod = {
        "metadata": {"name": "web", "uid": "u1", "ownerReferences": [owner]},
        "spec": {
            "schedulerName": hostile,
            "containers": [{"name": "c", "image": hostile}],
            "volumes": [{"persistentVolumeClaim": {"claimName": hostile}}],
        },
        "status": {"reason": hostile, "conditions": [{"type": hostile, "status": "True"}]},
    }

    record = make_codecs(InternTables()).pods.decode_object(json.dumps(pod).encode())

    kept = (*record.pvc_names, *record.spec.images, record.spec.scheduler_name)
    named = (record.owners[0].kind, record.owners[0].name, record.owners[0].uid)
    said = (record.status.reason, record.status.conditions[0].type)
    assert {*kept, *named, *said} == {"red\\x1b[31m\\x9b2J\\u202e\\n"}
