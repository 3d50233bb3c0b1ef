"""Kubernetes objects for a real cluster whose kubelets are KWOK's: small, and quick to come up."""

from typing import Any

Object = dict[str, Any]  # a Kubernetes object as JSON

# KWOK's general stages wait up to ten seconds to look natural; tests have no use for that.
_QUICK = {
    f"{stage}.stage.kwok.x-k8s.io/{wait}": "200ms"
    for stage in ("pod-create", "pod-ready", "pod-delete")
    for wait in ("delay", "jitter-delay")
}
_RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def namespace(name: str) -> Object:
    """Return a Namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def node(name: str, **labels: str) -> Object:
    """Return a Node with room for a few small pods, which KWOK will make Ready."""
    room = {"cpu": "8", "memory": "16Gi", "pods": "50"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {"allocatable": room, "capacity": room},
    }


def deployment(
    namespace_name: str, name: str, replicas: int, *, cpu: str = "100m", **pod_spec: object
) -> Object:
    """Return a Deployment whose pods carry the label `app: name` and take `pod_spec` as is."""
    container = {
        "name": "main",
        "image": "example.invalid/nothing",
        "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}},
        "securityContext": _RESTRICTED,
    }
    spec = {
        "containers": [container],
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        **pod_spec,
    }
    template = {"metadata": {"labels": {"app": name}, "annotations": _QUICK}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"namespace": namespace_name, "name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template,
        },
    }


def stateful_set(namespace_name: str, name: str, replicas: int, **pod_spec: object) -> Object:
    """Return a StatefulSet of such pods."""
    made = deployment(namespace_name, name, replicas, cpu="100m", **pod_spec)
    return made | {"kind": "StatefulSet", "spec": made["spec"] | {"serviceName": name}}


def pod_disruption_budget(
    namespace_name: str, app: str, max_unavailable: int, name: str = ""
) -> Object:
    """Return a PodDisruptionBudget over the pods of one app; it has the app's name, or another."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"namespace": namespace_name, "name": name or app},
        "spec": {
            "maxUnavailable": max_unavailable,
            "selector": {"matchLabels": {"app": app}},
        },
    }


def requires(label: str, value: str) -> Object:
    """Return the affinity of a pod that may only be placed on nodes with this label."""
    expression = {"key": label, "operator": "In", "values": [value]}
    terms = [{"matchExpressions": [expression]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"nodeAffinity": required}


def eviction_ban(namespace_name: str, app: str) -> list[Object]:
    """Return an admission policy, with its binding, that denies evictions of one app's pods.

    It answers 422, so that a test can tell it from a missing right.
    """
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods/eviction"],
    }
    in_namespace = {"matchLabels": {"kubernetes.io/metadata.name": namespace_name}}
    allowed = {"expression": f"!request.name.startsWith('{app}-')", "reason": "Invalid"}
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": namespace_name}}
    policy = {
        "matchConstraints": {"resourceRules": [rule], "namespaceSelector": in_namespace},
        "validations": [{**allowed, "message": f"{app} is not to be evicted"}],
    }
    binding = {"policyName": namespace_name, "validationActions": ["Deny"]}
    return [
        {**head, "kind": "ValidatingAdmissionPolicy", "spec": policy},
        {**head, "kind": "ValidatingAdmissionPolicyBinding", "spec": binding},
    ]
