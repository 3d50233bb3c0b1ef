"""Recordings of kwokctl and SimKube are read as far as they reach, and what they lack is said."""

import gzip
import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reactive_desched.errors import RecordingError
from reactive_desched.model.objects import Node, Pod
from reactive_desched.recording.imports import kwok, simkube
from reactive_desched.recording.imports.kwok import read_kwok
from reactive_desched.recording.imports.simkube import read_simkube
from reactive_desched.recording.imports.strategic_merge import merge
from reactive_desched.recording.items import (
    Instant,
    Item,
    ObjectChanged,
    ObjectFound,
    PictureBegun,
    PictureEnded,
    Verb,
)
from reactive_desched.recording.recorded_state import RecordedState
from tests.support.golden import Golden

BEGAN_S = 1_800_000_000.0

KWOK = """\
apiVersion: v1
kind: Node
metadata:
  creationTimestamp: $(time-offset-nanosecond -60000000000)
  labels:
    kubernetes.io/hostname: node0
    rack: "on"
  name: node0
  uid: 0c9b6c5e-6c9e-4b5e-8f0a-000000000001
spec: {}
status:
  allocatable:
    cpu: "4"
    pods: "110"
  conditions:
  - lastTransitionTime: $(time-offset-nanosecond -60000000000)
    status: "True"
    type: Ready
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: other
  namespace: default
---
apiVersion: action.kwok.x-k8s.io/v1alpha1
durationNanosecond: 1500000000
kind: ResourcePatch
method: create
resource:
  resource: pods
  version: v1
target:
  name: web-0
  namespace: default
template:
  apiVersion: v1
  kind: Pod
  metadata:
    creationTimestamp: $(time-offset-nanosecond 1000000000)
    name: web-0
    namespace: default
    uid: 0c9b6c5e-6c9e-4b5e-8f0a-000000000002
  spec:
    containers:
    - image: web:1
      name: web
  status:
    phase: Pending
---
apiVersion: action.kwok.x-k8s.io/v1alpha1
durationNanosecond: 2500000000
kind: ResourcePatch
method: patch
resource:
  resource: pods
  version: v1
target:
  name: web-0
  namespace: default
template:
  spec:
    nodeName: node0
  status:
    $setElementOrder/conditions:
    - type: Ready
    conditions:
    - lastTransitionTime: $(time-offset-nanosecond 2000000000)
      status: "True"
      type: Ready
    phase: Running
---
apiVersion: action.kwok.x-k8s.io/v1alpha1
durationNanosecond: 3500000000
kind: ResourcePatch
method: delete
resource:
  resource: pods
  version: v1
target:
  name: web-0
  namespace: default
"""
"""As kwokctl 0.8 writes it: pkg/kwokctl/snapshot/save.go, with the times of recording/time.go."""


def read(text: str | bytes, name: str = "cluster.yaml") -> tuple[list[Any], list[str]]:
    """Return the items of a recording of kwokctl, and what is said to be missing."""
    data = text.encode() if isinstance(text, str) else text
    notes: list[str] = []
    return list(read_kwok(io.BytesIO(data), name, BEGAN_S, notes.append)), notes


def test_a_recording_of_kwokctl_is_a_picture_and_its_changes() -> None:
    (begun, node, ended, added, bound, gone), _ = read(KWOK)

    assert begun == PictureBegun(Instant(BEGAN_S, 0.0))
    assert (node.resource, node.obj.name, node.obj.created_s) == ("nodes", "node0", BEGAN_S - 60)
    assert node.obj.labels["rack"] == "on"
    assert ended == PictureEnded(begun.at, {"nodes": 1})
    assert (added.verb, added.at) == (Verb.ADDED, Instant(BEGAN_S + 1.5, 1.5))
    assert (added.obj.node, added.obj.created_s) == ("", BEGAN_S + 1)
    assert (bound.verb, bound.obj.node, bound.obj.status.is_ready) == (Verb.MODIFIED, "node0", True)
    assert bound.obj.spec.images == ("web:1",)
    assert bound.obj.resource_version > added.obj.resource_version
    assert (gone.verb, gone.obj.uid, gone.at.monotonic_s) == (Verb.DELETED, added.obj.uid, 3.5)


def test_a_word_without_quotes_means_what_it_means_to_kubectl() -> None:
    (_, node, *_), _ = read(KWOK.replace('rack: "on"', 'y: "on"'))

    assert node.obj.labels["true"] == "on"


def test_a_recording_of_a_real_cluster_by_kwokctl_has_the_pods_as_kubectl_showed_them() -> None:
    notes: list[str] = []
    with (Path(__file__).parent / "recorded" / "kwokctl-0.8.0.yaml.gz").open("rb") as file:
        state = RecordedState()
        for item in read_kwok(file, "kwokctl-0.8.0.yaml.gz", BEGAN_S, notes.append):
            state.apply(item)
    pods = {pod.name: pod.node for pod in state.objects["pods"].values() if isinstance(pod, Pod)}
    assert pods == {
        "api-568dd48cc4-b5ddj": "node-2",
        "api-568dd48cc4-hkmcj": "node-2",
        "api-568dd48cc4-vzf7c": "node-1",
        "web-76c4d7f656-85f78": "node-0",
        "web-76c4d7f656-n4v46": "node-2",
        "web-76c4d7f656-r47z4": "node-1",
    }
    assert {name: taints(node) for name, node in state.objects["nodes"].items()} == {
        "node-0": ["gpu=yes:NoSchedule"],
        "node-1": [],
    }
    assert not any("unreadable" in note for note in notes)


def taints(node: object) -> list[str]:
    assert isinstance(node, Node)
    return [str(taint) for taint in node.taints]


def test_what_a_recording_of_kwokctl_lacks_is_said(golden: Golden) -> None:
    _, notes = read(KWOK)

    assert "\n".join(notes) == golden()


def test_a_snapshot_without_changes_is_a_picture() -> None:
    items, notes = read(KWOK.partition("---\napiVersion: action")[0])

    assert [type(each) for each in items] == [PictureBegun, ObjectFound, PictureEnded]
    assert any("no changes" in note for note in notes)


def test_a_compressed_recording_is_read_and_a_torn_one_is_an_error() -> None:
    packed = gzip.compress(KWOK.encode())

    def opened(data: bytes) -> list[Item]:
        file = io.BufferedReader(io.BytesIO(data))
        return list(read_kwok(file, "cluster.gz", BEGAN_S, lambda _: None))

    assert opened(packed) == read(KWOK)[0]
    with pytest.raises(RecordingError, match=r"cluster\.gz, line 1"):
        opened(packed[:-20])


def test_a_change_that_was_written_late_goes_at_the_time_of_the_one_before() -> None:
    items, _ = read(KWOK.replace("2500000000", "1400000000"))

    changes = [each for each in items if isinstance(each, ObjectChanged)]
    assert [each.at.monotonic_s for each in changes] == [1.5, 1.5, 3.5]


SET_ORDER = "    $setElementOrder/conditions:\n    - type"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a: [", id="no YAML"),
        pytest.param("- 1\n- 2\n", id="a list"),
        pytest.param(b"\x00\xff\xfe", id="bytes"),
        pytest.param("apiVersion: v1\nkind: Pod\n", id="no metadata"),
        pytest.param(KWOK.replace("method: delete", "method: move"), id="method"),
        pytest.param(KWOK.replace("durationNanosecond: 35", "duration: 35"), id="no duration"),
        pytest.param(KWOK + "---\napiVersion: v1\nkind: Node\nmetadata: {}\n", id="late object"),
        pytest.param("a: &a [1]\nb: *a\n", id="an alias"),
        pytest.param("null: 1\n", id="no key"),
        pytest.param(KWOK.replace(SET_ORDER, "    conditions: 1\n    x: [type", 1), id="cut"),
        pytest.param(
            KWOK.replace(
                "    - lastTransitionTime: $(time-offset-nanosecond 2",
                "    - 1\n    - lastTransitionTime: $(time-offset-nanosecond 2",
            ),
            id="no merge key",
        ),
    ],
)
def test_a_file_that_is_no_recording_of_kwokctl_is_an_error_with_its_place(
    text: str | bytes, golden: Golden
) -> None:
    with pytest.raises(RecordingError) as raised:
        read(text)

    assert str(raised.value) == golden()


def test_lists_that_are_nested_too_deeply_are_an_error() -> None:
    with pytest.raises(RecordingError):
        read("a: " + "[" * 5000)


def test_a_document_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kwok, "MAX_DOCUMENT_BYTES", 100)

    with pytest.raises(RecordingError, match="document is longer"):
        read(KWOK)


def test_more_objects_than_are_kept_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kwok, "MAX_OBJECTS", 1)

    with pytest.raises(RecordingError, match="fewer kinds"):
        read(KWOK)


@pytest.mark.parametrize(
    ("before", "patch", "after"),
    [
        ({"a": 1, "b": 2}, {"a": None, "b": 3}, {"b": 3}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}),
        ({"a": {"b": 1}}, {"a": {"$patch": "replace", "c": 2}}, {"a": {"c": 2}}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"$retainKeys": ["c"]}}, {"a": {"c": 2}}),
        ({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]}, None),
        (
            {"conditions": [{"type": "A", "status": "True"}, {"type": "B"}]},
            {
                "$setElementOrder/conditions": [{"type": "C"}, {"type": "A"}],
                "conditions": [
                    {"type": "A", "status": "False"},
                    {"type": "B", "$patch": "delete"},
                    {"type": "C"},
                ],
            },
            {"conditions": [{"type": "C"}, {"type": "A", "status": "False"}]},
        ),
        (
            {"finalizers": ["a", "b"]},
            {"$deleteFromPrimitiveList/finalizers": ["a"]},
            {"finalizers": ["b"]},
        ),
        ({"finalizers": ["a"]}, {"finalizers": ["b"]}, {"finalizers": ["a", "b"]}),
        (
            {"ownerReferences": [{"uid": "u", "name": "a"}]},
            {"ownerReferences": [{"uid": "u", "controller": True}]},
            {"ownerReferences": [{"uid": "u", "name": "a", "controller": True}]},
        ),
    ],
)
def test_patches_are_merged_as_the_api_server_merges_them(
    before: Any, patch: Any, after: Any
) -> None:
    original = json.dumps(before)

    assert merge(before, patch) == (patch if after is None else after)
    assert json.dumps(before) == original


def pod(name: str, **spec: Any) -> dict[str, Any]:
    """Return a Pod as SimKube's tracer stores it: without its node, status and uid."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "testing", "annotations": {}},
        "spec": {"containers": [{"name": "sleeper", "image": "busybox"}], **spec},
    }


def trace(*events: Any, version: int = 2) -> bytes:
    """Return a trace as `Trace::to_bytes` writes it: named fields, owners as pairs."""
    owner = ["v1.Pod", "testing/a"]
    packed = msgspec.msgpack.encode(
        {
            "version": version,
            "config": {"trackedObjects": {"v1.Pod": {"podSpecTemplatePaths": [""]}}},
            "events": [
                {"ts": ts, "applied_objs": applied, "deleted_objs": deleted}
                for ts, applied, deleted in events
            ],
            "index": {"v1.Pod": {"testing/a": 2**64 - 1}},
        }
    )
    lifecycles = (
        msgspec.msgpack.encode("pod_lifecycles")
        + b"\x81"  # a map of one, whose key is a list
        + msgspec.msgpack.encode(owner)
        + msgspec.msgpack.encode({1: [{"Finished": [1000, 1010]}]})
    )
    return bytes([packed[0] + 1]) + packed[1:] + lifecycles


def read_trace(data: bytes) -> tuple[list[Any], list[str]]:
    """Return the items of a trace, and what is said to be missing."""
    notes: list[str] = []
    return list(read_simkube(io.BytesIO(data), "a.sktrace", notes.append)), notes


def test_a_trace_of_simkube_is_a_picture_and_its_changes() -> None:
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "testing"},
        "spec": {"replicas": 2},
    }
    scaled = {**deployment, "spec": {"replicas": 5}}
    gone = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "testing"}}

    (begun, first, web, ended, bigger, deleted, again), _ = read_trace(
        trace(
            (1000, [pod("a"), deployment], []),
            (1010, [scaled], [gone]),
            (1020, [pod("a")], []),
        )
    )

    assert begun.at == ended.at == Instant(1000.0, 0.0)
    assert (type(first), first.obj.name) == (ObjectFound, "a")
    assert (type(web), web.obj.replicas) == (ObjectFound, 2)
    assert (bigger.verb, bigger.obj.replicas, bigger.obj.uid) == (
        Verb.MODIFIED,
        5,
        web.obj.uid,
    )
    assert (deleted.verb, deleted.obj.uid) == (Verb.DELETED, first.obj.uid)
    assert (again.verb, again.at) == (Verb.ADDED, Instant(1020.0, 20.0))
    assert again.obj.uid != first.obj.uid


def test_version_3_of_a_trace_of_simkube_has_the_same_events() -> None:
    """It has the lives of pods in its index, by the times at which their owners changed."""
    lives = {"apps/v1.Deployment": {"testing/web": {1000: [{"lifecycle": {"Finished": [1, 2]}}]}}}
    events = [{"ts": 1000, "applied_objs": [pod("a")], "deleted_objs": []}]
    data = msgspec.msgpack.encode({"version": 3, "config": {}, "events": events, "index": lives})

    assert read_trace(data) == read_trace(trace((1000, [pod("a")], [])))


def test_what_a_trace_of_simkube_lacks_is_said(golden: Golden) -> None:
    _, notes = read_trace(trace((1000, [pod("a")], [])))

    assert "\n".join(notes) == golden()


def test_a_trace_without_events_is_an_empty_picture() -> None:
    items, _ = read_trace(trace())

    assert [type(each) for each in items] == [PictureBegun, PictureEnded]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\xc1", id="no MessagePack"),
        pytest.param(b"{}", id="JSON"),
        pytest.param(trace(version=1), id="version 1"),
        pytest.param(trace(version=4), id="version 4"),
        pytest.param(trace((1000, [pod("a")], []))[:60], id="cut"),
        pytest.param(trace(("soon", [], [])), id="time"),
        pytest.param(trace((1000, [{"apiVersion": "v1", "kind": "Pod"}], [])), id="no name"),
    ],
)
def test_a_file_that_is_no_trace_of_simkube_is_an_error(data: bytes, golden: Golden) -> None:
    with pytest.raises(RecordingError) as raised:
        read_trace(data)

    assert str(raised.value) == golden()


def test_a_trace_that_is_nested_too_deeply_is_an_error() -> None:
    with pytest.raises(RecordingError):
        read_trace(b"\x91" * 100_000)


def test_a_trace_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simkube, "MAX_TRACE_BYTES", 10)

    with pytest.raises(RecordingError, match="shorter time"):
        read_trace(trace())
