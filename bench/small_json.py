"""The resources a cluster has few of: namespaces, priority classes, budgets, claims, volumes."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from bench.render import Obj
from bench.workloads import Workload, uid_text

CSI_DRIVER = "ebs.csi.aws.com"
PodName = Callable[[Workload, int], str]
Name = tuple[str, str, Workload | None]
"""Namespace (empty for cluster-wide objects), name, and the owner it concerns."""


@dataclass(frozen=True)
class SmallKind:
    """One such resource: its items in the order of their keys."""

    resource: str
    kind: str
    api: str
    names: Callable[[Sequence[Workload], PodName], Iterable[Name]]
    body: Callable[[Name], Obj]

    def render(self, name: Name) -> bytes:
        """Return one object as JSON."""
        namespace, own_name, _ = name
        key = f"{self.kind}/{namespace}/{own_name}"
        digest = hashlib.blake2b(key.encode(), digest_size=16)
        metadata: Obj = {
            "name": own_name,
            "uid": uid_text(digest.hexdigest()),
            "resourceVersion": "900000000",
            "creationTimestamp": "2025-10-09T08:53:20Z",
            "labels": {"app.kubernetes.io/managed-by": "platform"},
        }
        if namespace:
            metadata["namespace"] = namespace
        return msgspec.json.encode({"metadata": metadata} | self.body(name))


def _namespaces(owners: Sequence[Workload], _: PodName) -> Iterable[Name]:
    return [("", name, None) for name in sorted({owner.namespace for owner in owners})]


def _classes(_: Sequence[Workload], __: PodName) -> Iterable[Name]:
    names = ("business-critical", "system-cluster-critical", "system-node-critical")
    return [("", name, None) for name in names]


def _budgets(owners: Sequence[Workload], _: PodName) -> Iterable[Name]:
    guarded = [owner for owner in owners if owner.has_budget]
    return sorted(
        ((owner.namespace, owner.app, owner) for owner in guarded), key=lambda row: row[:2]
    )


def _claims(owners: Sequence[Workload], pod_name: PodName) -> Iterable[Name]:
    rows = [
        (owner.namespace, f"data-{pod_name(owner, ordinal)}", owner)
        for owner in owners
        if owner.kind == "StatefulSet"
        for ordinal in range(owner.size)
    ]
    return sorted(rows, key=lambda row: row[:2])


def _volumes(owners: Sequence[Workload], pod_name: PodName) -> Iterable[Name]:
    claims = _claims(owners, pod_name)
    return sorted(("", _volume_of(space, name), owner) for space, name, owner in claims)


def _volume_of(namespace: str, claim: str) -> str:
    digest = hashlib.blake2b(f"{namespace}/{claim}".encode(), digest_size=16)
    return f"pvc-{uid_text(digest.hexdigest())}"


def _namespace(_: Name) -> Obj:
    return {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}


def _class(name: Name) -> Obj:
    value = 1000 if name[1] == "business-critical" else 2_000_000_000
    return {"value": value, "preemptionPolicy": "PreemptLowerPriority"}


def _budget(name: Name) -> Obj:
    _, app, owner = name
    size = owner.size if owner else 0
    allowed = max(1, size // 4)
    return {
        "spec": {
            "maxUnavailable": allowed,
            "selector": {"matchLabels": {"app.kubernetes.io/instance": app}},
        },
        "status": {
            "observedGeneration": 1,
            "currentHealthy": size,
            "desiredHealthy": size - allowed,
            "expectedPods": size,
            "disruptionsAllowed": allowed,
        },
    }


def _claim(name: Name) -> Obj:
    size = {"storage": "20Gi"}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": size},
        "storageClassName": "gp3",
        "volumeMode": "Filesystem",
        "volumeName": _volume_of(name[0], name[1]),
    }
    return {"spec": spec, "status": {"phase": "Bound", "capacity": size}}


def _volume(name: Name) -> Obj:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "20Gi"},
        "csi": {"driver": CSI_DRIVER, "fsType": "ext4", "volumeHandle": f"vol-{name[1][-12:]}"},
        "persistentVolumeReclaimPolicy": "Delete",
        "storageClassName": "gp3",
        "volumeMode": "Filesystem",
    }
    return {"spec": spec, "status": {"phase": "Bound"}}


SMALL_KINDS = (
    SmallKind("namespaces", "Namespace", "v1", _namespaces, _namespace),
    SmallKind("priorityclasses", "PriorityClass", "scheduling.k8s.io/v1", _classes, _class),
    SmallKind("poddisruptionbudgets", "PodDisruptionBudget", "policy/v1", _budgets, _budget),
    SmallKind("persistentvolumeclaims", "PersistentVolumeClaim", "v1", _claims, _claim),
    SmallKind("persistentvolumes", "PersistentVolume", "v1", _volumes, _volume),
)
