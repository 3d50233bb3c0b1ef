"""Pods as an API server shows them: about 10 KB, most of it shared with their siblings."""

from dataclasses import dataclass

from bench.pod_status import (
    PROXY_RESOURCES,
    image_of,
    pod_status,
    resources_of,
    sha256,
    sidecar_of,
    time_at,
)
from bench.render import Obj, Template, managed_fields, mark
from bench.workloads import Workload

FIELDS = (
    "name",
    "uid",
    "version",
    "minute",
    "node",
    "host_ip",
    "pod_ip",
    "token",
    "container_a",
    "container_b",
    "restarts",
    "ready",
    "ready_since",
    "ordinal",
)
"""What differs between the pods of one workload, in the order of `PodValues.row`."""

PROBE_TAINT = "bench.example.com/probe"
"""Tolerated by every pod but the canary."""
FLAP_TAINT = "bench.example.com/flap"
"""Tolerated by every pod: it makes work and no finding."""
DEDICATED_TAINT = "example.com/dedicated"

_SELF = "metadata.name"


@dataclass(frozen=True, slots=True)
class PodValues:
    """The fields of one pod that its template leaves open."""

    name: str
    uid: str
    version: int
    minute: str
    node: str
    host_ip: str
    pod_ip: str
    token: str
    container_a: str
    container_b: str
    restarts: int
    ready: bool
    ready_since: str
    ordinal: int

    def row(self) -> tuple[bytes, ...]:
        """Return the values as bytes in the order of `FIELDS`."""
        ready = "True" if self.ready else "False"
        text = (
            f"{self.name} {self.uid} {self.version} {self.minute} {self.node} {self.host_ip}"
            f" {self.pod_ip} {self.token} {self.container_a} {self.container_b}"
            f" {self.restarts} {ready} {self.ready_since} {self.ordinal}"
        )
        return tuple(text.encode().split(b" "))


def pod_template(owner: Workload) -> Template:
    """Compile the pod that the owner would create."""
    metadata, spec, status = _metadata(owner), _spec(owner), pod_status(owner)
    metadata["managedFields"] = _managed_fields(metadata, spec, status)
    return Template({"metadata": metadata, "spec": spec, "status": status}, FIELDS)


def _metadata(owner: Workload) -> Obj:
    return {
        "name": mark("name"),
        "generateName": f"{owner.name}-",
        "namespace": owner.namespace,
        "uid": mark("uid"),
        "resourceVersion": mark("version"),
        "generation": 1,
        "creationTimestamp": time_at(0),
        "labels": pod_labels(owner),
        "annotations": {"checksum/config": sha256(owner.app), "prometheus.io/scrape": "true"},
        "ownerReferences": [
            {
                "apiVersion": "batch/v1" if owner.kind == "Job" else "apps/v1",
                "kind": owner.kind,
                "name": owner.name,
                "uid": owner.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }


def pod_labels(owner: Workload) -> dict[str, str]:
    """Return the labels that the owner gives its pods."""
    labels = {
        "app.kubernetes.io/instance": owner.app,
        "app.kubernetes.io/name": owner.app.rpartition("-")[0],
        "app.kubernetes.io/version": f"v1.{owner.number % 40}.{owner.number % 7}",
        "team": owner.namespace,
    }
    match owner.kind:
        case "ReplicaSet":
            labels["pod-template-hash"] = owner.template_hash
        case "Job":
            labels["batch.kubernetes.io/controller-uid"] = owner.uid
        case "StatefulSet":
            labels["apps.kubernetes.io/pod-index"] = mark("ordinal")
            labels["controller-revision-hash"] = owner.template_hash
            labels["statefulset.kubernetes.io/pod-name"] = mark("name")
        case _:
            labels["controller-revision-hash"] = owner.template_hash
    return dict(sorted(labels.items()))


def _spec(owner: Workload) -> Obj:
    spec: Obj = {
        "volumes": _volumes(owner),
        "containers": [_app(owner), _proxy(owner)],
        "restartPolicy": "OnFailure" if owner.kind == "Job" else "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": owner.app,
        "serviceAccount": owner.app,
        "nodeName": mark("node"),
        "securityContext": {"fsGroup": 2000, "seccompProfile": {"type": "RuntimeDefault"}},
        "affinity": _affinity(owner),
        "schedulerName": "default-scheduler",
        "tolerations": _tolerations(owner),
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    if owner.number % 5 == 0:
        spec |= {"priorityClassName": "business-critical", "priority": 1000}
    if owner.is_spread:
        spec["topologySpreadConstraints"] = _spread(owner)
    return spec


def _volumes(owner: Workload) -> list[Obj]:
    claim = {"persistentVolumeClaim": {"claimName": f"data-{mark('name')}"}}
    token = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {
            "configMap": {
                "name": "kube-root-ca.crt",
                "items": [{"key": "ca.crt", "path": "ca.crt"}],
            }
        },
        {
            "downwardAPI": {
                "items": [{"path": "namespace", "fieldRef": _field("metadata.namespace")}]
            }
        },
    ]
    return [
        {"name": "config", "configMap": {"name": f"{owner.app}-config", "defaultMode": 420}},
        {"name": "data"} | (claim if owner.kind == "StatefulSet" else _data(owner)),
        {"name": _token(), "projected": {"sources": token, "defaultMode": 420}},
    ]


def _data(owner: Workload) -> Obj:
    return {"emptyDir": {}} if owner.has_local_storage else {"secret": {"secretName": owner.app}}


def _token() -> str:
    return f"kube-api-access-{mark('token')}"


def _field(path: str) -> Obj:
    return {"apiVersion": "v1", "fieldPath": path}


def _token_mount() -> Obj:
    path = "/var/run/secrets/kubernetes.io/serviceaccount"
    return {"name": _token(), "readOnly": True, "mountPath": path}


def _probe(path: str) -> Obj:
    return {
        "httpGet": {"path": path, "port": 8080, "scheme": "HTTP"},
        "initialDelaySeconds": 10,
        "timeoutSeconds": 2,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }


def _app(owner: Workload) -> Obj:
    return _container("app", image_of(owner), resources_of(owner)) | {
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": [*_env(), *_settings(owner)],
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/app"},
            {"name": "data", "mountPath": "/var/lib/app"},
            _token_mount(),
        ],
        "livenessProbe": _probe("/healthz"),
        "readinessProbe": _probe("/readyz"),
        "securityContext": {
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
        },
    }


def _proxy(owner: Workload) -> Obj:
    return _container("proxy", sidecar_of(owner), PROXY_RESOURCES) | {
        "ports": [{"name": "http-envoy", "containerPort": 15090, "protocol": "TCP"}],
        "env": _env(),
        "volumeMounts": [_token_mount()],
    }


def _container(name: str, image: str, resources: Obj) -> Obj:
    return {
        "name": name,
        "image": image,
        "resources": resources,
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


def _env() -> list[Obj]:
    return [{"name": "POD_NAME", "valueFrom": {"fieldRef": _field(_SELF)}}]


def _settings(owner: Workload) -> list[Obj]:
    prefix = owner.app.partition("-")[0].upper()
    secret = {"name": f"{owner.app}-db", "key": "url"}
    return [
        {"name": "DATABASE_URL", "valueFrom": {"secretKeyRef": secret}},
        {"name": f"{prefix}_LOG_LEVEL", "value": "info"},
        {"name": f"{prefix}_OTEL_ENDPOINT", "value": "http://otel-collector:4317"},
    ]


def _tolerations(owner: Workload) -> list[Obj]:
    if owner.kind == "DaemonSet":
        return [{"operator": "Exists"}]
    keys = [FLAP_TAINT] if owner.is_canary else [FLAP_TAINT, PROBE_TAINT]
    if owner.is_dedicated:
        keys.append(DEDICATED_TAINT)
    default_tolerations = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    return [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in keys] + [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in default_tolerations
    ]


def _affinity(owner: Workload) -> Obj:
    if owner.kind == "DaemonSet":
        own = {"key": _SELF, "operator": "In", "values": [mark("node")]}
        return {"nodeAffinity": _required({"matchFields": [own]})}
    arch = {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}
    pool = {"key": "example.com/pool", "operator": "NotIn", "values": ["system", "batch"]}
    affinity: Obj = {"nodeAffinity": _required({"matchExpressions": [arch, pool]})}
    if owner.has_anti_affinity:
        term = {"labelSelector": _selector(owner), "topologyKey": "kubernetes.io/hostname"}
        wish = {"weight": 100, "podAffinityTerm": term}
        affinity["podAntiAffinity"] = (
            {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            if owner.has_required_anti_affinity
            else {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}
        )
    return affinity


def _required(term: Obj) -> Obj:
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}


def _selector(owner: Workload) -> Obj:
    return {"matchLabels": {"app.kubernetes.io/instance": owner.app}}


def _spread(owner: Workload) -> list[Obj]:
    rows = (
        (1, "topology.kubernetes.io/zone", "DoNotSchedule"),
        (2, "kubernetes.io/hostname", "ScheduleAnyway"),
    )
    return [
        {
            "maxSkew": skew,
            "topologyKey": key,
            "whenUnsatisfiable": otherwise,
            "labelSelector": _selector(owner),
        }
        for skew, key, otherwise in rows
    ]


_SET_BY_SERVER = ("nodeName", "tolerations", "priority", "priorityClassName", "preemptionPolicy")


def _managed_fields(metadata: Obj, spec: Obj, status: Obj) -> list[Obj]:
    named = ("generateName", "labels", "annotations", "ownerReferences")
    created = {"metadata": {name: metadata[name] for name in named}, "spec": _as_applied(spec)}
    reported = {name: value for name, value in status.items() if name != "qosClass"}
    common = {"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    return [
        {"manager": "kube-controller-manager", "time": time_at(0)}
        | common
        | {"fieldsV1": managed_fields(created)},
        {"manager": "kubelet", "time": time_at(20), "subresource": "status"}
        | common
        | {"fieldsV1": managed_fields({"status": reported | {"containerStatuses": 0}})},
    ]


def applied_spec(owner: Workload) -> Obj:
    """Return what the owner's template says of a pod, without what the server adds."""
    return _as_applied(_spec(owner))


def _as_applied(spec: Obj) -> Obj:
    written = {name: value for name, value in spec.items() if name not in _SET_BY_SERVER}
    written["volumes"] = spec["volumes"][:2]
    written["containers"] = [_without_token(container) for container in spec["containers"]]
    return written


def _without_token(container: Obj) -> Obj:
    own = [mount for mount in container["volumeMounts"] if mount["name"] in ("config", "data")]
    return container | {"volumeMounts": own}
