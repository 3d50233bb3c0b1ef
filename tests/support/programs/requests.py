"""Programs about the answers of the API server itself."""

import base64
import json
import re
from functools import partial
from typing import Any
from urllib.parse import quote

from tests.support.programs.objects import (
    apps,
    batch,
    budget,
    core,
    create_pod,
    job,
    pod,
    pod_spec,
    policy,
    workload,
)
from tests.support.two_planes import APPLY, JSON_PATCH, MERGE, STRATEGIC, Plane, Planes, plain

Object = dict[str, Any]  # a Kubernetes object as JSON
_WRITTEN = "deployment.kubernetes.io/"


def config_map(name: str, **data: str) -> Object:
    made: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    return made | ({"data": data} if data else {})


def lease(name: str, **spec: str) -> Object:
    meta = {"name": name}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}


def leases(planes: Planes, rest: str = "") -> str:
    return f"apis/coordination.k8s.io/v1/namespaces/{planes.namespace}/leases{rest}"


def defaults_of_every_kind(planes: Planes) -> None:
    """Create one object of each kind, and read it back."""
    planes.send("POST", core(planes, "pods"), pod("plain"))
    planes.send("POST", core(planes, "pods"), pod("probed", **_probed()))
    planes.send("POST", core(planes, "configmaps"), config_map("plain", a="b"))
    secret = {"metadata": {"name": "plain"}, "stringData": {"a": "b"}}
    planes.send("POST", core(planes, "secrets"), secret)
    planes.send("POST", core(planes, "serviceaccounts"), {"metadata": {"name": "plain"}})
    port = {"port": 80, "name": "http"}
    service = {"metadata": {"name": "plain"}, "spec": {"ports": [port], "clusterIP": "None"}}
    planes.send("POST", core(planes, "services"), service)
    claim = {
        "metadata": {"name": "plain"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "none",
        },
    }
    planes.send("POST", core(planes, "persistentvolumeclaims"), claim)
    for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"):
        made = workload(kind, f"plain-{kind.lower()}")
        if kind == "StatefulSet":
            made["spec"]["serviceName"] = "plain"
        planes.send("POST", apps(planes, f"{kind.lower()}s"), made)
    planes.send("POST", batch(planes, "jobs"), job("plain", suspend=True))
    template = {"spec": {"template": {"spec": pod_spec(restartPolicy="Never")}}}
    cron = {"metadata": {"name": "plain"}, "spec": {"schedule": "@yearly", "jobTemplate": template}}
    planes.send("POST", batch(planes, "cronjobs"), cron)
    planes.send("POST", policy(planes, "poddisruptionbudgets"), budget("plain", "none"))
    quota = {"metadata": {"name": "plain"}, "spec": {"hard": {"count/secrets": "100"}}}
    planes.send("POST", core(planes, "resourcequotas"), quota)
    limits = [{"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "10m"}}]
    ranges = {"metadata": {"name": "plain"}, "spec": {"limits": limits}}
    planes.send("POST", core(planes, "limitranges"), ranges)
    scaler = {
        "metadata": {"name": "plain"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"},
            "maxReplicas": 3,
        },
    }
    planes.send(
        "POST",
        f"apis/autoscaling/v2/namespaces/{planes.namespace}/horizontalpodautoscalers",
        scaler,
    )
    lease = {"metadata": {"name": "plain"}, "spec": {"holderIdentity": "me"}}
    planes.send("POST", f"apis/coordination.k8s.io/v1/namespaces/{planes.namespace}/leases", lease)


def _probed() -> Object:
    get = {"httpGet": {"port": 80, "path": "/"}}
    return {
        "containers": [
            {
                "name": "main",
                "image": "example.invalid/main",
                "ports": [{"containerPort": 80}],
                "env": [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "livenessProbe": get,
                "readinessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 3},
                "resources": {"limits": {"cpu": "1", "memory": "64Mi"}},
                "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
            }
        ],
        "initContainers": [{"name": "first", "image": "example.invalid/first:2"}],
        "volumes": [
            {"name": "scratch", "emptyDir": {}},
            {"name": "settings", "configMap": {"name": "plain"}},
            {"name": "keys", "secret": {"secretName": "plain"}},
            {"name": "host", "hostPath": {"path": "/var"}},
        ],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "x"}},
            }
        ],
    }


def refusals_of_malformed_objects(planes: Planes) -> None:
    """Create what no API server accepts."""
    no_containers = {**pod("empty"), "spec": {"containers": []}}
    planes.send("POST", core(planes, "pods"), no_containers)
    planes.send("POST", core(planes, "pods"), pod("Capital_Letters"))
    planes.send("POST", core(planes, "pods"), pod("x", {"ok": "bad value!"}))
    planes.send("POST", core(planes, "pods"), {"metadata": {}, "spec": pod_spec()})
    planes.send("POST", core(planes, "pods"), pod("x", priorityClassName="missing"))
    planes.send("POST", core(planes, "pods"), pod("x", priority=7))
    planes.send("POST", core(planes, "pods"), pod("x", restartPolicy="Sometimes"))
    planes.send("POST", core(planes, "pods"), pod("x", serviceAccountName="missing"))
    planes.send("POST", core(planes, "pods"), pod("x", terminationGracePeriodSeconds=-3))
    asked = {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}
    greedy = [{"name": "main", "image": "i", "resources": asked}]
    planes.send("POST", core(planes, "pods"), pod("x", containers=greedy))
    for wrong in (
        {"imagePullPolicy": "Sometimes"},
        {"volumeMounts": [{"name": "none", "mountPath": "/a"}, {"mountPath": ""}]},
        {"ports": [{"containerPort": 0}, {"containerPort": 70_000}]},
    ):
        made = pod("x", containers=[{"name": "", "image": "i", **wrong}])
        planes.send("POST", core(planes, "pods"), made)
    twice = [{"name": "main", "image": "i"}, {"name": "main", "image": "j"}]
    planes.send("POST", core(planes, "pods"), pod("x", containers=twice))
    bad_toleration = [{"key": "a", "operator": "Exists", "value": "b"}]
    planes.send("POST", core(planes, "pods"), pod("x", tolerations=bad_toleration))
    spread = [{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "Never"}]
    planes.send("POST", core(planes, "pods"), pod("x", topologySpreadConstraints=spread))
    planes.send("POST", apps(planes, "deployments"), workload("Deployment", "x", replicas=-1))
    crossed = workload("Deployment", "x")
    crossed["spec"]["selector"] = {"matchLabels": {"app": "y"}}
    planes.send("POST", apps(planes, "deployments"), crossed)
    still = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}
    planes.send("POST", apps(planes, "deployments"), workload("Deployment", "x", strategy=still))
    planes.send("POST", apps(planes, "deployments"), {"metadata": {"name": "x"}})
    planes.send("POST", batch(planes, "jobs"), job("x", pod_spec()))
    planes.send("POST", batch(planes, "jobs"), job("x", parallelism=-1, backoffLimit=-2))
    planes.send("POST", batch(planes, "jobs"), job("x", completionMode="Indexed"))
    both = budget("x", "y", minAvailable=1, maxUnavailable=1)
    planes.send("POST", policy(planes, "poddisruptionbudgets"), both)
    planes.send("POST", policy(planes, "poddisruptionbudgets"), budget("x", "y", minAvailable="z"))
    elsewhere = pod("x")
    elsewhere["metadata"]["namespace"] = "default"
    planes.send("POST", core(planes, "pods"), elsewhere)
    planes.send("POST", "api/v1/namespaces/no-such-namespace/pods", pod("x"))
    planes.send("GET", core(planes, "pods/missing"))
    planes.send("DELETE", core(planes, "pods/missing"))
    planes.send("GET", "apis/no.such.group/v1/widgets")
    planes.send("PUT", core(planes, "pods/missing"), pod("missing"))
    planes.send("PUT", core(planes, "pods/other"), pod("missing"))
    planes.send("PATCH", core(planes, "pods/missing"), {}, MERGE)
    planes.send("POST", core(planes, "pods?dryRun=Some"), pod("x"))
    planes.send("DELETE", core(planes, "pods/missing?dryRun=Some"))
    planes.send("POST", core(planes, "pods/x"), pod("x"))


def writes_meet_what_is_there(planes: Planes) -> None:
    """Create twice, update with an old version, change what must stay."""
    place = core(planes, "configmaps")
    planes.send("POST", place, config_map("a", x="1"))
    planes.send("POST", place, config_map("a", x="2"))
    stale = config_map("a", x="3")
    stale["metadata"]["resourceVersion"] = "1"
    planes.send("PUT", f"{place}/a", stale)
    stale["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000"
    del stale["metadata"]["resourceVersion"]
    planes.send("PUT", f"{place}/a", stale)
    planes.send("PUT", f"{place}/a", config_map("a", x="4"))
    planes.send("PUT", f"{place}/a", config_map("a", x="4"))
    planes.send("DELETE", f"{place}/a", {"preconditions": {"uid": "no"}})
    planes.send("DELETE", f"{place}/a", {"preconditions": {"resourceVersion": "1"}})
    planes.send("DELETE", f"{place}/a", {"propagationPolicy": "Sometimes"})
    fixed = {**config_map("fixed", x="1"), "immutable": True}
    planes.send("POST", place, fixed)
    planes.send("PUT", f"{place}/fixed", {**fixed, "data": {"x": "2"}})
    create_pod(planes, pod("still"))
    image = {"spec": {"containers": [{"name": "main", "image": "example.invalid/main:2"}]}}
    planes.send("PATCH", core(planes, "pods/still"), image, STRATEGIC)
    planes.send("POST", apps(planes, "deployments"), workload("Deployment", "web", replicas=0))
    selector = {"spec": {"selector": {"matchLabels": {"app": "other"}}}}
    planes.send("PATCH", apps(planes, "deployments/web"), selector, MERGE)
    other_uid = {"preconditions": {"uid": "no"}}
    planes.send("DELETE", apps(planes, "deployments/web"), other_uid)
    planes.send("POST", batch(planes, "jobs"), job("still", suspend=True))
    planes.send("PATCH", batch(planes, "jobs/still"), {"spec": {"completions": 3}}, MERGE)
    planes.send("DELETE", f"{place}/a")
    planes.send("DELETE", f"{place}/a")
    planes.send("DELETE", f"{place}?labelSelector=none%3Dat-all")
    planes.send("DELETE", core(planes, "pods/still?gracePeriodSeconds=0"))


def every_kind_of_patch(planes: Planes) -> None:
    """Patch a Deployment in each way, and a ConfigMap in the wrong ones."""
    web = apps(planes, "deployments/web")

    def patch(change: object, how: str, where: str = web) -> None:
        planes.send("PATCH", where, change, how, only=_without_progress)

    planes.send("POST", apps(planes, "deployments"), workload("Deployment", "web", replicas=0))
    patch({"metadata": {"labels": {"a": "1", "b": "2"}}}, MERGE)
    patch({"metadata": {"labels": {"a": None}}}, MERGE)
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    one: Object = {"name": "main", "env": env}
    two: Object = {"name": "second", "image": "example.invalid/second"}
    template = {"spec": {"template": {"spec": {"containers": [one, two]}}}}
    patch(template, STRATEGIC)
    less: Object = {"name": "main", "env": [{"name": "A", "$patch": "delete"}]}
    gone: Object = {"name": "second", "$patch": "delete"}
    template = {"spec": {"template": {"spec": {"containers": [less, gone]}}}}
    patch(template, STRATEGIC)
    tolerations = [{"key": "a", "operator": "Exists"}]
    template = {"spec": {"template": {"spec": {"tolerations": tolerations}}}}
    patch(template, STRATEGIC)
    replaced = {"$patch": "replace", "only": "this"}
    patch({"metadata": {"annotations": replaced}}, STRATEGIC)
    patch({"spec": {"nonsense": 1}}, MERGE)
    patch({"metadata": {"resourceVersion": "1"}}, MERGE)
    another = "00000000-0000-0000-0000-000000000000"
    of_another = {"metadata": {"uid": another}, "spec": {"replicas": 1}}
    patch(of_another, MERGE)
    patch(of_another, STRATEGIC)
    patch([{"op": "replace", "path": "/metadata/uid", "value": another}], JSON_PATCH)
    patch({"metadata": {"uid": another, "resourceVersion": "1"}}, MERGE)
    patch({"metadata": {"uid": None, "labels": {"z": "1"}}}, MERGE)
    create_pod(planes, pod("other"))
    annotated = {"metadata": {"uid": another, "annotations": {"a": "1"}}}
    patch(annotated, MERGE, core(planes, "pods/other"))
    nominated = {"metadata": {"uid": another}, "status": {"nominatedNodeName": "n"}}
    patch(nominated, MERGE, core(planes, "pods/other/status"))
    patch(annotated, MERGE, core(planes, "pods/nowhere"))
    planes.send("DELETE", core(planes, "pods/other?gracePeriodSeconds=0"))
    steps = [
        {"op": "test", "path": "/spec/replicas", "value": 0},
        {"op": "add", "path": "/metadata/labels/c", "value": "3"},
        {"op": "copy", "from": "/metadata/labels/c", "path": "/metadata/labels/d"},
        {"op": "move", "from": "/metadata/labels/d", "path": "/metadata/labels/e"},
        {"op": "remove", "path": "/metadata/labels/b"},
    ]
    patch(steps, JSON_PATCH)
    patch([{"op": "test", "path": "/spec/replicas", "value": 9}], JSON_PATCH)
    patch([{"op": "remove", "path": "/spec/nothing"}], JSON_PATCH)
    patch([{"op": "jump", "path": "/spec"}], JSON_PATCH)
    planes.send("PATCH", f"{web}/scale", {"spec": {"replicas": 0}}, MERGE)
    planes.send("GET", f"{web}/scale")
    patch({"spec": {"replicas": 5}}, MERGE, f"{web}?dryRun=All")
    patch({"spec": {"replicas": 0}}, MERGE)


def _without_progress(body: Any) -> Any:
    """Leave out what the controller of Deployments may have written or not yet."""
    if body["kind"] != "Deployment":
        return body
    meta = dict(body["metadata"])
    marks = {k: v for k, v in meta.pop("annotations", {}).items() if not k.startswith(_WRITTEN)}
    return {**body, "metadata": {**meta, "annotations": marks}, "status": None}


def server_side_apply(planes: Planes) -> None:
    """Apply as two managers: what one owns the other may not change, and what is left out goes."""
    place = core(planes, "configmaps/shared")
    planes.send("PATCH", f"{place}?fieldManager=one", config_map("shared", a="1", b="2"), APPLY)
    planes.send("PATCH", f"{place}?fieldManager=two", config_map("shared", c="3"), APPLY)
    planes.send("PATCH", f"{place}?fieldManager=two", config_map("shared", a="9"), APPLY)
    planes.send("PATCH", f"{place}?fieldManager=one", config_map("shared", a="1"), APPLY)
    planes.send("GET", place)
    planes.send("GET", place, only=_owners)
    planes.send("PATCH", f"{place}?fieldManager=two&force=true", config_map("shared", a="9"), APPLY)
    planes.send("PATCH", f"{place}?fieldManager=one", config_map("shared", a="1"), APPLY)
    planes.send("PATCH", f"{place}?fieldManager=one", config_map("shared", a="9"), APPLY)
    planes.send("PATCH", f"{place}?fieldManager=one&force=maybe", config_map("shared"), APPLY)
    planes.send("PATCH", f"{place}?fieldManager=one", {"data": {}}, APPLY)
    planes.send("PATCH", f"{place}", config_map("shared"), APPLY)
    forgotten: Object = {"metadata": {"managedFields": [{}]}}
    planes.send("PATCH", f"{place}?fieldManager=x", forgotten, MERGE, only=_owners)
    planes.send("PATCH", f"{place}?fieldManager=one", config_map("shared", a="5"), APPLY)
    planes.send("PATCH", f"{place}?force=true", {"data": {}}, MERGE)
    planes.send(
        "PATCH", f"{place}?fieldManager=one", {**config_map("shared"), "kind": "Secret"}, APPLY
    )
    planes.send("PATCH", f"{place}?fieldManager=one", {"kind": "ConfigMap", "data": {}}, APPLY)
    another = config_map("shared", a="6")
    another["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000"
    planes.send("PATCH", f"{place}?fieldManager=one", another, APPLY)
    planes.send("PATCH", f"{place}-not?fieldManager=one", another, APPLY)


def server_side_apply_of_lists(planes: Planes) -> None:
    """Apply a Deployment and a Service as several managers, whose lists merge by their keys."""
    web = apps(planes, "deployments/web")
    made = workload("Deployment", "web", replicas=0)

    def apply(manager: str, obj: object, place: str = web, only: Any = _spec_and_owners) -> None:
        planes.send("PATCH", f"{place}?fieldManager={manager}", obj, APPLY, only=only)

    apply("one", made)
    planes.send(
        "PATCH",
        f"{web}?fieldManager=scaler",
        {"spec": {"replicas": 1}},
        MERGE,
        only=_spec_and_owners,
    )
    apply("one", made)
    containers = made["spec"]["template"]["spec"]["containers"]
    ports = [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP", "name": "udp"}]
    second: Object = {
        "name": "second",
        "image": "i",
        "ports": ports,
        "securityContext": {"runAsUser": 7},
    }
    containers.append(second)
    del made["spec"]["replicas"]
    apply("one", made)
    third: Object = {
        "name": "third",
        "image": "t",
        "env": [{"name": "A", "value": "1"}, {"name": "B"}],
    }
    beside = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "spec": {"template": {"spec": {"containers": [third]}}},
    }
    apply("two", beside)
    del second["securityContext"], ports[0]
    apply("one", made)
    containers.reverse()
    apply("one", made)
    del third["env"][0]
    apply("two", beside)
    image = {"spec": {"template": {"spec": {"containers": [{"name": "second", "image": "j"}]}}}}
    planes.send("PATCH", f"{web}?fieldManager=setter", image, STRATEGIC, only=_spec_and_owners)
    del containers[0]
    apply("one", made)
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 2}}
    apply("scale", scale, f"{web}/scale", only=lambda body: body.get("spec"))
    planes.send("GET", web, only=_spec_and_owners)
    twice = {"containers": [{"name": "a", "image": "i"}, {"name": "a", "image": "j"}]}
    apply("two", {**beside, "spec": {"template": {"spec": twice}}}, only=_refused)
    nameless = {"containers": [{"image": "i"}]}
    apply("two", {**beside, "spec": {"template": {"spec": nameless}}}, only=_refused)
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
    port = {"port": 80, "name": "http"}
    spec = {"clusterIP": "None", "selector": {"app": "web"}, "ports": [port]}
    place = core(planes, "services/web")
    apply("one", {**service, "spec": spec}, place)
    apply("two", {**service, "spec": {"ports": [{"port": 443, "name": "https"}]}}, place)
    apply("one", {**service, "spec": {**spec, "selector": {"app": "x"}}}, place)
    finalizers = {"finalizers": ["example.com/a", "example.com/b"], "labels": {"a": "1"}}
    meta = {"metadata": {"name": "web", **finalizers}}
    apply("two", {**service, **meta}, place, only=lambda body: body["metadata"].get("finalizers"))
    finalizers["finalizers"] = ["example.com/b"]
    apply("two", {**service, **meta}, place, only=lambda body: body["metadata"].get("finalizers"))
    apply("two", service, place)


def _owners(body: Any) -> Any:
    """Return who owns which fields, of those that are no controllers."""
    found = body["metadata"].get("managedFields") or () if "metadata" in body else ()
    ours = [each for each in found if each["manager"] != "kube-controller-manager"]
    return sorted(ours, key=lambda each: (each["manager"], each["operation"]))


def _spec_and_owners(body: Any) -> Any:
    """Return what no controller changes in an answer; a refusal as it is."""
    if body.get("kind") == "Status":
        return body
    return {"spec": body["spec"], "labels": body["metadata"].get("labels"), "owners": _owners(body)}


def _refused(body: Any) -> Any:
    """Return the reason of a refusal, of which the text names types of Go."""
    return body.get("reason")


def owners_of_what_controllers_write(planes: Planes) -> None:
    """Apply objects that controllers go on with; see who owns which field then."""
    apply = "?fieldManager=mine"
    named: tuple[tuple[str, str, dict[str, object]], ...] = (
        (apps(planes, "deployments/web"), "apps/v1", workload("Deployment", "web", replicas=1)),
        (apps(planes, "statefulsets/db"), "apps/v1", workload("StatefulSet", "db", replicas=1)),
        (batch(planes, "jobs/once"), "batch/v1", job("once")),
        (policy(planes, "poddisruptionbudgets/web"), "policy/v1", budget("web", "web")),
        (core(planes, "pods/alone"), "v1", pod("alone")),
    )
    kinds = ("Deployment", "StatefulSet", "Job", "PodDisruptionBudget", "Pod")
    for (place, version, body), kind in zip(named, kinds, strict=True):
        applied = {**body, "apiVersion": version, "kind": kind}
        planes.send("PATCH", place + apply, applied, APPLY, only=_refused)

    def look(plane: Plane) -> object:
        bodies = [plane.send("GET", place).body for place, _, _ in named]
        found = [each["metadata"].get("managedFields") or [] for each in bodies]
        by_name = partial(sorted, key=lambda it: (it["manager"], it["operation"]))
        return [by_name(plain(each)) for each in found]

    planes.agree("the owners of all fields", look)


def selectors(planes: Planes) -> None:
    """List by labels and by fields, those that a server does not know included."""
    for name, labels in (("a", {"app": "x"}), ("b", {"app": "y", "tier": "1"}), ("c", {})):
        planes.send("POST", core(planes, "pods"), pod(name, labels))

    def names(body: Any) -> Any:
        if isinstance(body, dict) and "items" in body:
            return [each["metadata"]["name"] for each in body["items"]]
        return body

    for selector in (
        "app=x",
        "app==x",
        "app!=x",
        "app in (x, y)",
        "app notin (x)",
        "app",
        "!app",
        "app=x,tier",
        "tier>0",
        "tier<1",
        "app in",
        "app=x=y",
        "app in ()",
        "=x",
        "a b",
        "-bad=x",
    ):
        chosen = core(planes, f"pods?labelSelector={quote(selector)}")
        planes.send("GET", chosen, only=lambda body: names(body) if "items" in body else None)
    for selector in (
        "metadata.name=a",
        "metadata.name!=a",
        "status.phase=Pending",
        "spec.nodeName=",
        "spec.restartPolicy=Always",
        "spec.schedulerName=default-scheduler",
        "spec.serviceAccountName=default",
        f"metadata.namespace={planes.namespace}",
        "spec.priority=0",
        "nonsense",
        "metadata.name=a,metadata.name=b",
    ):
        planes.send("GET", core(planes, f"pods?fieldSelector={quote(selector)}"), only=names)
    for path in (
        "configmaps?fieldSelector=data.a%3Db",
        "secrets?fieldSelector=type%3DOpaque",
        "events?fieldSelector=involvedObject.kind%3DNothing",
    ):
        planes.send("GET", core(planes, path), only=names)
    planes.send("GET", "api/v1/nodes?fieldSelector=spec.unschedulable%3Dmaybe", only=names)
    planes.send("GET", "api/v1/nodes?fieldSelector=status.phase%3DReady", only=names)


def pages(planes: Planes) -> None:
    """List in pages, and with each way to ask for a version."""
    for index in range(5):
        planes.send("POST", leases(planes), lease(f"c{index}", holderIdentity="me"))
    place = leases(planes)

    def shown(body: Any) -> Any:
        if not isinstance(body, dict) or "items" not in body:
            return body
        meta = {
            key: bool(value) if key == "continue" else value
            for key, value in body["metadata"].items()
            if key != "resourceVersion"
        }
        return [meta, [each["metadata"]["name"] for each in body["items"]]]

    answers = planes.send("GET", f"{place}?limit=2", only=shown)
    while answers[0].body["metadata"].get("continue"):
        tokens = {
            plane.name: quote(answer.body["metadata"].get("continue", ""))
            for plane, answer in zip(planes.both, answers, strict=True)
        }

        def next_page(plane: Plane, tokens: dict[str, str] = tokens) -> str:
            return f"{place}?limit=2&continue={tokens[plane.name]}"

        answers = planes.send("GET", next_page, only=shown)
    for query in (
        "limit=-1",
        "limit=many",
        "resourceVersion=0",
        "resourceVersion=nonsense",
        "resourceVersion=0&resourceVersionMatch=NotOlderThan",
        "resourceVersion=0&resourceVersionMatch=Exact",
        "resourceVersionMatch=Exact",
        "resourceVersion=1&resourceVersionMatch=Sometimes",
        "resourceVersion=99999999999999999&resourceVersionMatch=Exact",
        "limit=1&resourceVersion=0",
        "watch=true&timeoutSeconds=1&resourceVersion=nonsense",
        "watch=true&timeoutSeconds=1&resourceVersionMatch=Exact&resourceVersion=1",
        "watch=true&timeoutSeconds=1&sendInitialEvents=true",
        "sendInitialEvents=true",
        "timeoutSeconds=x",
        "limit=1&watch=true&timeoutSeconds=1",
    ):
        planes.send("GET", f"{place}?{query}", only=shown)


def watches(planes: Planes) -> None:
    """Watch what others wrote: from a version, with a selector, with bookmarks."""
    place = leases(planes)
    began = {
        plane.name: plane.send("GET", place).body["metadata"]["resourceVersion"]
        for plane in planes.both
    }
    labelled = lease("a", holderIdentity="1")
    labelled["metadata"]["labels"] = {"app": "x"}
    planes.send("POST", place, labelled)
    planes.send("POST", place, lease("b", holderIdentity="1"))
    planes.send("PATCH", f"{place}/a", {"spec": {"holderIdentity": "2"}}, MERGE)
    planes.send("PATCH", f"{place}/a", {"metadata": {"labels": {"app": "y"}}}, MERGE)
    planes.send("PATCH", f"{place}/b", {"metadata": {"labels": {"app": "x"}}}, MERGE)
    planes.send("DELETE", f"{place}/b")
    for extra in ("", "&labelSelector=app%3Dx", "&fieldSelector=metadata.name%3Da"):

        def watch(plane: Plane, more: str = extra) -> str:
            return f"{place}?watch=true&timeoutSeconds=2&resourceVersion={began[plane.name]}{more}"

        planes.send("GET", watch)
    planes.send(
        "GET",
        f"{place}?watch=true&timeoutSeconds=2&sendInitialEvents=true&allowWatchBookmarks=true"
        "&resourceVersionMatch=NotOlderThan",
        only=_until_initial_events_end,
    )


def _until_initial_events_end(events: list[Any]) -> list[Any]:
    """Return types, names and annotations up to the bookmark that ends the initial events.

    When a server sends further bookmarks, it does not promise.
    """
    shown = []
    for each in events:
        metadata = each["object"]["metadata"]
        shown.append([each["type"], metadata.get("name"), metadata.get("annotations")])
        if each["type"] == "BOOKMARK":
            return shown
    return [*shown, "no bookmark"]


def dry_runs(planes: Planes) -> None:
    """Ask for everything with dryRun=All, and see that nothing happened."""
    pods, maps = core(planes, "pods"), core(planes, "configmaps")
    planes.send("POST", f"{pods}?dryRun=All", pod("a"))
    planes.send("GET", f"{pods}/a")
    generated = {"metadata": {"generateName": "made-"}, "data": {}}
    planes.send("POST", f"{maps}?dryRun=All", generated)
    planes.send("POST", maps, generated)
    planes.send("POST", maps, config_map("kept", a="1"))
    planes.send("PUT", f"{maps}/kept?dryRun=All", config_map("kept", a="2"))
    planes.send("DELETE", f"{maps}/kept?dryRun=All")
    planes.send("DELETE", f"{maps}/kept", {"dryRun": ["All"]})
    planes.send("GET", f"{maps}/kept")
    planes.send("POST", pods, pod("there"))
    planes.send("DELETE", f"{pods}/there?dryRun=All")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "there"}}
    planes.send("POST", f"{pods}/there/eviction?dryRun=All", eviction)
    planes.send("GET", f"{pods}/there")
    planes.send("POST", f"{pods}?dryRun=All", pod("there"))


def status_and_spec_are_written_apart(planes: Planes) -> None:
    """Write a status through the object, and a spec through its status."""
    planes.send("POST", core(planes, "pods"), pod("a"))
    place = core(planes, "pods/a")
    planes.send("PATCH", place, {"status": {"phase": "Running"}}, MERGE)
    both = {
        "metadata": {"labels": {"x": "y"}},
        "spec": {"priority": 9},
        "status": {"phase": "Failed"},
    }
    planes.send("PATCH", f"{place}/status", both, MERGE)
    planes.send("GET", f"{place}/status")
    planes.send("POST", apps(planes, "deployments"), workload("Deployment", "web", replicas=0))
    place = apps(planes, "deployments/web")
    planes.agree("observed", lambda plane: plane.send("GET", place).body["status"])
    planes.send("PATCH", f"{place}/status", {"spec": {"replicas": 4}}, MERGE)
    planes.send("PATCH", place, {"status": {"replicas": 4}}, MERGE)


def bindings(planes: Planes) -> None:
    """Bind pods to nodes, twice, and where they may not be bound."""
    pods = core(planes, "pods")

    def binding(name: str, target: Object) -> Object:
        meta = {"name": name, "annotations": {"bound": "by-hand"}}
        return {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}

    node = {"kind": "Node", "name": "no-such-node"}
    planes.send("POST", pods, pod("a", schedulerName="none"))
    planes.send("POST", pods, pod("gated", schedulingGates=[{"name": "example.com/wait"}]))
    planes.send("POST", f"{pods}/a/binding", binding("a", {"kind": "Thing", "name": "x"}))
    planes.send("POST", f"{pods}/a/binding", binding("a", {"kind": "Node"}))
    planes.send("POST", f"{pods}/a/binding", binding("b", node))
    planes.send("POST", f"{pods}/gated/binding", binding("gated", node))
    planes.send("POST", f"{pods}/missing/binding", binding("missing", node))
    planes.send("POST", f"{pods}/a/binding?dryRun=All", binding("a", node))
    planes.send("POST", f"{pods}/a/binding", binding("a", node))
    planes.send("POST", f"{pods}/a/binding", binding("a", node))


def forgotten_versions(planes: Planes) -> None:
    """Ask for versions that the server has forgotten: watches, lists, and further pages."""
    place = leases(planes)
    for name in ("a", "b", "c"):
        planes.send("POST", place, lease(name, holderIdentity=name))
    asked = ("resourceVersion=1&timeoutSeconds=2", "resourceVersion=x&timeoutSeconds=2")
    for query in (*asked, f"{asked[0]}&fieldSelector=metadata.name%3Da"):
        planes.send("GET", f"{place}?watch=1&{query}", only=_no_numbers)
    initial = "sendInitialEvents=false&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    planes.send("GET", f"{place}?watch=1&{asked[0]}&{initial}", only=_no_numbers)
    for query in (
        "resourceVersionMatch=Exact&resourceVersion=1",
        "resourceVersionMatch=Exact&resourceVersion=1&limit=2",
        "resourceVersion=1&limit=2",
        "resourceVersionMatch=NotOlderThan&resourceVersion=1",
    ):
        planes.send("GET", f"{place}?{query}", only=_no_numbers)

    def forgotten(plane: Plane) -> str:
        """Return the token of a second page, as of a version that is forgotten."""
        token = plane.send("GET", f"{place}?limit=1").body["metadata"]["continue"]
        said = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        return base64.urlsafe_b64encode(json.dumps({**said, "rv": 1}).encode()).decode().rstrip("=")

    for limit in ("limit=1&", ""):
        planes.send(
            "GET",
            lambda plane, limit=limit: f"{place}?{limit}continue={forgotten(plane)}",  # type: ignore[misc]
            only=_no_numbers,
        )

    def goes_on(plane: Plane) -> object:
        """Go on with the token of the refusal, at the latest state."""
        refused = plane.send("GET", f"{place}?limit=1&continue={forgotten(plane)}").body
        plane.send("DELETE", f"{place}/b")
        token = refused["metadata"]["continue"]
        found = plane.send("GET", f"{place}?limit=1&continue={token}").body
        return [each["metadata"]["name"] for each in found["items"]]

    planes.agree("the rest of the list", goes_on)


def _no_numbers(body: Any) -> Any:
    """Return an answer without versions in its words, and without a token."""
    match body:
        case dict():
            return {
                key: "TOKEN" if key == "continue" and value else _no_numbers(value)
                for key, value in body.items()
                if key != "items"
            }
        case list():
            return [_no_numbers(each) for each in body]
        case str() if "resource version" in body:
            return re.sub(r"\d+", "N", body)
    return body


REQUESTS = (
    defaults_of_every_kind,
    refusals_of_malformed_objects,
    writes_meet_what_is_there,
    every_kind_of_patch,
    server_side_apply,
    server_side_apply_of_lists,
    owners_of_what_controllers_write,
    selectors,
    pages,
    watches,
    dry_runs,
    status_and_spec_are_written_apart,
    bindings,
)
