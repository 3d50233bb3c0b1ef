"""The defaults of every kind but pods, applied in place to an object about to be stored."""

import base64
from collections.abc import Callable, Mapping
from types import MappingProxyType

from reactive_desched.sim.objects import Obj, clone, name_of
from reactive_desched.sim.pod_defaults import (
    fill_pod_spec,
    fill_requests,
    fill_tolerations,
    qos_class,
)
from reactive_desched.sim.resources import Resource

__all__ = [
    "BOUND",
    "CLEAN_UP",
    "IN_USE",
    "TEMPLATE_GENERATION",
    "apply_create_defaults",
    "apply_defaults",
]

_NOT_READY = "node.kubernetes.io/not-ready"
IN_USE = "kubernetes.io/pvc-protection"
"""The finalizer that keeps a claim while a pod uses it."""
CLEAN_UP = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer that keeps a definition while there are objects of its kind."""
BOUND = "kubernetes.io/pv-protection"
"""The finalizer that keeps a volume while a claim has it."""
_NO_LIMIT = 2**31 - 1
TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
"""The annotation that counts the templates of a DaemonSet."""
_FIRST_COUNTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "replicasets": ("replicas",),
        "replicationcontrollers": ("replicas",),
        "statefulsets": ("replicas", "availableReplicas"),
        "daemonsets": (
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
        ),
        "poddisruptionbudgets": (
            "currentHealthy",
            "desiredHealthy",
            "disruptionsAllowed",
            "expectedPods",
        ),
    }
)


def apply_defaults(kind: Resource, obj: Obj) -> None:
    """Fill in what every write fills in; the object is the caller's own copy."""
    obj["apiVersion"], obj["kind"] = kind.api_version, kind.kind
    if fill := _EVERY_WRITE.get(kind.plural):
        fill(obj)


def apply_create_defaults(kind: Resource, obj: Obj) -> None:
    """Fill in what only a create fills in: the first status, and what admission adds."""
    if kind.is_custom and kind.has_status:
        obj.pop("status", None)
    elif kind.has_status and kind.plural != "nodes":
        obj["status"] = dict.fromkeys(_FIRST_COUNTS.get(kind.plural, ()), 0)
    if fill := _ON_CREATE.get(kind.plural):
        fill(obj)


def _pod(pod: Obj) -> None:
    spec = pod.setdefault("spec", {})
    if not spec.get("schedulingGates", True):
        del spec["schedulingGates"]
    fill_pod_spec(spec)
    fill_requests(spec)


def _new_pod(pod: Obj) -> None:
    spec = pod.setdefault("spec", {})
    for field, value in (("serviceAccountName", "default"), ("enableServiceLinks", True)):
        spec.setdefault(field, value)
    spec["serviceAccount"] = spec["serviceAccountName"]
    if not spec.get("nodeName", True):
        del spec["nodeName"]
    fill_tolerations(spec)
    pod["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}
    if spec.get("schedulingGates"):
        pod["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "lastProbeTime": None,
                "lastTransitionTime": pod["metadata"]["creationTimestamp"],
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]


def _node(node: Obj) -> None:
    node.setdefault("spec", {})
    status = node.setdefault("status", {})
    if status.get("capacity"):
        status.setdefault("allocatable", clone(status["capacity"]))
    if not node["spec"].get("unschedulable", True):
        del node["spec"]["unschedulable"]


def _new_node(node: Obj) -> None:
    """Taint a node until it is ready; one created ready skips the taint it would lose at once."""
    conditions = node.get("status", {}).get("conditions") or ()
    ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
    taints = node.setdefault("spec", {}).setdefault("taints", [])
    if not ready and not any(taint.get("key") == _NOT_READY for taint in taints):
        taints.append({"key": _NOT_READY, "effect": "NoSchedule"})
    if not taints:
        del node["spec"]["taints"]


def _namespace(namespace: Obj) -> None:
    namespace.setdefault("spec", {})
    labels = namespace["metadata"].setdefault("labels", {})
    labels["kubernetes.io/metadata.name"] = name_of(namespace)


def _new_namespace(namespace: Obj) -> None:
    namespace["spec"] = {"finalizers": ["kubernetes"]}
    namespace["status"] = {"phase": "Active"}


def _template(obj: Obj) -> Obj:
    spec: Obj = obj.setdefault("spec", {})
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    fill_pod_spec(template.setdefault("spec", {}))
    return spec


def _deployment(obj: Obj) -> None:
    spec = _template(obj)
    _fill(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        _fill(strategy.setdefault("rollingUpdate", {}), maxUnavailable="25%", maxSurge="25%")


def _replica_set(obj: Obj) -> None:
    _fill(_template(obj), replicas=1)


def _replication_controller(obj: Obj) -> None:
    spec = _template(obj)
    labels = spec["template"]["metadata"].get("labels") or {}
    _fill(spec, replicas=1, selector=dict(labels))


def _stateful_set(obj: Obj) -> None:
    spec = _template(obj)
    _fill(spec, replicas=1, podManagementPolicy="OrderedReady", revisionHistoryLimit=10)
    for claim in spec.get("volumeClaimTemplates") or ():
        _claim(claim)
        _fill(claim, apiVersion="v1", kind="PersistentVolumeClaim", status={"phase": "Pending"})
    retained = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    _fill(retained, whenDeleted="Retain", whenScaled="Retain")
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {"partition": 0})


def _daemon_set(obj: Obj) -> None:
    spec = _template(obj)
    _fill(spec, revisionHistoryLimit=10)
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        _fill(strategy.setdefault("rollingUpdate", {}), maxUnavailable=1, maxSurge=0)


def _new_daemon_set(obj: Obj) -> None:
    obj["metadata"].setdefault("annotations", {}).setdefault(TEMPLATE_GENERATION, "1")


def _job(obj: Obj) -> None:
    spec = _template(obj)
    _fill_job(spec)
    labels = spec["template"]["metadata"].get("labels")
    if labels and not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = dict(labels)


def _fill_job(spec: Obj) -> None:
    is_limited_by_index = spec.get("backoffLimitPerIndex") is not None
    _fill(spec, backoffLimit=_NO_LIMIT if is_limited_by_index else 6)
    _fill(spec, completionMode="NonIndexed", suspend=False)
    by_policy = spec.get("podFailurePolicy") is not None
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern.setdefault("status", "True")
    spec.setdefault("podReplacementPolicy", "Failed" if by_policy else "TerminatingOrFailed")
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)


def _new_job(job: Obj) -> None:
    """Select the job's own pods by its uid, unless the author manages the selector."""
    spec = job.setdefault("spec", {})
    if spec.setdefault("manualSelector", False) or "selector" in spec:
        return
    uid = job["metadata"]["uid"]
    labels = spec.setdefault("template", {}).setdefault("metadata", {}).setdefault("labels", {})
    labels["batch.kubernetes.io/controller-uid"] = uid
    labels["batch.kubernetes.io/job-name"] = name_of(job)
    labels["controller-uid"], labels["job-name"] = uid, name_of(job)
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}


def _cron_job(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    _fill(spec, concurrencyPolicy="Allow", suspend=False)
    _fill(spec, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1)
    made = spec.setdefault("jobTemplate", {})
    made.setdefault("metadata", {})
    _template(made)


def _service(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    _fill(spec, type="ClusterIP", sessionAffinity="None")
    if spec["type"] != "ExternalName":
        _fill(spec, internalTrafficPolicy="Cluster")
    for port in spec.get("ports", ()):
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))
    if address := spec.get("clusterIP"):
        spec.setdefault("clusterIPs", [address])
    if spec["type"] != "ExternalName":
        is_dual = spec.get("clusterIP") == "None" and not spec.get("selector")
        families = ["IPv4", "IPv6"] if is_dual else ["IPv4"]
        _fill(spec, ipFamilies=families)
        _fill(spec, ipFamilyPolicy="RequireDualStack" if is_dual else "SingleStack")


def _new_service(service: Obj) -> None:
    """Say of a Service, or an Ingress, that nothing balances load for it."""
    service["status"] = {"loadBalancer": {}}


def _autoscaler(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    share = {"type": "Utilization", "averageUtilization": 80}
    by_cpu = {"type": "Resource", "resource": {"name": "cpu", "target": share}}
    _fill(spec, minReplicas=1)
    if not spec.get("metrics"):
        spec["metrics"] = [by_cpu]
    if (behavior := spec.get("behavior")) is not None:
        for way, window in (("scaleUp", {"stabilizationWindowSeconds": 0}), ("scaleDown", {})):
            doubled = {"type": "Percent", "value": 100, "periodSeconds": 15}
            least = {"type": "Pods", "value": 4, "periodSeconds": 15}
            rules = behavior[way] = behavior.get(way) or {}
            _fill(rules, selectPolicy="Max", **window)
            if rules.get("policies") is None:
                rules["policies"] = [least, doubled] if way == "scaleUp" else [doubled]


def _new_autoscaler(obj: Obj) -> None:
    obj["status"] = {"currentMetrics": None, "desiredReplicas": 0}


def _claim(obj: Obj) -> None:
    _fill(obj.setdefault("spec", {}), volumeMode="Filesystem")


def _volume(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    _fill(spec, persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem")
    if not spec.get("storageClassName"):
        spec.pop("storageClassName", None)
    if spec.get("hostPath"):
        _fill(spec["hostPath"], type="")


def _definition(obj: Obj) -> None:
    names = obj["spec"].setdefault("names", {})
    if kind := str(names.get("kind", "")):
        _fill(names, singular=kind.lower(), listKind=f"{kind}List")
    _fill(obj["spec"], conversion={"strategy": "None"})


def _new_definition(obj: Obj) -> None:
    obj["metadata"]["finalizers"] = [*obj["metadata"].get("finalizers", ()), CLEAN_UP]


def _new_volume(obj: Obj) -> None:
    obj["status"] = {
        "phase": "Pending",
        "lastPhaseTransitionTime": obj["metadata"]["creationTimestamp"],
    }
    obj["metadata"]["finalizers"] = [*obj["metadata"].get("finalizers", ()), BOUND]


def _new_claim(obj: Obj) -> None:
    obj["status"] = {"phase": "Pending"}
    finalizers = obj["metadata"].setdefault("finalizers", [])
    if IN_USE not in finalizers:
        finalizers.append(IN_USE)


def _limit_range(obj: Obj) -> None:
    """Take the most for the default limit, that for the default request, and else the least."""
    for item in obj.get("spec", {}).get("limits") or ():
        if item.get("type") == "Container":
            limits = {**(item.get("max") or {}), **(item.get("default") or {})}
            requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
            item.update({"default": limits} if limits else {})
            item.update({"defaultRequest": requests} if requests else {})


def _priority_class(obj: Obj) -> None:
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")
    obj.setdefault("value", 0)


def _binding(obj: Obj) -> None:
    """Say which group a role and its subjects belong to, as clients may leave it out."""
    group = obj["apiVersion"].partition("/")[0]
    if obj.get("roleRef"):
        obj["roleRef"].setdefault("apiGroup", group)
    for subject in obj.get("subjects") or ():
        subject.setdefault("apiGroup", "" if subject.get("kind") == "ServiceAccount" else group)
        if not subject["apiGroup"]:
            del subject["apiGroup"]


def _network_policy(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("podSelector", {})
    spec.setdefault("policyTypes", ["Ingress", *(["Egress"] if spec.get("egress") else [])])
    for rule in (*(spec.get("ingress") or ()), *(spec.get("egress") or ())):
        for port in rule.get("ports") or ():
            port.setdefault("protocol", "TCP")


def _config_map(obj: Obj) -> None:
    """Leave out what is empty."""
    for field in ("data", "binaryData"):
        if not obj.get(field, True):
            del obj[field]


def _secret(obj: Obj) -> None:
    """Keep what was written as plain text where the rest is, in base64."""
    obj.setdefault("type", "Opaque")
    for key, value in (obj.pop("stringData", None) or {}).items():
        obj.setdefault("data", {})[key] = base64.b64encode(value.encode()).decode()


def _fill(target: Obj, **defaults: object) -> None:
    for field, value in defaults.items():
        target.setdefault(field, value)


_EVERY_WRITE: Mapping[str, Callable[[Obj], None]] = MappingProxyType(
    {
        "pods": _pod,
        "nodes": _node,
        "namespaces": _namespace,
        "deployments": _deployment,
        "replicasets": _replica_set,
        "replicationcontrollers": _replication_controller,
        "statefulsets": _stateful_set,
        "daemonsets": _daemon_set,
        "jobs": _job,
        "cronjobs": _cron_job,
        "services": _service,
        "horizontalpodautoscalers": _autoscaler,
        "persistentvolumeclaims": _claim,
        "persistentvolumes": _volume,
        "customresourcedefinitions": _definition,
        "limitranges": _limit_range,
        "priorityclasses": _priority_class,
        "secrets": _secret,
        "configmaps": _config_map,
        "networkpolicies": _network_policy,
        "rolebindings": _binding,
        "clusterrolebindings": _binding,
    }
)
_ON_CREATE: Mapping[str, Callable[[Obj], None]] = MappingProxyType(
    {
        "pods": _new_pod,
        "nodes": _new_node,
        "namespaces": _new_namespace,
        "jobs": _new_job,
        "daemonsets": _new_daemon_set,
        "services": _new_service,
        "ingresses": _new_service,
        "horizontalpodautoscalers": _new_autoscaler,
        "persistentvolumeclaims": _new_claim,
        "persistentvolumes": _new_volume,
        "customresourcedefinitions": _new_definition,
    }
)
