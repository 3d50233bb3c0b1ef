"""Programs about what a server says of itself: its kinds, their tables, and how they are read."""

from typing import Any

from tests.support.programs.objects import (
    apps,
    batch,
    budget,
    core,
    job,
    pod,
    pod_spec,
    policy,
    workload,
)
from tests.support.two_planes import Plane, Planes, plain

Object = dict[str, Any]  # a Kubernetes object as JSON
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
GROUPS = (
    "api/v1",
    "apis/apps/v1",
    "apis/batch/v1",
    "apis/policy/v1",
    "apis/autoscaling/v1",
    "apis/autoscaling/v2",
    "apis/coordination.k8s.io/v1",
    "apis/discovery.k8s.io/v1",
    "apis/events.k8s.io/v1",
    "apis/networking.k8s.io/v1",
    "apis/node.k8s.io/v1",
    "apis/rbac.authorization.k8s.io/v1",
    "apis/resource.k8s.io/v1",
    "apis/scheduling.k8s.io/v1",
    "apis/storage.k8s.io/v1",
    "apis/apiextensions.k8s.io/v1",
    "apis/authorization.k8s.io/v1",
    "apis/authentication.k8s.io/v1",
    "apis/admissionregistration.k8s.io/v1",
    "apis/apiregistration.k8s.io/v1",
    "apis/certificates.k8s.io/v1",
)


def kinds_of_every_group(planes: Planes) -> None:
    """Ask which kinds each group has, and what can be done with them."""
    ours = {path: {each["name"] for each in _resources(planes.sim, path)} for path in GROUPS}

    def look(plane: Plane) -> object:
        return {
            path: [each for each in _resources(plane, path) if each["name"] in ours[path]]
            for path in GROUPS
        }

    planes.agree("kinds", look)


def _resources(plane: Plane, path: str) -> list[Object]:
    answer = plane.send("GET", path)
    found = answer.body.get("resources", []) if answer.code == 200 else []
    shown = [
        {
            field: sorted(value) if isinstance(value, list) else value
            for field, value in each.items()
            if field != "storageVersionHash"
        }
        for each in found
    ]
    return sorted(shown, key=lambda each: str(each["name"]))


def versions_of_every_group(planes: Planes) -> None:
    """Ask for the versions of groups, in the order of preference."""

    def look(plane: Plane) -> object:
        found = plane.send("GET", "apis").body["groups"]
        return {
            each["name"]: [[v["version"] for v in each["versions"]], each["preferredVersion"]]
            for each in found
            if each["name"] in ("autoscaling", "apps", "batch", "policy")
        }

    planes.agree("versions", look)
    planes.send("GET", "apis/autoscaling")
    planes.send("GET", "apis/no.such.group")


def tables(planes: Planes) -> None:
    """Read the tables that kubectl prints, of objects of each kind."""
    planes.send("POST", core(planes, "pods"), pod("plain"))
    data = {"metadata": {"name": "plain"}, "data": {"a": "b"}}
    planes.send("POST", core(planes, "configmaps"), data)
    secret = {"metadata": {"name": "plain"}, "stringData": {"a": "b", "c": "d"}}
    planes.send("POST", core(planes, "secrets"), secret)
    ports = [{"port": 80, "name": "http"}, {"port": 53, "protocol": "UDP", "name": "dns"}]
    service = {"metadata": {"name": "plain"}, "spec": {"ports": ports, "clusterIP": "None"}}
    planes.send("POST", core(planes, "services"), service)
    outside = {"type": "ExternalName", "externalName": "example.com"}
    planes.send("POST", core(planes, "services"), {"metadata": {"name": "far"}, "spec": outside})
    for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"):
        made = workload(kind, f"plain-{kind.lower()}")
        made["spec"]["template"]["spec"]["containers"].append({"name": "b", "image": "i"})
        if kind != "DaemonSet":
            made["spec"]["replicas"] = 0
        planes.send("POST", apps(planes, f"{kind.lower()}s"), made, only=_name)
    planes.send("POST", batch(planes, "jobs"), job("plain", suspend=True), only=_name)
    template = {"spec": {"template": {"spec": pod_spec(restartPolicy="Never")}}}
    cron = {"metadata": {"name": "plain"}, "spec": {"schedule": "@yearly", "jobTemplate": template}}
    planes.send("POST", batch(planes, "cronjobs"), cron, only=_name)
    planes.send("POST", policy(planes, "poddisruptionbudgets"), budget("plain", "none"))
    rule = {"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": _backend("web")}]}}
    ingress = {"metadata": {"name": "plain"}, "spec": {"rules": [{"host": "a.example", **rule}]}}
    network = f"apis/networking.k8s.io/v1/namespaces/{planes.namespace}"
    planes.send("POST", f"{network}/ingresses", ingress)
    none: Object = {"podSelector": {"matchLabels": {"app": "x"}}}
    planes.send("POST", f"{network}/networkpolicies", {"metadata": {"name": "a"}, "spec": none})
    rights = f"apis/rbac.authorization.k8s.io/v1/namespaces/{planes.namespace}"
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    planes.send("POST", f"{rights}/roles", {"metadata": {"name": "reader"}, "rules": rules})
    bound = {
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "default"}],
    }
    planes.send("POST", f"{rights}/rolebindings", bound)
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    made = {"metadata": {"name": "plain"}, "spec": {**claim, "storageClassName": "none"}}
    planes.send("POST", core(planes, "persistentvolumeclaims"), made)
    quota = {"metadata": {"name": "plain"}, "spec": {"hard": {"count/leases": "9"}}}
    planes.send("POST", core(planes, "resourcequotas"), quota, only=_name)
    limits = [{"type": "Pod", "max": {"cpu": "2"}}]
    ranges = {"metadata": {"name": "plain"}, "spec": {"limits": limits}}
    planes.send("POST", core(planes, "limitranges"), ranges)
    lease = {"metadata": {"name": "plain"}, "spec": {"holderIdentity": "me"}}
    coordination = f"apis/coordination.k8s.io/v1/namespaces/{planes.namespace}/leases"
    planes.send("POST", coordination, lease)
    paths = (
        *(core(planes, each) for each in ("pods", "configmaps", "secrets", "services")),
        *(core(planes, each) for each in ("persistentvolumeclaims", "serviceaccounts")),
        *(core(planes, each) for each in ("resourcequotas", "limitranges", "events")),
        *(core(planes, each) for each in ("replicationcontrollers", "endpoints")),
        *(apps(planes, each) for each in ("deployments", "replicasets", "statefulsets")),
        *(apps(planes, each) for each in ("daemonsets", "controllerrevisions")),
        *(batch(planes, each) for each in ("jobs", "cronjobs")),
        policy(planes, "poddisruptionbudgets"),
        *(f"{network}/{each}" for each in ("ingresses", "networkpolicies")),
        *(f"{rights}/{each}" for each in ("roles", "rolebindings")),
        coordination,
        f"apis/discovery.k8s.io/v1/namespaces/{planes.namespace}/endpointslices",
        f"apis/autoscaling/v2/namespaces/{planes.namespace}/horizontalpodautoscalers",
        f"apis/events.k8s.io/v1/namespaces/{planes.namespace}/events",
        f"api/v1/namespaces?fieldSelector=metadata.name%3D{planes.namespace}",
        "api/v1/nodes?fieldSelector=metadata.name%3Dnone",
        "api/v1/persistentvolumes?fieldSelector=metadata.name%3Dnone",
        "apis/storage.k8s.io/v1/storageclasses?fieldSelector=metadata.name%3Dnone",
        "apis/storage.k8s.io/v1/csinodes?fieldSelector=metadata.name%3Dnone",
        "apis/storage.k8s.io/v1/csidrivers?fieldSelector=metadata.name%3Dnone",
        "apis/storage.k8s.io/v1/volumeattachments?fieldSelector=metadata.name%3Dnone",
        "apis/scheduling.k8s.io/v1/priorityclasses?fieldSelector=metadata.name%3Dnone",
        "apis/node.k8s.io/v1/runtimeclasses?fieldSelector=metadata.name%3Dnone",
        "apis/networking.k8s.io/v1/ingressclasses?fieldSelector=metadata.name%3Dnone",
        "apis/rbac.authorization.k8s.io/v1/clusterrolebindings?fieldSelector=metadata.name%3Dnone",
        "apis/resource.k8s.io/v1/deviceclasses?fieldSelector=metadata.name%3Dnone",
    )
    planes.agree("tables", lambda plane: {path: _table(plane, path) for path in paths})


def _backend(name: str) -> Object:
    return {"service": {"name": name, "port": {"number": 80}}}


def _name(body: Any) -> object:
    return body.get("metadata", {}).get("name", body)


_AGES = ("Age", "Created At", "Last Seen", "First Seen", "Last Schedule", "Duration")


def _table(plane: Plane, path: str) -> object:
    """Return a table without the texts that explain its columns, and without ages."""
    body = plane.send("GET", path, accept=TABLE).body
    if body.get("kind") != "Table":
        return body
    columns = [
        {field: each.get(field) for field in ("name", "type", "format", "priority")}
        for each in body["columnDefinitions"]
    ]
    ages = [each["name"] in _AGES for each in columns]
    rows = [
        [None if is_age else cell for cell, is_age in zip(each["cells"], ages, strict=True)]
        for each in body["rows"] or ()
    ]
    if path.endswith("/events"):  # each has a name that is made up, and controllers are late
        return columns
    return columns, [row for row in rows if row[0] != "kube-root-ca.crt"]


def forms_of_answers(planes: Planes) -> None:
    """Ask for metadata alone, for forms that no server has, and send what it cannot read."""
    planes.send(
        "POST", core(planes, "configmaps"), {"metadata": {"name": "a", "labels": {"x": "y"}}}
    )
    partial = "application/json;as={};g=meta.k8s.io;v=v1"
    for accept, path in (
        (partial.format("PartialObjectMetadata"), "configmaps/a"),
        (partial.format("PartialObjectMetadataList"), "configmaps?labelSelector=x%3Dy"),
        ("text/html, application/json;q=0.5", "configmaps/a"),
        ("*/*", "configmaps/a"),
    ):
        found = []
        for plane in planes.both:
            answer = plane.send("GET", core(planes, path), accept=accept)
            found.append({"code": answer.code, "body": plain(answer.body)})
        planes.compare(f"{path} as {accept}", *found)
    body: object
    for media in ("text/plain", "application/xml", "application/json; charset=utf-8"):
        planes.send("POST", core(planes, "configmaps"), {"metadata": {"name": "b"}}, media)
    for body in ([], "text", {"kind": "Pod", "metadata": {"name": "c"}}, {"metadata": []}, {}):
        planes.send("POST", core(planes, "configmaps"), body, only=_reason)
    for kind in ({"kind": "Secret"}, {"apiVersion": "v2"}, {"apiVersion": "apps/v1"}):
        planes.send(
            "POST", core(planes, "configmaps"), {**kind, "metadata": {"name": "d"}}, only=_reason
        )


def _reason(body: Any) -> object:
    return (body.get("reason"), body.get("code")) if isinstance(body, dict) else body


DESCRIPTIONS = (
    kinds_of_every_group,
    versions_of_every_group,
    tables,
    forms_of_answers,
)
