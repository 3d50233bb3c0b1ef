"""An update of a pod whose generation is known is read without its spec, and reads the same."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.kube.codec import AnyCodec, make_codecs
from reactive_desched.model.objects import Pod
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.kinds.interning import InternTables
from tests.support.pods_as_json import PODS

JSON = dict[str, Any]  # any JSON object
RESOURCES = {"requests": {"cpu": "1"}}
POD: JSON = {
    "metadata": {
        "name": "web",
        "namespace": "shop",
        "uid": "u1",
        "resourceVersion": "7",
        "generation": 2,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"app": "web"},
        "annotations": {"note": 'a },"spec":{"nodeName":"n9"},"status":{} b'},
        "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:spec": {"f:status": {}}}}],
    },
    "spec": {
        "nodeName": "n1",
        "containers": [{"name": "app", "image": "web:1", "resources": RESOURCES}],
        "volumes": [{"persistentVolumeClaim": {"claimName": "data"}}],
    },
    "status": {
        "observedGeneration": 2,
        "phase": "Running",
        "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z"}
        ],
        "startTime": "2026-01-01T00:00:01Z",
        "containerStatuses": [{"name": "app", "restartCount": 0, "resources": RESOURCES}],
    },
}
ANOTHER_SPEC: JSON = {
    "nodeName": "n1",
    "containers": [{"name": "app", "image": "web:2", "resources": {"requests": {"cpu": "2"}}}],
}


def line_of(pod: JSON, what: str = "MODIFIED") -> bytes:
    event = {"type": what, "object": {"kind": "Pod", "apiVersion": "v1"} | pod}
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


def changed(pod: JSON, **parts: JSON) -> JSON:
    """Return the pod with members of its parts added or replaced; None removes one."""
    made = copy.deepcopy(pod)
    for part, members in parts.items():
        made[part] |= members
        made[part] = {name: value for name, value in made[part].items() if value is not None}
    return made


class Watch:
    """Reads lines as a reflector does: each pod goes into the state that the codec looks in."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self._codec: AnyCodec = make_codecs(InternTables(), self.state)["pods"]

    def read(self, pod: JSON, what: str = "MODIFIED") -> Pod:
        event = self._codec.decode_event(line_of(pod, what))
        assert isinstance(event.object, Pod)
        assert event.type == what
        assert event.resource_version == (pod["metadata"].get("resourceVersion") or "")
        self.state.upsert(event.object)
        return event.object


def read_alone(pod: JSON) -> Pod:
    """Read the line of a pod that was never seen."""
    record = make_codecs(InternTables())["pods"].decode_event(line_of(pod)).object
    assert isinstance(record, Pod)
    return record


UPDATES = {
    "readiness": {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
    "a restart": {"status": {"containerStatuses": [{"name": "app", "restartCount": 1}]}},
    "the end": {"status": {"phase": "Failed", "reason": "Evicted"}},
    "labels": {"metadata": {"labels": {"app": "db"}}},
    "annotations": {"metadata": {"annotations": {"descheduler.alpha.kubernetes.io/evict": "true"}}},
    "an owner": {"metadata": {"ownerReferences": [{"kind": "Job", "name": "j", "uid": "j1"}]}},
    "deletion": {"metadata": {"deletionTimestamp": "2026-01-01T01:00:00Z"}},
    "no managedFields": {"metadata": {"managedFields": None}},
    "the start": {"status": {"startTime": "2026-01-01T00:00:09Z"}},
}


@pytest.mark.parametrize("parts", UPDATES.values(), ids=UPDATES)
def test_an_update_is_the_pod_that_the_whole_line_would_be(parts: JSON) -> None:
    watch = Watch()
    watch.read(POD, "ADDED")
    update = changed(changed(POD, metadata={"resourceVersion": "8"}), **parts)

    assert watch.read(update) == read_alone(update)


def test_a_spec_of_the_same_generation_is_not_read() -> None:
    watch = Watch()
    known = watch.read(POD, "ADDED")

    update = watch.read(changed(POD, spec=ANOTHER_SPEC, metadata={"resourceVersion": "8"}))

    assert update.resource_version == 8
    assert (update.spec, update.node, update.pvc_names) == (known.spec, "n1", ("data",))


def test_a_spec_of_the_next_generation_is_read() -> None:
    watch = Watch()
    watch.read(POD, "ADDED")

    resized = changed(POD, spec=ANOTHER_SPEC, metadata={"generation": 3})
    update = watch.read(resized)

    assert update == read_alone(resized)
    assert update.spec.images == ("web:2",)


UNCOUNTED = {
    "the server counts no generations": {"metadata": {"generation": None}},
    "the kubelet reports none": {"status": {"observedGeneration": None}},
    "no container is reported": {"status": {"containerStatuses": None}},
    "a resize is under way": {
        "status": {"containerStatuses": [{"name": "app", "resources": {"requests": {"cpu": "3"}}}]}
    },
    "it has no node": {"spec": {"nodeName": None}},
}


@pytest.mark.parametrize("parts", UNCOUNTED.values(), ids=UNCOUNTED)
def test_the_spec_is_read_of_a_pod_that_may_differ_in_it(parts: JSON) -> None:
    for update in (
        changed(POD, spec=ANOTHER_SPEC),
        changed(changed(POD, spec=ANOTHER_SPEC), **parts),
    ):
        watch = Watch()
        watch.read(changed(POD, **parts), "ADDED")

        assert watch.read(update) == read_alone(update)


def test_the_spec_is_read_where_the_kubelet_reports_no_generation_any_more() -> None:
    watch = Watch()
    watch.read(POD, "ADDED")

    update = changed(POD, spec=ANOTHER_SPEC, status={"observedGeneration": None})
    assert watch.read(update) == read_alone(update)


@pytest.mark.parametrize("what", ["ADDED", "DELETED"])
def test_only_a_change_is_read_without_its_spec(what: str) -> None:
    watch = Watch()
    watch.read(POD, "ADDED")

    assert watch.read(changed(POD, spec=ANOTHER_SPEC), what).spec.images == ("web:2",)


def test_another_pod_of_the_same_name_is_read_whole() -> None:
    watch = Watch()
    watch.read(POD, "ADDED")

    recreated = changed(POD, spec=ANOTHER_SPEC, metadata={"uid": "u2"})
    assert watch.read(recreated) == read_alone(recreated)


def test_a_uid_that_stands_before_the_pods_own_names_no_pod() -> None:
    watch = Watch()
    watch.read(POD, "ADDED")

    owners = [{"uid": "u1", "kind": "Pod", "name": "web"}]
    other = changed(POD, spec=ANOTHER_SPEC)
    other["metadata"] = {"ownerReferences": owners} | other["metadata"] | {"uid": "u2"}
    assert watch.read(other) == read_alone(other)


def test_a_status_within_the_spec_does_not_end_it() -> None:
    watch = Watch()
    watch.read(POD, "ADDED")

    update = changed(POD, spec={"future": {"a": {}, "status": {"phase": "Failed"}}})
    assert watch.read(update) == read_alone(update)


@given(first=PODS, then=PODS, is_counted=st.booleans(), spec_changes=st.booleans())
def test_any_update_reads_as_it_would_alone(
    first: JSON, then: JSON, *, is_counted: bool, spec_changes: bool
) -> None:
    """The spec changes with the generation alone, and what containers hold with the spec."""
    observed = {"observedGeneration": 1 if is_counted else None}
    first["metadata"]["generation"] = 1
    first["status"] = (first.get("status") or {}) | observed
    update = then | {"status": (then.get("status") or {}) | observed}
    kept = {name: first["metadata"].get(name) for name in ("name", "uid", "namespace")}
    update["metadata"] |= kept | {"generation": 2 if spec_changes else 1}
    if not spec_changes:
        update["spec"] = first.get("spec")
        for name in ("containerStatuses", "initContainerStatuses"):
            update["status"][name] = first["status"].get(name)
    watch = Watch()
    watch.read(first, "ADDED")

    assert watch.read(update) == read_alone(update)
