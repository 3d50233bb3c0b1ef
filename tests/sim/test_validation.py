import random
from typing import Any

import pytest

from reactive_desched.sim.clock import VirtualClock
from reactive_desched.sim.seed import seed
from reactive_desched.sim.status import StatusError
from reactive_desched.sim.store import Store
from tests.support.golden import verbatim


@pytest.fixture
def store() -> Store:
    made = Store(VirtualClock(1_800_000_000.0), random.Random(7))
    seed(made)
    return made


def named(name: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, **fields}


def container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "app:1", **fields}]}


def asking(**resources: dict[str, str]) -> dict[str, Any]:
    return container(resources=resources)


POD: dict[str, Any] = {"containers": [{"name": "c", "image": "app:1"}]}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": POD}


@pytest.mark.parametrize(
    ("resource", "obj", "field"),
    [
        pytest.param("pods", named("", spec=POD), "metadata.name", id="no name"),
        pytest.param("pods", named("Web", spec=POD), "metadata.name", id="upper case"),
        pytest.param("pods", named("a..b", spec=POD), "metadata.name", id="empty segment"),
        pytest.param("namespaces", named("a.b"), "metadata.name", id="a namespace is one label"),
        pytest.param("pods", named("p", spec={}), "spec.containers", id="no containers"),
        pytest.param(
            "pods",
            named("p", spec={"containers": [{"name": "c"}, {"name": "c"}]}),
            "spec.containers[1].name",
            id="two of a name",
        ),
        pytest.param(
            "pods",
            named("p", spec={"containers": [{"name": "c"}]}),
            "spec.containers[0].image",
            id="no image",
        ),
        pytest.param(
            "pods",
            named("p", spec={**POD, "initContainers": [{"name": "c", "image": "app:1"}]}),
            "spec.containers[0].name",
            id="an init container of the same name",
        ),
        pytest.param(
            "pods",
            named("p", spec=asking(requests={"cpu": "2"}, limits={"cpu": "1500m"})),
            "spec.containers[0].resources.requests",
            id="asking for more than its limit",
        ),
        pytest.param(
            "pods",
            named("p", spec=container(imagePullPolicy="Sometimes")),
            "spec.containers[0].imagePullPolicy",
            id="no policy of pulling",
        ),
        pytest.param(
            "pods",
            named("p", spec=container(volumeMounts=[{"name": "none", "mountPath": "/a"}])),
            "spec.containers[0].volumeMounts[0].name",
            id="a mount of no volume",
        ),
        pytest.param(
            "pods",
            named("p", spec=container(ports=[{"containerPort": 70_000}])),
            "spec.containers[0].ports[0].containerPort",
            id="no port",
        ),
        pytest.param(
            "jobs",
            named("j", spec={"template": {"spec": POD}}),
            "spec.template.spec.restartPolicy",
            id="a job whose pods never end",
        ),
        pytest.param(
            "events",
            named("e", involvedObject={"namespace": "kube-system"}),
            "involvedObject.namespace",
            id="an event far from what it is about",
        ),
        pytest.param(
            "priorityclasses",
            named("system-mine", value=1),
            "metadata.name",
            id="a class that claims to be the system's",
        ),
        pytest.param(
            "poddisruptionbudgets",
            named("b", spec={"minAvailable": "150%"}),
            "spec.minAvailable",
            id="more than all",
        ),
        pytest.param(
            "poddisruptionbudgets",
            named("b", spec={"maxUnavailable": "half"}),
            "spec.maxUnavailable",
            id="no percentage",
        ),
        pytest.param(
            "poddisruptionbudgets",
            named("b", spec={"maxUnavailable": "half%"}),
            "spec.maxUnavailable",
            id="a percentage of no number",
        ),
        pytest.param(
            "poddisruptionbudgets",
            named("b", spec={"maxUnavailable": -1}),
            "spec.maxUnavailable",
            id="less than none",
        ),
        pytest.param(
            "deployments",
            named("d", spec={"template": TEMPLATE}),
            "spec.selector",
            id="no selector",
        ),
        pytest.param(
            "deployments",
            named("d", spec={"template": TEMPLATE, "selector": {"matchLabels": {"a": "c"}}}),
            "spec.template.metadata.labels",
            id="a selector for other pods",
        ),
        pytest.param(
            "poddisruptionbudgets",
            named("b", spec={"minAvailable": 1, "maxUnavailable": 1}),
            "spec",
            id="both sides of a budget",
        ),
    ],
)
def test_a_new_object_is_invalid_with(
    store: Store, resource: str, obj: dict[str, Any], field: str
) -> None:
    with pytest.raises(StatusError) as refused:
        store.create(resource, obj)
    assert (refused.value.code, refused.value.reason) == (422, "Invalid")
    assert field in [c["field"] for c in refused.value.details["causes"]]


def faults_of_taints(store: Store, *taints: dict[str, str]) -> list[tuple[str, str]]:
    with pytest.raises(StatusError) as refused:
        store.create("nodes", {"metadata": {"name": "n"}, "spec": {"taints": list(taints)}})
    return [(c["field"], c["reason"]) for c in refused.value.details["causes"]]


def test_taints_of_one_key_differ_in_their_effects(store: Store) -> None:
    soft, hard = ({"key": "a", "effect": e} for e in ("PreferNoSchedule", "NoSchedule"))
    store.create("nodes", {"metadata": {"name": "fine"}, "spec": {"taints": [soft, hard]}})
    twice = faults_of_taints(store, hard, soft, {**hard, "value": "b"})
    assert twice == [("metadata.taints[2]", "FieldValueDuplicate")]


def test_a_taint_has_a_key_and_one_of_three_effects(store: Store) -> None:
    assert faults_of_taints(store, {"key": "a", "effect": "Never"}) == [
        ("metadata.taints[0].effect", "FieldValueNotSupported")
    ]
    assert faults_of_taints(store, {"key": "a b", "effect": "NoSchedule"}) == [
        ("metadata.taints[0].key", "FieldValueInvalid")
    ]


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param({"a b": "x"}, id="a blank in the key"),
        pytest.param({"": "x"}, id="no key"),
        pytest.param({"Example.com/a": "x"}, id="an upper case prefix"),
        pytest.param({"example.com/": "x"}, id="only a prefix"),
        pytest.param({"k" * 64: "x"}, id="a long key"),
        pytest.param({"a": "x y"}, id="a blank in the value"),
        pytest.param({"a": "-x"}, id="a value that begins with a dash"),
        pytest.param({"a": "x" * 64}, id="a long value"),
    ],
)
def test_a_label_is_refused_for(store: Store, labels: dict[str, str]) -> None:
    obj = {"metadata": {"name": "n", "labels": labels}}
    with pytest.raises(StatusError) as refused:
        store.create("nodes", obj)
    assert {c["field"] for c in refused.value.details["causes"]} == {"metadata.labels"}

    made = store.create("nodes", {"metadata": {"name": "n"}})
    with pytest.raises(StatusError, match=r"is invalid: \[?metadata\.labels"):
        store.update("nodes", {**made, "metadata": {**made["metadata"], "labels": labels}})


def test_labels_may_have_a_prefix_and_no_value(store: Store) -> None:
    labels = {"example.com/A_b.c": "", "x": "1-A_b.2"}
    made = store.create("nodes", {"metadata": {"name": "n", "labels": labels}})
    assert made["metadata"]["labels"] == labels


def change_pod(store: Store, **spec: Any) -> None:
    pod = store.create("pods", named("p", spec=POD))
    store.update("pods", {**pod, "spec": {**pod["spec"], **spec}})


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"nodeName": "n1"}, id="its node"),
        pytest.param({"restartPolicy": "Never"}, id="its restart policy"),
        pytest.param({"containers": [{"name": "d", "image": "app:1"}]}, id="its containers"),
    ],
)
def test_a_plain_update_of_a_pod_cannot_touch(store: Store, spec: dict[str, Any]) -> None:
    with pytest.raises(StatusError, match=verbatim("pod updates may not change fields")) as refused:
        change_pod(store, **spec)
    assert refused.value.code == 422


def test_a_pods_image_may_change(store: Store) -> None:
    pod = store.create("pods", named("p", spec=POD))
    containers = [{**pod["spec"]["containers"][0], "image": "app:2"}]
    updated = store.update("pods", {**pod, "spec": {**pod["spec"], "containers": containers}})
    assert updated["spec"]["containers"][0]["image"] == "app:2"


def test_resizing_changes_only_the_resources_of_containers(store: Store) -> None:
    pod = store.create("pods", named("p", spec=POD))
    asked = [{"name": "c", "image": "other", "resources": {"requests": {"cpu": "2"}}}]
    resized = store.update("pods", {**pod, "spec": {"containers": asked}}, subresource="resize")
    assert resized["spec"]["containers"][0]["image"] == "app:1"
    assert resized["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "2"}}
    assert resized["metadata"]["generation"] == 2


def test_resizing_reaches_a_sidecar_and_takes_no_amount_away(store: Store) -> None:
    has = {"requests": {"cpu": "1", "memory": "1Gi"}}
    sidecar = {"name": "s", "image": "s:1", "restartPolicy": "Always", "resources": has}
    pod = store.create("pods", named("p", spec={**POD, "initContainers": [sidecar]}))

    def resize(pod: Any, requests: dict[str, str]) -> Any:
        asked = [{"name": "s", "resources": {"requests": requests}}]
        change = {**pod, "spec": {"initContainers": asked}}
        return store.update("pods", change, subresource="resize")

    resized = resize(pod, {"cpu": "2", "memory": "1Gi"})
    assert resized["spec"]["initContainers"][0]["resources"]["requests"]["cpu"] == "2"
    with pytest.raises(StatusError, match=verbatim("resource requests cannot be removed")):
        resize(resized, {"cpu": "2"})


def test_the_selector_of_a_deployment_is_immutable(store: Store) -> None:
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
    made = store.create("deployments", named("d", spec=spec))
    changed = {**made["spec"], "selector": {"matchExpressions": []}}
    with pytest.raises(StatusError, match="field is immutable"):
        store.update("deployments", {**made, "spec": changed})


def test_the_value_of_a_priority_class_is_immutable(store: Store) -> None:
    made = store.create("priorityclasses", {"metadata": {"name": "a"}, "value": 1})
    with pytest.raises(StatusError, match=verbatim("may not be changed in an update")):
        store.update("priorityclasses", {**made, "value": 2})


JOB = {
    "selector": {"matchLabels": {"a": "b"}},
    "template": {**TEMPLATE, "spec": {**POD, "restartPolicy": "Never"}},
}


@pytest.mark.parametrize(
    ("created", "change", "fields"),
    [
        ({}, {"template": {"spec": {"nodeSelector": {"a": "b"}}}}, ["spec.template"]),
        ({"suspend": True}, {"template": {"spec": {"nodeSelector": {"a": "b"}}}}, []),
        ({"suspend": True}, {"template": {"metadata": {"annotations": {"a": "b"}}}}, []),
        (
            {"suspend": True},
            {"template": {"spec": {"priorityClassName": "system-node-critical"}}},
            ["spec.template.spec"],
        ),
        ({}, {"completionMode": "Indexed"}, ["spec.completionMode"]),
        ({}, {"completions": 2}, ["spec.completions"]),
        ({"completionMode": "Indexed", "completions": 1}, {"completions": 2}, ["spec.completions"]),
        (
            {"completionMode": "Indexed", "completions": 1},
            {"completions": 2, "parallelism": 2},
            [],
        ),
        ({}, {"parallelism": 2, "backoffLimit": 1, "suspend": True}, []),
    ],
    ids=[
        *("the template", "where pods of one that waits go", "annotations of one that waits"),
        *("what else is in the template of one that waits", "the mode", "completions"),
        *("completions alone of an indexed one", "both counts of an indexed one", "the rest"),
    ],
)
def test_of_a_job_may_not_change(
    store: Store, created: dict[str, Any], change: dict[str, Any], fields: list[str]
) -> None:
    made = store.create("jobs", named("j", spec={**JOB, **created}))
    template = made["spec"]["template"]
    merged = {part: {**template[part], **more} for part, more in change.get("template", {}).items()}
    spec = {**made["spec"], **change, "template": {**template, **merged}}

    refused = []
    try:
        store.update("jobs", {**made, "spec": spec})
    except StatusError as error:
        refused = [each["field"] for each in error.details["causes"]]
    assert refused == fields


@pytest.mark.parametrize(
    ("phase", "change", "fields"),
    [
        ("Pending", {"accessModes": ["ReadWriteMany"]}, ["spec"]),
        ("Pending", {"resources": {"requests": {"storage": "2Gi"}}}, ["spec"]),
        ("Bound", {"resources": {"requests": {"storage": "2Gi"}}}, []),
        ("Bound", {"accessModes": ["ReadWriteMany"]}, ["spec"]),
        ("Bound", {"volumeName": "other"}, ["spec"]),
        ("Pending", {"volumeName": "first"}, []),
    ],
    ids=["modes", "a size too early", "the size", "modes of a bound one", "volumes", "a volume"],
)
def test_of_a_claim_its_size_may_change_once_it_is_bound(
    store: Store, phase: str, change: dict[str, Any], fields: list[str]
) -> None:
    volume = {"volumeName": "v"} if phase == "Bound" else {}
    size = {"resources": {"requests": {"storage": "1Gi"}}}
    asked = {"accessModes": ["ReadWriteOnce"], **size, **volume}
    store.create("persistentvolumeclaims", named("c", spec=asked))
    store.replace_status("persistentvolumeclaims", "default", "c", {"phase": phase})
    made = store.get("persistentvolumeclaims", "default", "c")
    assert made is not None

    refused = []
    try:
        store.update("persistentvolumeclaims", {**made, "spec": {**made["spec"], **change}})
    except StatusError as error:
        refused = [each["field"] for each in error.details["causes"]]
    assert refused == fields
