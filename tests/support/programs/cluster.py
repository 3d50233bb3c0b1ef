"""Programs about disruption budgets, admission, taints, preemption, endpoints and namespaces."""

import re
from typing import Any

from tests.support.custom_resources import definition
from tests.support.programs.objects import (
    apps,
    as_seen,
    budget,
    core,
    end,
    first,
    is_new,
    make_ready,
    pod,
    pod_spec,
    pods_of,
    policy,
    workload,
)
from tests.support.two_planes import APPLY, MERGE, STRATEGIC, Plane, Planes

Object = dict[str, Any]  # a Kubernetes object as JSON
QUICK = {
    f"{stage}.stage.kwok.x-k8s.io/{wait}": "200ms"
    for stage in ("pod-create", "pod-ready", "pod-delete")
    for wait in ("delay", "jitter-delay")
}
"""What KWOK's kubelet takes time for, and a simulated one does at once."""
LEAVES_SLOWLY = QUICK | {
    "pod-delete.stage.kwok.x-k8s.io/delay": "8s",
    "pod-delete.stage.kwok.x-k8s.io/jitter-delay": "8s",
    "sim.reactive-desched/shutdown-seconds": "8",
}
ROOM = {"cpu": "4", "memory": "8Gi", "pods": "20"}


def _evict(planes: Planes, name: str, **options: object) -> None:
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name},
        **options,
    }
    planes.send("POST", core(planes, f"pods/{name}/eviction"), body)


def disruption_budgets(planes: Planes) -> None:
    """Evict against budgets: allowed, exhausted, two at once, of pods that are not ready."""
    place = policy(planes, "poddisruptionbudgets")

    def look(plane: Plane) -> object:
        return [
            [each["metadata"]["name"], each.get("status")]
            for each in plane.items(
                f"apis/policy/v1/namespaces/{plane.namespace}/poddisruptionbudgets"
            )
        ]

    for name in ("a", "b", "c"):
        planes.send("POST", core(planes, "pods"), pod(name, {"app": "web"}))
    planes.send("POST", place, budget("web", "web", minAvailable=2))
    planes.agree("none is healthy", look)
    _evict(planes, "a")
    planes.agree("one that is not ready", look)
    planes.send("POST", core(planes, "pods"), pod("d", {"app": "web"}))

    def all_ready(plane: Plane) -> None:
        for each in pods_of(plane):
            make_ready(plane, each)

    planes.each(all_ready)
    planes.agree("three of three are healthy", look)
    _evict(planes, "b")
    planes.agree("one may go", look)
    _evict(planes, "c")
    planes.agree("no other", look)
    _evict(planes, "missing")
    planes.send("POST", place, budget("other", "web", maxUnavailable=1))
    planes.agree("two budgets", look)
    _evict(planes, "c")
    planes.send("DELETE", f"{place}/other")
    planes.send("PATCH", f"{place}/web", {"spec": {"minAvailable": "50%"}}, MERGE)
    planes.agree("half of a naked pod's owner", look)
    planes.send("DELETE", f"{place}/web")
    _evict(planes, "c", deleteOptions={"preconditions": {"uid": "no"}})
    _evict(planes, "c", deleteOptions={"dryRun": ["All"]})
    _evict(planes, "c", deleteOptions={"gracePeriodSeconds": 0})
    planes.send("GET", core(planes, "pods/c"))


def budgets_of_workloads(planes: Planes) -> None:
    """Count what a Deployment and a ReplicaSet expect, by numbers and by shares."""
    place = policy(planes, "poddisruptionbudgets")

    def look(plane: Plane) -> object:
        return [
            [each["metadata"]["name"], each.get("status")]
            for each in plane.items(
                f"apis/policy/v1/namespaces/{plane.namespace}/poddisruptionbudgets"
            )
        ]

    planes.send("POST", apps(planes, "deployments"), workload("Deployment", "web", replicas=3))
    planes.agree("three pods", lambda plane: as_seen(pods_of(plane)))
    planes.send("POST", place, budget("third", "web", maxUnavailable="34%"))
    planes.send("POST", place, budget("nobody", "nobody", minAvailable=1))
    planes.agree("none is ready", look)
    for _ in range(3):
        planes.each(lambda plane: make_ready(plane, first(plane, is_new)))
    planes.agree("all are ready", look)
    planes.send("PATCH", apps(planes, "deployments/web/scale"), {"spec": {"replicas": 5}}, MERGE)
    planes.agree("two more are expected", look)


def quotas(planes: Planes) -> None:
    """Meet the limits of ResourceQuotas, by number, by request, and by scope."""
    place = core(planes, "resourcequotas")

    def look(plane: Plane) -> object:
        return [
            [each["metadata"]["name"], each.get("status")]
            for each in plane.items(core(planes, "resourcequotas"))
        ]

    def quota(name: str, hard: Object, **spec: object) -> Object:
        return {"metadata": {"name": name}, "spec": {"hard": hard, **spec}}

    def asks(name: str, cpu: str, **spec: Any) -> Object:
        asked = {"requests": {"cpu": cpu}, "limits": {"memory": "64Mi"}}
        container = {"name": "main", "image": "example.invalid/main", "resources": asked}
        return pod(name, containers=[container], **spec)

    hard = {"requests.cpu": "1", "limits.memory": "1Gi", "pods": "3", "count/secrets": "1"}
    planes.send("POST", place, quota("compute", hard))
    planes.agree("nothing is used", look)
    planes.send("POST", core(planes, "pods"), pod("plain"))
    planes.send("POST", core(planes, "pods"), asks("a", "600m"))
    planes.agree("one is used", look)
    planes.send("POST", core(planes, "pods"), asks("b", "500m"))
    planes.send("POST", core(planes, "pods"), asks("b", "100m"))
    planes.send("POST", core(planes, "pods"), asks("c", "100m"))
    planes.send("POST", core(planes, "pods"), asks("d", "100m"))
    planes.send("POST", core(planes, "secrets"), {"metadata": {"name": "one"}})
    planes.send("POST", core(planes, "secrets"), {"metadata": {"name": "two"}})
    planes.agree("full", look)
    planes.each(lambda plane: end(plane, first(plane, is_new), "Failed", 1))
    planes.agree("one has ended", look)
    planes.send("POST", core(planes, "pods"), asks("d", "100m"))
    planes.send("DELETE", f"{place}/compute")
    scoped = quota("best", {"pods": "0"}, scopes=["BestEffort"])
    planes.send("POST", place, scoped)
    planes.agree("a scope", look)
    planes.send("POST", core(planes, "pods"), pod("best"))
    planes.send("POST", core(planes, "pods"), asks("burstable", "100m"))
    storage = quota("storage", {"requests.storage": "2Gi", "persistentvolumeclaims": "5"})
    planes.send("POST", place, storage)
    planes.agree("storage", look)
    for name, size in (("one", "1Gi"), ("two", "1536Mi")):
        claim = {
            "metadata": {"name": name},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": size}},
                "storageClassName": "none",
            },
        }
        planes.send("POST", core(planes, "persistentvolumeclaims"), claim)
    planes.agree("one claim", look)


def limit_ranges(planes: Planes) -> None:
    """Meet the limits of a LimitRange, and get its defaults."""
    limits = [
        {
            "type": "Container",
            "min": {"cpu": "100m"},
            "max": {"cpu": "1", "memory": "1Gi"},
            "default": {"cpu": "500m", "memory": "256Mi"},
            "defaultRequest": {"cpu": "200m"},
            "maxLimitRequestRatio": {"cpu": "4"},
        },
        {"type": "Pod", "max": {"cpu": "1500m"}},
        {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}},
    ]
    made = {"metadata": {"name": "limits"}, "spec": {"limits": limits}}
    planes.send("POST", core(planes, "limitranges"), made)

    def asks(name: str, *resources: Object) -> Object:
        containers = [
            {"name": f"c{index}", "image": "example.invalid/main", "resources": each}
            for index, each in enumerate(resources)
        ]
        return pod(name, containers=containers)

    pods = core(planes, "pods")
    planes.send("POST", pods, asks("plain", {}))
    planes.send("POST", pods, asks("small", {"requests": {"cpu": "50m"}}))
    planes.send("POST", pods, asks("large", {"limits": {"cpu": "2"}}))
    big = {"limits": {"cpu": "2", "memory": "2Gi"}, "requests": {"cpu": "10m"}}
    planes.send("POST", pods, asks("both", big), only=_reasons)
    wide = {"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}}
    planes.send("POST", pods, asks("wide", wide))
    whole = {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}
    planes.send("POST", pods, asks("many", whole, whole))
    planes.send("POST", apps(planes, "replicasets"), workload("ReplicaSet", "web", replicas=1))
    planes.agree(
        "defaults of a pod of a ReplicaSet",
        lambda plane: [
            each["spec"]["containers"][0]["resources"] for each in pods_of(plane, "web")
        ],
    )
    claim = {
        "metadata": {"name": "large"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "2Gi"}},
            "storageClassName": "none",
        },
    }
    planes.send("POST", core(planes, "persistentvolumeclaims"), claim)


def _reasons(body: Any) -> object:
    """Return why a pod was refused, without the order, which is that of a map of Go's."""
    why = body["message"].partition("forbidden: ")[2].strip("[]")
    return sorted(re.split(r", (?=minimum|maximum|cpu max)", why))


def priorities(planes: Planes) -> None:
    """Take the priority of a class, and meet what is refused."""
    base = planes.namespace
    classes = "apis/scheduling.k8s.io/v1/priorityclasses"
    made = {"metadata": {"name": f"{base}-high"}, "value": 1000, "preemptionPolicy": "Never"}
    planes.send("POST", classes, made)
    planes.send("POST", classes, {"metadata": {"name": f"{base}-low"}, "value": -10})
    planes.send("POST", classes, {"metadata": {"name": f"{base}-x"}, "value": 2000000000})
    planes.send("POST", classes, {"metadata": {"name": "system-mine"}, "value": 1})
    pods = core(planes, "pods")
    planes.send("POST", pods, pod("high", priorityClassName=f"{base}-high"))
    planes.send("POST", pods, pod("low", priorityClassName=f"{base}-low"))
    planes.send("POST", pods, pod("same", priorityClassName=f"{base}-high", priority=1000))
    planes.send("POST", pods, pod("wrong", priorityClassName=f"{base}-high", priority=5))
    wrong: Object = {
        "priorityClassName": f"{base}-high",
        "preemptionPolicy": "PreemptLowerPriority",
    }
    planes.send("POST", pods, pod("policy", **wrong))
    planes.send("POST", pods, pod("critical", priorityClassName="system-node-critical"))
    planes.send("PATCH", f"{classes}/{base}-high", {"value": 2000}, MERGE)
    planes.send("DELETE", f"{classes}/{base}-high")
    planes.send("DELETE", f"{classes}/{base}-low")


def endpoint_slices(planes: Planes) -> None:
    """Follow pods of a Service into its EndpointSlice and its Endpoints."""

    def look(plane: Plane) -> object:
        endpoints = plane.send("GET", core(planes, "endpoints/web")).body
        endpoints["metadata"].pop("annotations", None)
        for subset in endpoints.get("subsets") or ():
            subset.get("addresses", []).sort(key=lambda one: str(one["targetRef"]["name"]))
            subset.get("ports", []).sort(key=lambda one: str(one["name"]))
        path = f"apis/discovery.k8s.io/v1/namespaces/{plane.namespace}/endpointslices"
        return [
            endpoints,
            *(
                {
                    "labels": each["metadata"].get("labels"),
                    "owner": each["metadata"].get("ownerReferences"),
                    "type": each["addressType"],
                    "ports": each.get("ports"),
                    "endpoints": sorted(
                        each.get("endpoints") or (), key=lambda one: str(one["targetRef"]["name"])
                    ),
                }
                for each in plane.items(path)
            ),
        ]

    ports = [
        {"name": "http", "port": 80, "targetPort": 8080},
        {"name": "admin", "port": 90, "targetPort": "admin"},
    ]
    service = {
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": ports, "clusterIP": "None"},
    }
    planes.send("POST", core(planes, "services"), service)
    planes.agree("no endpoints", look)
    _await_open(planes, _node(planes, "n", **{"topology.kubernetes.io/zone": "a"}))
    for name in ("a", "b"):
        made = pod(name, {"app": "web"})
        made["metadata"]["annotations"] = QUICK
        made["spec"] = _here(planes)
        made["spec"]["containers"][0]["ports"] = [{"name": "admin", "containerPort": 9090}]
        planes.send("POST", core(planes, "pods"), made)
    planes.agree("two that are ready", look)
    planes.send("PATCH", core(planes, "services/web"), {"spec": {"selector": {"app": "x"}}}, MERGE)
    planes.agree("no pod is selected", look)
    planes.send("DELETE", core(planes, "services/web"))
    planes.agree("the Service is gone", look)
    _remove_nodes(planes)


def deleted_namespaces(planes: Planes) -> None:
    """Delete a namespace that something holds."""
    held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}, "data": {"a": "b"}}
    planes.send("POST", core(planes, "configmaps"), held)
    planes.send("POST", apps(planes, "deployments"), workload("Deployment", "web", replicas=2))
    planes.agree("two pods", lambda plane: as_seen(pods_of(plane)))
    here = f"api/v1/namespaces/{planes.namespace}"
    planes.send("DELETE", here)

    def look(plane: Plane) -> object:
        found = plane.send("GET", here)
        status = found.body.get("status") if isinstance(found.body, dict) else None
        return [found.code, status, as_seen(pods_of(plane))]

    planes.agree("it waits for what is held", look)
    planes.send("POST", core(planes, "configmaps"), {"metadata": {"name": "late"}})
    planes.send("DELETE", here)
    planes.send("DELETE", "api/v1/namespaces/default")
    planes.send("PATCH", core(planes, "configmaps/held"), {"metadata": {"finalizers": None}}, MERGE)
    planes.agree("it is gone", look)


def _node(planes: Planes, name: str, **labels: str) -> str:
    full = f"{planes.namespace}-{name}"
    made = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": full,
            "labels": {"kubernetes.io/hostname": full, "home": planes.namespace, **labels},
        },
        "status": {"allocatable": ROOM, "capacity": ROOM},
    }
    for plane in planes.both:
        answer = plane.send("POST", "api/v1/nodes", made)
        assert answer.code == 201, answer
    return full


def _await_open(planes: Planes, *names: str) -> None:
    def look(plane: Plane) -> object:
        nodes = [plane.send("GET", f"api/v1/nodes/{name}").body for name in names]
        return [each["spec"].get("taints") for each in nodes]

    planes.agree("the nodes are open", look)


def _here(planes: Planes, **fields: object) -> Object:
    """Return a pod's spec that runs on the program's nodes; it takes a core."""
    asked = {"requests": {"cpu": "1"}}
    container = {"name": "main", "image": "example.invalid/main", "resources": asked}
    return pod_spec(
        containers=[container],
        nodeSelector={"home": planes.namespace},
        terminationGracePeriodSeconds=1,
        **fields,
    )


def _remove_nodes(planes: Planes) -> None:
    for plane in planes.both:
        plane.send("DELETE", f"api/v1/nodes?labelSelector=home%3D{planes.namespace}")


def _places(plane: Plane) -> list[tuple[Any, ...]]:
    return sorted(
        (
            each["metadata"]["name"],
            each["spec"].get("nodeName"),
            # KWOK's kubelet, other than a real one, ends no pod that a finalizer keeps.
            None if "deletionTimestamp" in each["metadata"] else each["status"].get("phase"),
            "deletionTimestamp" in each["metadata"],
            each["status"].get("nominatedNodeName"),
            [
                (c["type"], c["status"], c.get("reason"), c.get("message"))
                for c in each["status"].get("conditions") or ()
                if c["type"] in ("PodScheduled", "DisruptionTarget")
            ],
        )
        for each in pods_of(plane)
    )


def taints_that_evict(planes: Planes) -> None:
    """Taint a node with NoExecute: who stays, who goes, who goes later."""
    node = _node(planes, "n")
    _await_open(planes, node)
    stays = {"key": "down", "operator": "Exists"}
    for name, tolerations in (
        ("goes", []),
        ("stays", [stays]),
        ("later", [{**stays, "effect": "NoExecute", "tolerationSeconds": 4}]),
    ):
        made = pod(name)
        made["spec"] = _here(planes, tolerations=tolerations)
        made["metadata"]["annotations"] = QUICK
        made["metadata"]["finalizers"] = ["example.com/hold"]
        planes.send("POST", core(planes, "pods"), made)
    planes.agree("three are placed", _places)
    taint = [{"key": "down", "effect": "NoExecute"}]
    planes.send("PATCH", f"api/v1/nodes/{node}", {"spec": {"taints": taint}}, MERGE, only=_taints)
    planes.agree("one goes at once, one later", _places)
    _remove_nodes(planes)


def _taints(body: Any) -> object:
    return [
        {key: value for key, value in each.items() if key != "timeAdded"}
        for each in body["spec"].get("taints", ())
    ]


def preemption(planes: Planes) -> None:
    """Let an urgent pod take the room of one that is not."""
    node = _node(planes, "n")
    _await_open(planes, node)
    classes = "apis/scheduling.k8s.io/v1/priorityclasses"
    urgent = f"{planes.namespace}-urgent"
    planes.send("POST", classes, {"metadata": {"name": urgent}, "value": 1000})
    for index in range(4):
        made = pod(f"low-{index}")
        made["spec"] = _here(planes) | {"terminationGracePeriodSeconds": 30}
        made["metadata"]["annotations"] = LEAVES_SLOWLY
        planes.send("POST", core(planes, "pods"), made)
        planes.agree(f"{index + 1} are placed", _places)
    made = pod("patient")
    made["spec"] = _here(planes)
    planes.send("POST", core(planes, "pods"), made)
    planes.agree("one waits", _places)
    made = pod("urgent")
    made["metadata"]["annotations"] = QUICK
    made["spec"] = _here(planes, priorityClassName=urgent)
    planes.send("POST", core(planes, "pods"), made)

    def summary(plane: Plane) -> object:
        low = [each for each in _places(plane) if each[0].startswith("low")]
        return [
            sum(each[3] for each in low),
            sorted(repr(each[2:]) for each in low),
            [each for each in _places(plane) if not each[0].startswith("low")],
        ]

    planes.agree("a victim goes", summary)

    planes.agree("the urgent one is placed", summary)
    planes.each(lambda plane: plane.send("DELETE", f"{classes}/{urgent}"))
    _remove_nodes(planes)


def unschedulable_pods(planes: Planes) -> None:
    """Say why a pod has no node."""
    nodes = [_node(planes, "a", disk="ssd"), _node(planes, "b", disk="hdd")]
    _await_open(planes, *nodes)
    planes.send(
        "PATCH", f"api/v1/nodes/{nodes[0]}", {"spec": {"unschedulable": True}}, MERGE, only=_taints
    )
    planes.agree(
        "cordoned", lambda plane: _taints(plane.send("GET", f"api/v1/nodes/{nodes[0]}").body)
    )
    big = [
        {
            "name": "main",
            "image": "example.invalid/main",
            "resources": {"requests": {"cpu": "5"}, "limits": {"example.com/gpu": "1"}},
        }
    ]
    here = {"home": planes.namespace}
    for name, spec in (
        ("ssd", {"nodeSelector": {**here, "disk": "ssd"}}),
        ("big", {"containers": big}),
        ("nowhere", {"nodeSelector": {**here, "disk": "none"}}),
        ("gated", {"schedulingGates": [{"name": "example.com/wait"}]}),
    ):
        made = pod(name)
        made["spec"] = {**_here(planes), **spec}
        if "big" in name:
            made["spec"]["nodeSelector"] = here
        planes.send("POST", core(planes, "pods"), made)

    def reasons(plane: Plane) -> object:
        """Leave out how many nodes there are besides: each cluster has others."""
        found = []
        for each in pods_of(plane):
            for condition in each["status"].get("conditions") or ():
                text = condition.get("message", "")
                found.append(
                    [each["metadata"]["name"], condition["reason"], "nodes are available" in text]
                )
        return found

    planes.agree("reasons", reasons)
    _remove_nodes(planes)


def claims_and_volumes(planes: Planes) -> None:
    """Bind claims to volumes that somebody made: by name, by size, by class; and let them go."""
    claims, volumes = core(planes, "persistentvolumeclaims"), "api/v1/persistentvolumes"
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}

    def claim(name: str, **spec: object) -> Object:
        return {"metadata": {"name": name}, "spec": {**asked, **spec}}

    def volume(name: str, size: str, **spec: object) -> None:
        path = {"hostPath": {"path": "/tmp/x"}, "storageClassName": planes.namespace}
        fields = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"]}
        meta = {"name": f"{planes.namespace}-{name}"}
        planes.send("POST", volumes, {"metadata": meta, "spec": {**fields, **path, **spec}})

    def look(plane: Plane) -> object:
        own = (v for v in plane.items(volumes) if v["metadata"]["name"].startswith(plane.namespace))
        there = [[v["metadata"]["name"], _bound(v), v["spec"].get("claimRef")] for v in own]
        return there, [[c["metadata"]["name"], _bound(c), c["spec"]] for c in plane.items(claims)]

    planes.send("POST", claims, claim("first", storageClassName=planes.namespace))
    planes.agree("no volume", look)
    volume("small", "1Mi")
    volume("shared", "1Gi", accessModes=["ReadOnlyMany"])
    volume("other", "1Gi", storageClassName="")
    planes.agree("none that suits", look)
    volume("large", "9Gi")
    planes.agree("one that suits", look)
    volume("third", "3Gi", persistentVolumeReclaimPolicy="Retain")
    volume("second", "2Gi")
    planes.agree("two more", look)
    planes.send("POST", claims, claim("next", storageClassName=planes.namespace))
    planes.agree("the smallest", look)
    third = {"storageClassName": planes.namespace, "volumeName": f"{planes.namespace}-third"}
    planes.send("POST", claims, claim("named", **third))
    planes.send("POST", claims, claim("lost", **{**third, "volumeName": "no-such-volume"}))
    planes.agree("by its name", look)
    planes.send("DELETE", f"{claims}/named")
    planes.agree("released", look)
    planes.send("POST", claims, claim("again", storageClassName=planes.namespace))
    planes.agree("a released one is not taken", look)
    for each in ("small", "shared", "other", "large", "third", "second"):
        planes.send("DELETE", f"{volumes}/{planes.namespace}-{each}", only=_kind)


def custom_resources(planes: Planes) -> None:
    """Define a kind in two versions, create objects of it, change them, and take it away."""
    definitions = "apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    group = f"{planes.namespace}.example.com"
    place = f"apis/{group}/v1/namespaces/{planes.namespace}/widgets"

    def accepted(plane: Plane) -> object:
        body = plane.send("GET", f"{definitions}/widgets.{group}").body
        status = body.get("status") or {}
        conditions = status.get("conditions") or ()
        shown = [[each[f] for f in ("type", "status", "reason", "message")] for each in conditions]
        return sorted(shown), status.get("acceptedNames"), status.get("storedVersions")

    planes.send("POST", definitions, definition(group=group), only=_kind)
    planes.agree("accepted", accepted)
    planes.agree("served", lambda plane: plane.send("GET", place).code)
    made = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "w"}}
    parts = [{}, {"kind": "own"}]
    planes.send("POST", place, {**made, "spec": {"parts": parts}, "status": {"lost": True}})
    planes.send("POST", place, {**made, "spec": {}})
    planes.send("GET", f"{place}/w")
    planes.send("GET", f"{place}/w".replace("/v1/", "/v1beta1/"))
    planes.send("PATCH", f"{place}/w", {"spec": {"size": 7}, "status": {"lost": True}}, MERGE)
    planes.send("PATCH", f"{place}/w/status", {"spec": {"size": 8}, "status": {"a": 1}}, MERGE)
    planes.send("PUT", f"{place}/w", {**made, "spec": {"size": 1}})
    planes.send("PATCH", f"{place}/w", {"spec": {"size": 1}}, STRATEGIC)
    planes.send("PATCH", f"{place}/w?fieldManager=a", {**made, "spec": {"size": 9}}, APPLY)
    planes.send("PATCH", f"{place}/v?fieldManager=a", {**made, "metadata": {}, "spec": {}}, APPLY)
    listed = {"name": "other", "labels": {"a": "b"}}
    planes.send("POST", place, {**made, "metadata": listed, "spec": {}})
    planes.send("GET", f"{place}?labelSelector=a%3Db", only=lambda body: body["items"])
    planes.send("DELETE", f"{place}/w")
    planes.send("GET", f"{place}/missing")
    planes.send("DELETE", f"{definitions}/widgets.{group}", only=_kind)
    planes.agree("gone", lambda plane: plane.send("GET", f"{definitions}/widgets.{group}").code)
    planes.agree("not served", lambda plane: plane.send("GET", place).code)


def _kind(body: Object) -> object:
    return body["kind"]


def _bound(obj: Object) -> list[object]:
    """Return what says whether a claim or a volume is bound."""
    status, meta = obj["status"], obj["metadata"]
    annotations = sorted((meta.get("annotations") or {}).items())
    return [status.get("phase"), status.get("capacity"), status.get("accessModes"), annotations]


CLUSTER = (
    custom_resources,
    claims_and_volumes,
    disruption_budgets,
    budgets_of_workloads,
    quotas,
    limit_ranges,
    priorities,
    endpoint_slices,
    deleted_namespaces,
    taints_that_evict,
    preemption,
    unschedulable_pods,
)
