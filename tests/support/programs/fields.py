"""Programs about single fields: what is refused, filled in, kept, or may not change."""

import re
from itertools import zip_longest
from typing import Any
from urllib.parse import quote

from tests.support.programs.objects import (
    apps,
    as_seen,
    batch,
    budget,
    core,
    create_pod,
    first,
    is_new,
    job,
    make_ready,
    pod,
    pods_of,
    policy,
    set_status,
    workload,
)
from tests.support.two_planes import APPLY, JSON_PATCH, MERGE, STRATEGIC, YAML, Plane, Planes

Object = dict[str, Any]  # a Kubernetes object as JSON


def field_selectors_of_every_kind(planes: Planes) -> None:
    """Select by the fields that a kind has, and by others."""
    for path in (
        core(planes, "events?fieldSelector=reason%3DNothing"),
        core(planes, "events?fieldSelector=involvedObject.uid%3Dx,type%3DWarning"),
        core(planes, "events?fieldSelector=source%3Dkubelet"),
        core(planes, "events?fieldSelector=reportingComponent%3Dkubelet"),
        core(planes, "events?fieldSelector=message%3Dx"),
        core(planes, "secrets?fieldSelector=type!%3DOpaque"),
        core(planes, "services?fieldSelector=spec.clusterIP%3DNone"),
        core(planes, "services?fieldSelector=spec.type%3DNodePort"),
        core(planes, "services?fieldSelector=spec.selector%3Da"),
        core(planes, "persistentvolumeclaims?fieldSelector=status.phase%3DBound"),
        core(planes, "resourcequotas?fieldSelector=status.phase%3DBound"),
        core(planes, "replicationcontrollers?fieldSelector=status.replicas%3D0"),
        core(planes, "configmaps?fieldSelector=metadata.name%3Dnone"),
        apps(planes, "deployments?fieldSelector=status.replicas%3D0"),
        apps(planes, "replicasets?fieldSelector=status.replicas%3D0"),
        apps(planes, "statefulsets?fieldSelector=metadata.name%3Dx"),
        apps(planes, "daemonsets?fieldSelector=spec.replicas%3Dx"),
        batch(planes, "jobs?fieldSelector=status.successful%3D0"),
        batch(planes, "jobs?fieldSelector=status.failed%3D0"),
        batch(planes, "cronjobs?fieldSelector=spec.suspend%3Dtrue"),
        policy(planes, "poddisruptionbudgets?fieldSelector=status.a%3Dx"),
        "api/v1/namespaces?fieldSelector=status.phase%3DTerminating,metadata.name%3Dnone",
        "api/v1/namespaces?fieldSelector=spec.finalizers%3Da",
        "api/v1/nodes?fieldSelector=metadata.name%3Dnone,spec.unschedulable%3Dtrue",
        "api/v1/persistentvolumes?fieldSelector=spec.claimRef%3Da",
        "apis/storage.k8s.io/v1/storageclasses?fieldSelector=provisioner%3Da",
        core(planes, "pods?fieldSelector=spec.hostNetwork%3Dtrue"),
        core(planes, "pods?fieldSelector=status.podIP%3D10.1.1.1"),
        core(planes, "pods?fieldSelector=status.nominatedNodeName%3Dx"),
        core(planes, "pods?fieldSelector=spec.nodeName%3Dnone,status.phase!%3DRunning"),
        core(planes, f"pods?fieldSelector={quote('status.phase in (a)')}"),
        core(planes, "pods?fieldSelector=metadata.labels%3Da"),
    ):
        planes.send("GET", path, only=_names)


def _names(body: Any) -> Any:
    if isinstance(body, dict) and "items" in body:
        return [each["metadata"]["name"] for each in body["items"]]
    return body


def unknown_fields(planes: Planes) -> None:
    """Send fields that no kind has, with each way to judge them."""
    odd = {"metadata": {"name": "odd"}, "data": {"a": "b"}, "lost": 1}
    maps = core(planes, "configmaps")
    for validation in ("Strict", "Warn", "Ignore", "Sometimes"):
        planes.send("POST", f"{maps}?fieldValidation={validation}&dryRun=All", odd)
    planes.send("POST", f"{maps}?dryRun=All", odd)
    deep = workload("Deployment", "odd", replicas=0)
    deep["spec"]["template"]["spec"]["containers"][0]["lost"] = 1
    deep["spec"]["lost"] = {"a": 1}
    planes.send("POST", apps(planes, "deployments?fieldValidation=Strict"), deep)
    planes.send(
        "POST", apps(planes, "deployments?fieldValidation=Warn&dryRun=All"), deep, only=_spec
    )
    planes.send("POST", maps, {"metadata": {"name": "a"}})
    change = {"lost": 1, "metadata": {"lost": 2}}
    planes.send("PATCH", f"{maps}/a?fieldValidation=Strict", change, MERGE, only=_reason)
    planes.send("PATCH", f"{maps}/a?fieldValidation=Warn", {"lost": 1}, MERGE)
    wrong = {"metadata": {"name": "b"}, "data": {"a": 1}}
    planes.send("POST", maps, wrong, only=_reason)
    planes.send("POST", maps, {"metadata": {"name": "b"}, "data": []}, only=_reason)
    text = pod("b", terminationGracePeriodSeconds="soon")
    planes.send("POST", core(planes, "pods"), text, only=_reason)


def fields_that_come_twice(planes: Planes) -> None:
    """Send bodies and patches that have a key twice, in each format, judged in each way."""
    maps = core(planes, "configmaps")
    planes.send("POST", maps, {"metadata": {"name": "a"}, "data": {"k": "0"}})
    plain_yaml = "metadata:\n  name: b\ndata:\n  k: '1'\n  k: '2'\nlost: 1\ndata: {j: '3'}\n"
    applied = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: '1'\n  k: '2'\n"
    deep_yaml = "metadata:\n  name: b\ndata:\n  k: '1'\n\ndata:\n  # none\n  'j': '3'\n  j: '4'\n"
    as_json = '{"metadata": {"name": "b"}, "data": {"k": "1", "k": "2"}, "lost": 1}'
    merging = '{"data": {"k": "1", "k": "2"}, "lost": 1, "data": {"k": "3"}}'
    listed = '[{"op": "add", "op": "replace", "path": "/data/k", "value": "4", "odd": 1}]'
    for judged in (
        "",
        "&fieldValidation=Ignore",
        "&fieldValidation=Warn",
        "&fieldValidation=Strict",
    ):
        made, changed = f"{maps}?dryRun=All{judged}", f"{maps}/a?dryRun=All{judged}"
        planes.send("POST", made, plain_yaml, YAML)
        planes.send("PUT", changed, plain_yaml.replace("name: b", "name: a"), YAML)
        planes.send("POST", made, as_json)
        planes.send("POST", made, deep_yaml, YAML)
        planes.send("PATCH", changed, merging, MERGE, only=_without_object)
        planes.send("PATCH", changed, merging, STRATEGIC)
        planes.send("PATCH", changed, listed, JSON_PATCH, only=_without_object)
        planes.send("PATCH", f"{changed}&fieldManager=me&force=true", applied, APPLY)
        planes.send("PATCH", f"{changed}&fieldManager=me&force=true", applied + "lost: 1\n", APPLY)


def _without_object(body: Any) -> object:
    """Return an answer; of a refusal, its words without the patched object that it shows."""
    if body.get("kind") != "Status":
        return body
    said = [body["message"], *(each["message"] for each in body["details"]["causes"])]
    hidden = [re.sub(r'"{.*}": ', '"OBJECT": ', each) for each in said]
    return hidden, body["code"], body["reason"], sorted(body["details"])


def _spec(body: Any) -> object:
    return body.get("spec", body)


def _reason(body: Any) -> object:
    return body.get("reason"), body.get("code")


def scales(planes: Planes) -> None:
    """Read and write the Scale of each kind that has one, in each way."""
    made = workload("StatefulSet", "web", replicas=0)
    made["spec"]["serviceName"] = "web"
    planes.send("POST", apps(planes, "statefulsets"), made, only=_spec)
    planes.send("POST", apps(planes, "replicasets"), workload("ReplicaSet", "web", replicas=0))
    controller = {
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 0,
            "selector": {"app": "web"},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod("x")["spec"]},
        },
    }
    planes.send("POST", core(planes, "replicationcontrollers"), controller, only=_spec)
    for place in (
        apps(planes, "statefulsets/web"),
        apps(planes, "replicasets/web"),
        core(planes, "replicationcontrollers/web"),
    ):
        planes.agree(place, lambda plane, place=place: _scale(plane, place))  # type: ignore[misc]
        planes.send("PATCH", f"{place}/scale", {"spec": {"replicas": -1}}, MERGE)
        planes.send("PATCH", f"{place}/scale", {"spec": {"replicas": "x"}}, MERGE, only=_reason)
        steps = [{"op": "replace", "path": "/spec/replicas", "value": 0}]
        planes.send("PATCH", f"{place}/scale?dryRun=All", steps, JSON_PATCH)
        old = {"metadata": {"name": "web", "resourceVersion": "1"}, "spec": {"replicas": 0}}
        planes.send("PUT", f"{place}/scale", old)
        planes.send("PUT", f"{place}/scale", {"metadata": {"name": "other"}, "spec": {}})
        blind = {"metadata": {"name": "web", "namespace": planes.namespace}, "spec": {}}
        planes.send("PUT", f"{place}/scale", blind)
        planes.send("DELETE", f"{place}/scale")
        planes.send("POST", f"{place}/scale", blind)
    planes.send("GET", apps(planes, "deployments/missing/scale"))


def _scale(plane: Plane, place: str) -> object:
    return plane.send("GET", f"{place}/scale").body


def finalizers(planes: Planes) -> None:
    """Add and take away finalizers, before and after a deletion."""
    place = core(planes, "configmaps/held")
    held = {"metadata": {"name": "held", "finalizers": ["example.com/a", "example.com/b"]}}
    planes.send("POST", core(planes, "configmaps"), held)
    for wrong in ("bad", "a.example/x y"):
        planes.send("PATCH", place, {"metadata": {"finalizers": [wrong]}}, MERGE, only=_once)
    planes.send("DELETE", place)
    planes.send("DELETE", place)
    planes.send("PATCH", place, {"metadata": {"labels": {"a": "b"}}}, MERGE)
    more = {"metadata": {"finalizers": ["example.com/a", "example.com/b", "example.com/c"]}}
    planes.send("PATCH", place, more, MERGE, only=_once)
    planes.send("PATCH", place, {"metadata": {"finalizers": ["example.com/b"]}}, MERGE)
    planes.send("PATCH", place, {"metadata": {"deletionTimestamp": None}}, MERGE)
    planes.send("POST", core(planes, "configmaps"), {"metadata": {"name": "held"}})
    planes.send("DELETE", f"{place}?dryRun=All")
    steps = [{"op": "remove", "path": "/metadata/finalizers/0"}]
    planes.send("PATCH", place, steps, JSON_PATCH)
    planes.send("GET", place)
    foreground = {"metadata": {"name": "f", "finalizers": ["foregroundDeletion"]}}
    planes.send("POST", core(planes, "configmaps"), foreground)
    planes.send("DELETE", core(planes, "configmaps/f?propagationPolicy=Foreground"))
    planes.agree("gone", lambda plane: plane.send("GET", core(planes, "configmaps/f")).code)
    both = {"metadata": {"name": "o", "finalizers": ["orphan", "foregroundDeletion"]}}
    planes.send("POST", core(planes, "configmaps"), both)
    create_pod(planes, pod("p"))
    made = {"metadata": {"finalizers": ["example.com/a"]}}
    planes.send("PATCH", core(planes, "pods/p"), made, MERGE)
    planes.send("DELETE", core(planes, "pods/p?gracePeriodSeconds=0"))
    planes.send("GET", core(planes, "pods/p"))
    planes.send("PATCH", core(planes, "pods/p"), {"metadata": {"finalizers": None}}, MERGE)
    planes.send("GET", core(planes, "pods/p"))


def _once(body: Any) -> Any:
    """Return a refusal whose causes are named once each: the real server names some twice."""
    if body.get("kind") != "Status":
        return body
    causes = {each["message"]: each for each in body["details"]["causes"]}
    return {**body, "details": {**body["details"], "causes": [*causes.values()]}}


def names(planes: Planes) -> None:
    """Create objects with names, labels and annotations at the edge of what is taken."""
    maps = core(planes, "configmaps")
    for name in ("a.b", "a..b", "-a", "a-", "A", "a_b", "a" * 253, "a" * 254, "a/b", "a%b", "1"):
        planes.send("POST", f"{maps}?dryRun=All", {"metadata": {"name": name}}, only=_refusal)
    for name in ("web", "web.v1", "Web", "9web", "w" * 63, "w" * 64):
        service = {"metadata": {"name": name}, "spec": {"clusterIP": "None"}}
        place = core(planes, "services?dryRun=All")
        planes.send("POST", place, service, only=_refusal)
    for key in ("a", "a/b", "example.com/a", "a b", "a/b/c", "x" * 64, "-a", "", "/a", "a/"):
        labelled = {"metadata": {"name": "l", "labels": {key: "v"}}}
        planes.send("POST", f"{maps}?dryRun=All", labelled, only=_refusal)
        noted = {"metadata": {"name": "l", "annotations": {key: "any value!"}}}
        planes.send("POST", f"{maps}?dryRun=All", noted, only=_refusal)
    for value in ("", "a.b_c-d", "a b", "x" * 63, "x" * 64, "-a"):
        labelled = {"metadata": {"name": "l", "labels": {"a": value}}}
        planes.send("POST", f"{maps}?dryRun=All", labelled, only=_refusal)
    planes.send("POST", f"{maps}?dryRun=All", {"metadata": {"generateName": "A-"}}, only=_reason)
    for owner in (
        {"apiVersion": "v1", "kind": "Pod", "name": "p"},
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": ""},
        {"apiVersion": "", "kind": "Pod", "name": "p", "uid": "u"},
        {"apiVersion": "v1", "kind": "Event", "name": "p", "uid": "u"},
    ):
        owned = {"metadata": {"name": "o", "ownerReferences": [owner]}}
        planes.send("POST", f"{maps}?dryRun=All", owned, only=_refusal)
    two = [
        {"apiVersion": "v1", "kind": "Pod", "name": n, "uid": n, "controller": True} for n in "ab"
    ]
    owned = {"metadata": {"name": "o", "ownerReferences": two}}
    planes.send("POST", f"{maps}?dryRun=All", owned, only=_refusal)
    for key in ("a b", "..", "..a", "a/b", "", "A_b.c-"):
        keys = {"metadata": {"name": "k"}, "data": {key: "c"}}
        planes.send("POST", f"{maps}?dryRun=All", keys, only=_refusal)
    twice = {"metadata": {"name": "k"}, "data": {"a": "c"}, "binaryData": {"a": "YQ=="}}
    planes.send("POST", f"{maps}?dryRun=All", twice, only=_refusal)


def _refusal(body: Any) -> object:
    """Return a refusal; of what is taken, its name alone."""
    if body.get("kind") == "Status":
        return body
    return body["metadata"].get("name")


def secrets(planes: Planes) -> None:
    """Create Secrets of every type, and change what must stay."""
    place = core(planes, "secrets")
    for kind, data in (
        ("kubernetes.io/tls", {}),
        ("kubernetes.io/basic-auth", {}),
        ("kubernetes.io/basic-auth", {"username": "a"}),
        ("kubernetes.io/ssh-auth", {}),
        ("kubernetes.io/dockerconfigjson", {}),
        ("kubernetes.io/dockerconfigjson", {".dockerconfigjson": "{}"}),
        ("example.com/own", {"a": "b"}),
        ("", {}),
    ):
        made = {"metadata": {"name": "s"}, "type": kind, "stringData": data}
        planes.send("POST", f"{place}?dryRun=All", made, only=_refusal)
    planes.send(
        "POST", place, {"metadata": {"name": "s"}, "data": {"a": "no base64!"}}, only=_reason
    )
    planes.send("POST", place, {"metadata": {"name": "s"}, "data": {"a": "YQ=="}})
    planes.send("PATCH", f"{place}/s", {"stringData": {"a": "b", "c": "d"}}, MERGE)
    planes.send("PATCH", f"{place}/s", {"type": "example.com/other"}, MERGE)
    planes.send("PATCH", f"{place}/s", {"data": {"a": None}, "immutable": True}, MERGE)
    planes.send("PATCH", f"{place}/s", {"data": {"c": None}}, MERGE)
    planes.send("PATCH", f"{place}/s", {"immutable": False}, MERGE)
    planes.send("PATCH", f"{place}/s", {"metadata": {"labels": {"a": "b"}}}, MERGE)


def what_of_a_pod_may_change(planes: Planes) -> None:
    """Change each field of a pod that may change, and some that may not."""
    place = core(planes, "pods/p")
    planes.send("POST", core(planes, "pods"), pod("p", tolerations=[{"key": "a"}]))
    spec: Object
    tolerated = [{"key": "a"}, {"key": "b", "operator": "Exists"}]
    for spec in (
        {"activeDeadlineSeconds": 100},
        {"activeDeadlineSeconds": 50},
        {"activeDeadlineSeconds": 70},
        {"activeDeadlineSeconds": None},
        {"terminationGracePeriodSeconds": 5},
        {"nodeName": "n"},
        {"nodeSelector": {"no-such-node": "true", "b": "c"}},
        {"priority": 5},
        {"schedulerName": "other"},
        {"serviceAccountName": "other"},
        {"restartPolicy": "Never"},
        {"hostNetwork": True},
        {"schedulingGates": [{"name": "example.com/a"}]},
        {"tolerations": []},
    ):
        planes.send("PATCH", place, {"spec": spec}, MERGE, only=_reason_or_spec)
    planes.send("PATCH", place, {"spec": {"tolerations": tolerated}}, STRATEGIC, only=_spec)
    shorter = [{"op": "remove", "path": "/spec/tolerations/0"}]
    planes.send("PATCH", place, shorter, JSON_PATCH, only=_reason_or_spec)
    second = [{"op": "add", "path": "/spec/containers/-", "value": {"name": "b", "image": "i"}}]
    planes.send("PATCH", place, second, JSON_PATCH, only=_reason_or_spec)
    image = [{"op": "replace", "path": "/spec/containers/0/image", "value": ""}]
    planes.send("PATCH", place, image, JSON_PATCH, only=_reason_or_spec)
    gates = [{"name": "example.com/a"}, {"name": "example.com/b"}]
    planes.send(
        "POST", core(planes, "pods"), pod("g", schedulingGates=gates, nodeSelector={"a": "b"})
    )
    place = core(planes, "pods/g")
    for spec in (
        {"schedulingGates": [*gates, {"name": "example.com/c"}]},
        {"nodeSelector": {"a": "b", "c": "d"}},
        {"nodeSelector": {"a": "x"}},
        {"schedulingGates": gates[:1]},
        {"schedulingGates": []},
        {"nodeSelector": {"a": "b", "c": "d", "e": "f"}},
    ):
        planes.send("PATCH", place, {"spec": spec}, MERGE, only=_reason_or_spec)


def _reason_or_spec(body: Any) -> object:
    """Return the fields that are at fault, or what there is now."""
    if body.get("kind") != "Status":
        return body["spec"]
    causes = (body.get("details") or {}).get("causes") or ()
    return body["reason"], sorted({each["field"] for each in causes})


def resized_pods(planes: Planes) -> None:
    """Resize a pod's containers in place, as its kubelet has not done it yet."""
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}}
    main = {"name": "main", "image": "example.invalid/main:1", "resources": resources}
    create_pod(planes, pod("p", containers=[main]))
    place = core(planes, "pods/p")

    def resize(**resources: Object) -> None:
        change = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
        planes.send("PATCH", f"{place}/resize", change, STRATEGIC, only=_reason_or_spec)

    planes.send("PATCH", place, {"spec": {"containers": [{**main, "resources": {}}]}}, STRATEGIC)
    change = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "3"}}}]}}
    planes.send("PATCH", place, change, STRATEGIC, only=_reason_or_spec)
    resize(requests={"cpu": "1500m"})
    resize(requests={"cpu": "3"})
    resize(requests={"memory": "2Gi"})
    resize(requests={"example.com/gpu": "1"}, limits={"example.com/gpu": "1"})
    resize(requests={"cpu": None})
    image = {"spec": {"containers": [{"name": "main", "image": "other"}]}}
    planes.send("PATCH", f"{place}/resize", image, STRATEGIC, only=_reason_or_spec)
    sidecar = {**main, "name": "log", "restartPolicy": "Always"}
    restarted = {"resourceName": "cpu", "restartPolicy": "RestartContainer"}
    setups = [{**main, "name": "setup"}, {**main, "name": "again", "resizePolicy": [restarted]}]
    inits = [sidecar, setups[0]]
    made = pod("q", containers=[main], initContainers=[*inits, setups[1]])
    planes.send("POST", core(planes, "pods"), made)
    planes.send("POST", core(planes, "pods"), pod("q", containers=[main], initContainers=inits))
    wishes: list[Object] = [
        {"requests": {"cpu": "1500m"}},
        {"requests": {"cpu": "3"}},
        {"requests": {"cpu": None}},
        {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}},
    ]
    for name in ("log", "setup"):
        for wish in wishes:
            change = {"spec": {"initContainers": [{"name": name, "resources": wish}]}}
            path = f"{core(planes, 'pods/q')}/resize"
            planes.send("PATCH", path, change, STRATEGIC)
    planes.send("GET", f"{place}/resize", only=_reason_or_spec)
    planes.send("PATCH", core(planes, "pods/missing/resize"), {}, STRATEGIC)


def evictions_at_the_edges(planes: Planes) -> None:
    """Evict pods that are not ready, ended, gone, or of more than one budget."""
    place = policy(planes, "poddisruptionbudgets")

    def look(plane: Plane) -> object:
        found = plane.items(f"apis/policy/v1/namespaces/{plane.namespace}/poddisruptionbudgets")
        return [[each["metadata"]["name"], each.get("status")] for each in found]

    def evict(name: str, **options: object) -> None:
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        planes.send("POST", core(planes, f"pods/{name}/eviction"), {**body, **options})

    for name in "abcd":
        planes.send("POST", core(planes, "pods"), pod(name, {"app": "web"}), only=_refusal)
    planes.send("POST", place, budget("web", "web", maxUnavailable=0))
    planes.agree("no pod runs", look)
    evict("a", deleteOptions={"dryRun": ["All"]})
    evict("a")
    planes.each(lambda plane: make_ready(plane, first(plane, is_new)))
    planes.agree("one is ready", look)
    evict("b")
    unready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}
    planes.each(lambda plane: set_status(plane, first(plane, is_new), unready))
    evict("c")
    always = {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}
    planes.send("PATCH", f"{place}/web", always, MERGE)
    planes.agree("always", look)
    evict("c", deleteOptions={"dryRun": ["All"]})
    evict("c")
    evict("d", deleteOptions={"gracePeriodSeconds": -1})
    planes.send("POST", core(planes, "pods/d/eviction"), {"metadata": {"name": "other"}})
    planes.send("POST", core(planes, "pods/d/eviction"), {"metadata": {}})
    planes.send("POST", core(planes, "pods/d/eviction"), {})
    beta = {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "d"}}
    planes.send("POST", core(planes, "pods/d/eviction"), beta)
    planes.send("GET", core(planes, "pods/d/eviction"))
    for spec in (
        {"minAvailable": "150%"},
        {"minAvailable": -1},
        {"maxUnavailable": "x"},
        {"unhealthyPodEvictionPolicy": "Never"},
        {"selector": {"matchLabels": {"a": "b c"}}},
        {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
    ):
        planes.send("POST", place, budget("bad", "x", **spec))
    planes.send("POST", place, budget("all", "x", selector={}))
    planes.agree("all pods", look)
    planes.send("PUT", f"{place}/all", budget("all", "x", minAvailable=1))
    planes.send("PATCH", f"{place}/all", {"spec": {"selector": {"matchLabels": {"a": "b"}}}}, MERGE)


def tokens(planes: Planes) -> None:
    """Ask for tokens of a ServiceAccount, in each way."""
    place = core(planes, "serviceaccounts/default/token")

    def shown(body: Any) -> object:
        if body.get("kind") == "Status":
            return body
        spec = {**body["spec"], "audiences": len(body["spec"].get("audiences") or ())}
        return [spec, sorted(body["status"]), body["metadata"].get("name")]

    for spec in (
        {},
        {"expirationSeconds": 600},
        {"expirationSeconds": 599},
        {"expirationSeconds": 1 << 33},
        {"audiences": ["a", "b"]},
        {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "missing"}},
        {"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "missing"}},
    ):
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        planes.send("POST", place, request, only=shown)
    missing = core(planes, "serviceaccounts/missing/token")
    planes.send("POST", missing, {"spec": {}})
    planes.send("GET", place)

    def review(plane: Plane) -> object:
        made = plane.send("POST", place, {"spec": {}})
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}
        where = "apis/authentication.k8s.io/v1/tokenreviews"
        found = []
        for token in (made.body["status"]["token"], "nonsense"):
            answer = plane.send("POST", where, {**body, "spec": {"token": token}})
            status = answer.body["status"]
            user = status.get("user") or {}
            found.append(
                [bool(status.get("authenticated")), user.get("username"), user.get("groups")]
            )
        return found

    planes.agree("reviewed", review)
    subject = {"user": f"system:serviceaccount:{planes.namespace}:default"}
    for attributes in (
        {"verb": "get", "resource": "pods", "namespace": planes.namespace},
        {"verb": "create", "group": "authorization.k8s.io", "resource": "selfsubjectaccessreviews"},
    ):
        planes.send(
            "POST",
            "apis/authorization.k8s.io/v1/subjectaccessreviews",
            {
                "spec": {
                    **subject,
                    "groups": ["system:authenticated"],
                    "resourceAttributes": attributes,
                }
            },
            only=lambda body: (body.get("status") or body).get("allowed"),
        )


def rights(planes: Planes) -> None:
    """Create roles and bindings, and change what must stay."""
    place = f"apis/rbac.authorization.k8s.io/v1/namespaces/{planes.namespace}"
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    planes.send("POST", f"{place}/roles", {"metadata": {"name": "a"}, "rules": rules})
    for rule in (
        {"resources": ["pods"]},
        {"verbs": ["get"]},
        {"nonResourceURLs": ["/x"], "verbs": ["get"]},
    ):
        planes.send("POST", f"{place}/roles", {"metadata": {"name": "b"}, "rules": [rule]})
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a"}
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": planes.namespace}
    for role, subjects in (
        (ref, [subject]),
        ({**ref, "kind": "Thing"}, []),
        ({"kind": "Role"}, []),
        (ref, [{"kind": "User", "name": "u"}]),
        (ref, [{"kind": "Group"}]),
        (ref, [{"kind": "ServiceAccount", "name": "s"}]),
    ):
        made = {"metadata": {"generateName": "b-"}, "roleRef": role, "subjects": subjects}
        planes.send("POST", f"{place}/rolebindings?dryRun=All", made)
    made = {"metadata": {"name": "a"}, "roleRef": ref, "subjects": [subject]}
    planes.send("POST", f"{place}/rolebindings", made)
    change = {"roleRef": {"name": "b"}}
    planes.send("PATCH", f"{place}/rolebindings/a", change, MERGE, only=_reason)
    planes.send("PATCH", f"{place}/rolebindings/a", {"subjects": None}, MERGE)


def events(planes: Planes) -> None:
    """Write events in both groups, again, as a series, and about what is elsewhere."""
    at = "2026-01-01T00:00:00Z"
    about = {"kind": "Pod", "name": "p", "namespace": planes.namespace}
    event: Object = {
        "metadata": {"name": "p.1"},
        "involvedObject": about,
        "reason": "Tested",
        "message": "once",
        "type": "Normal",
        "source": {"component": "me"},
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }
    place = core(planes, "events")
    newer = f"apis/events.k8s.io/v1/namespaces/{planes.namespace}/events"
    planes.send("POST", place, event)
    planes.send("PATCH", f"{place}/p.1", {"count": 2, "message": "twice"}, STRATEGIC)
    planes.send("GET", f"{newer}/p.1")
    planes.send("POST", place, {**event, "metadata": {"name": "p.2"}, "involvedObject": {}})
    far = {**about, "namespace": "elsewhere"}
    planes.send("POST", place, {**event, "metadata": {"name": "p.3"}, "involvedObject": far})
    planes.send("POST", place, {**event, "metadata": {"name": "p.4"}, "type": "Odd"})
    new: Object = {
        "metadata": {"name": "n.1"},
        "regarding": about,
        "reason": "Tested",
        "action": "Testing",
        "note": "once",
        "type": "Normal",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "example.com/me",
        "reportingInstance": "me-1",
    }
    planes.send("POST", newer, new)
    planes.send("GET", f"{place}/n.1")
    series = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}}
    planes.send("PATCH", f"{newer}/n.1", series, STRATEGIC)
    for change in ({"reportingController": ""}, {"action": ""}, {"eventTime": None}):
        planes.send("POST", newer, {**new, "metadata": {"name": "n.2"}, **change})
    planes.send("POST", newer, {**new, "metadata": {"name": "n.2"}, "note": "x" * 1025})
    planes.send("GET", f"{newer}?fieldSelector=regarding.name%3Dp", only=_names)
    planes.send(
        "GET", f"{place}?fieldSelector=involvedObject.name%3Dp,reason%3DTested", only=_names
    )


def jobs_and_cron_jobs(planes: Planes) -> None:
    """Create Jobs and CronJobs at the edge of what is taken, and change them."""
    jobs, crons = batch(planes, "jobs"), batch(planes, "cronjobs")
    for spec in (
        {"completions": 3, "completionMode": "Indexed", "parallelism": 0},
        {"ttlSecondsAfterFinished": -1},
        {"activeDeadlineSeconds": -1},
        {"backoffLimitPerIndex": 1},
        {"backoffLimitPerIndex": 1, "completions": 2, "completionMode": "Indexed"},
        {"podReplacementPolicy": "Never"},
        {"managedBy": "example.com/me", "suspend": True},
    ):
        planes.send("POST", f"{jobs}?dryRun=All", job("x", **spec), only=_refused_or_spec)
    template = {"spec": {"template": {"spec": job("x")["spec"]["template"]["spec"]}}}
    for spec in (
        {"schedule": "*/5 * * * *", "timeZone": "Europe/Berlin"},
        {"schedule": "@hourly", "concurrencyPolicy": "Sometimes"},
        {"schedule": "@hourly", "startingDeadlineSeconds": -1},
        {"schedule": "@hourly", "successfulJobsHistoryLimit": -1},
        {"schedule": ""},
        {"schedule": "0 0 30 2 *"},
    ):
        made = {"metadata": {"name": "c"}, "spec": {**spec, "jobTemplate": template}}
        planes.send("POST", f"{crons}?dryRun=All", made, only=_refused_or_spec)
    long = {"metadata": {"name": "c" * 53}, "spec": {"schedule": "@daily", "jobTemplate": template}}
    planes.send("POST", f"{crons}?dryRun=All", long, only=_refused_or_spec)


def what_of_a_job_may_change(planes: Planes) -> None:
    """Change each field of a Job's spec that may change, and some that may not."""
    jobs = batch(planes, "jobs")
    runs = job("runs", completionMode="Indexed", completions=2)
    planes.send("POST", jobs, runs, only=lambda _: "")
    planes.agree("it has begun", lambda plane: len(pods_of(plane)) == 1)
    planes.send("POST", jobs, job("waits", suspend=True), only=lambda _: "")
    near = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": NOWHERE}}
    templates: tuple[Object, ...] = (
        {"spec": {"containers": [{"name": "main", "image": "example.invalid/other:1"}]}},
        {"spec": {"nodeSelector": {"a": "b"}}},
        {"spec": {"affinity": near}},
        {"spec": {"priorityClassName": "system-node-critical"}},
        {"metadata": {"annotations": {"a": "b"}}},
    )
    changes: tuple[Object, ...] = (
        {"parallelism": 2},
        {"backoffLimit": 2},
        {"completionMode": "NonIndexed"},
        {"managedBy": "example.com/me"},
        {"podFailurePolicy": {"rules": []}},
        {"podReplacementPolicy": "Failed"},
        {"completions": 5, "parallelism": 5},
        {"suspend": True},
    )
    for name in ("runs", "waits"):
        planes.send("PATCH", f"{jobs}/{name}", {"spec": {"completions": 5}}, MERGE, only=_refusal)
        for template in templates:
            asked = {"spec": {"template": template}}
            planes.send("PATCH", f"{jobs}/{name}", asked, STRATEGIC, only=_reason_or_spec)
        for spec in changes:
            planes.send("PATCH", f"{jobs}/{name}", {"spec": spec}, MERGE, only=_reason_or_spec)


NOWHERE: Object = {
    "nodeSelectorTerms": [{"matchExpressions": [{"key": "none", "operator": "Exists"}]}]
}


def _refused_or_spec(body: Any) -> object:
    return body if body.get("kind") == "Status" else body["spec"]


def finished_jobs_go(planes: Planes) -> None:
    """Let a Job be deleted when its time to live is over, and keep one that is held."""
    look_at = batch(planes, "jobs")
    planes.send("POST", look_at, job("soon", ttlSecondsAfterFinished=1), only=_refused_or_spec)
    planes.send("POST", look_at, job("at-once", ttlSecondsAfterFinished=0), only=_refused_or_spec)
    held = job("held", ttlSecondsAfterFinished=0)
    held["metadata"]["finalizers"] = ["example.com/hold"]
    planes.send("POST", look_at, held, only=_refused_or_spec)
    planes.send("POST", look_at, job("stays"), only=_refused_or_spec)

    def look(plane: Plane) -> object:
        found = plane.items(batch(planes, "jobs"))
        shown = [
            [
                each["metadata"]["name"],
                "deletionTimestamp" in each["metadata"],
                each["metadata"].get("finalizers"),
                sorted(c["type"] for c in each["status"].get("conditions") or ()),
            ]
            for each in found
        ]
        return shown, as_seen(pods_of(plane))

    planes.agree("four run", look)
    at = "2026-01-01T00:00:00Z"
    ended = {"exitCode": 0, "startedAt": at, "finishedAt": at}
    container = {
        "name": "main",
        "image": "example.invalid/main:1",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"terminated": ended},
    }

    def all_end(plane: Plane) -> None:
        for each in pods_of(plane):
            set_status(plane, each, {"phase": "Succeeded", "containerStatuses": [container]})

    planes.each(all_end)
    planes.agree("two are gone, one is held", look)
    planes.send("PATCH", f"{look_at}/stays", {"spec": {"ttlSecondsAfterFinished": 0}}, MERGE)
    planes.agree("and so is the other", look)
    planes.send("PATCH", f"{look_at}/held", {"metadata": {"finalizers": None}}, MERGE)
    planes.agree("all are gone", look)


def quantities_and_empties(planes: Planes) -> None:
    """Write quantities in every form, and fields that are empty, or zero."""
    forms = ("0.5", "1000m", "1", 2, 1.5, "1e3", "12e6", "0.1", "1500m", "3k", "0", "2000k", "1E")
    bytes_of = ("1024Mi", "1500Mi", "0.5Gi", "1.5Ki", "512", "100M", "1025", "128974848")
    for number, (cpu, memory) in enumerate(zip_longest(forms, bytes_of, fillvalue="1")):
        limits = {"cpu": cpu, "memory": memory, "ephemeral-storage": memory}
        made = pod(f"a{number}")
        made["spec"]["containers"][0]["resources"] = {"limits": limits}
        planes.send("POST", core(planes, "pods"), made)
    empty = pod(
        "empty",
        tolerations=[],
        imagePullSecrets=[],
        hostAliases=[],
        hostname="",
        hostNetwork=False,
        hostPID=False,
        volumes=[],
        initContainers=[],
    )
    empty["metadata"] |= {"labels": {}, "annotations": {}, "finalizers": [], "ownerReferences": []}
    empty["spec"]["containers"][0] |= {
        "env": [],
        "args": [],
        "command": [],
        "ports": [],
        "volumeMounts": [],
        "resources": {"limits": {}, "requests": {}},
        "workingDir": "",
        "stdin": False,
    }
    create_pod(planes, empty)
    labels = {"metadata": {"labels": {"a": "b"}, "annotations": {"a": ""}}}
    planes.send("PATCH", core(planes, "pods/empty"), labels, MERGE)
    planes.send("PATCH", core(planes, "pods/empty"), {"metadata": {"labels": {"a": None}}}, MERGE)
    web = workload("Deployment", "web", replicas=0, minReadySeconds=0, paused=False)
    web["spec"]["template"]["metadata"]["annotations"] = {}
    planes.send("POST", apps(planes, "deployments"), web)
    data = {"metadata": {"name": "a"}, "data": {}, "binaryData": {}, "immutable": False}
    planes.send("POST", core(planes, "configmaps"), data)
    front = {"metadata": {"name": "a"}, "spec": {"selector": {}, "ports": [{"port": 80}]}}
    planes.send("POST", core(planes, "services"), front)


FIELDS = (
    quantities_and_empties,
    field_selectors_of_every_kind,
    unknown_fields,
    fields_that_come_twice,
    scales,
    finalizers,
    names,
    secrets,
    what_of_a_pod_may_change,
    resized_pods,
    evictions_at_the_edges,
    tokens,
    rights,
    events,
    jobs_and_cron_jobs,
    what_of_a_job_may_change,
    finished_jobs_go,
)
