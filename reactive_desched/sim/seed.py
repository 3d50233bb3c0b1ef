"""Creates the objects that every cluster has before the first request."""

from collections.abc import Mapping
from types import MappingProxyType

from reactive_desched.sim.objects import Obj
from reactive_desched.sim.resources import RESOURCES
from reactive_desched.sim.storage_classes import DEFAULT_CLASS
from reactive_desched.sim.store import Store

__all__ = ["seed", "seed_storage"]

_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_SYSTEM_CLASSES = (
    ("system-cluster-critical", 2_000_000_000),
    ("system-node-critical", 2_000_001_000),
)


_RBAC = RESOURCES["roles"].group
_BASIC_REVIEWS = ("selfsubjectaccessreviews", "selfsubjectrulesreviews")
_PUBLIC_URLS = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_DISCOVERY_URLS = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", *_PUBLIC_URLS)
_ROLES: Mapping[str, tuple[str, list[Obj]]] = MappingProxyType(
    {
        "cluster-admin": (
            "system:masters",
            [
                {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
                {"verbs": ["*"], "nonResourceURLs": ["*"]},
            ],
        ),
        "system:basic-user": (
            "system:authenticated",
            [
                {
                    "verbs": ["create"],
                    "apiGroups": ["authorization.k8s.io"],
                    "resources": list(_BASIC_REVIEWS),
                },
                {
                    "verbs": ["create"],
                    "apiGroups": ["authentication.k8s.io"],
                    "resources": ["selfsubjectreviews"],
                },
            ],
        ),
        "system:discovery": (
            "system:authenticated",
            [{"verbs": ["get"], "nonResourceURLs": list(_DISCOVERY_URLS)}],
        ),
    }
)
"""Roles that every cluster has, the group that each is bound to, and what it allows."""


_STORAGE: Obj = {
    "metadata": {"name": "standard", "annotations": {DEFAULT_CLASS: "true"}},
    "provisioner": "sim.reactive-desched/disk",
    "reclaimPolicy": "Delete",
    "volumeBindingMode": "WaitForFirstConsumer",
}
"""The storage class of claims that name none, as the one of kind: with the first pod of a claim."""


def seed(store: Store) -> None:
    """Create what every cluster has: namespaces, system priority classes, the first roles."""
    for name in _NAMESPACES:
        store.create("namespaces", {"metadata": {"name": name}})
        store.create("serviceaccounts", {"metadata": {"name": "default", "namespace": name}})
    for name, value in _SYSTEM_CLASSES:
        store.create(
            "priorityclasses",
            {
                "metadata": {"name": name},
                "value": value,
                "description": "Used for system critical pods.",
            },
        )
    for name, (group, rules) in _ROLES.items():
        store.create("clusterroles", {"metadata": {"name": name}, "rules": rules})
        role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name}
        subject = {"apiGroup": _RBAC, "kind": "Group", "name": group}
        store.create(
            "clusterrolebindings",
            {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]},
        )


def seed_storage(store: Store) -> None:
    """Create the storage class of claims that name none, as kind does."""
    store.create("storageclasses", _STORAGE)
