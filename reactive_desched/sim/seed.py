"""Creates the objects that every cluster has before the first request."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from reactive_desched.sim.objects import Obj
from reactive_desched.sim.resources import RESOURCES
from reactive_desched.sim.storage_classes import DEFAULT_CLASS
from reactive_desched.sim.store import Store

__all__ = ["seed", "seed_api_service", "seed_storage"]

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


_API_ADDRESS: Final = "10.96.0.1"
"""The first address for Services, which every cluster gives its own API server."""


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


def seed_api_service(store: Store, host: str, port: int) -> None:
    """Create the Service by which pods find the API server, and its address; nothing is drawn."""
    meta = {"name": "kubernetes", "namespace": "default"}
    served = {"name": "https", "protocol": "TCP"}
    marks = {"component": "apiserver", "provider": "kubernetes"}
    spec = {
        "clusterIP": _API_ADDRESS,
        "clusterIPs": [_API_ADDRESS],
        "ports": [{**served, "port": 443, "targetPort": port}],
    }
    service = {"metadata": {**meta, "labels": marks}, "spec": spec}
    store.create("services", service, draws_uid=False)
    ports = [{**served, "port": port}]
    unmanaged = {"endpointslice.kubernetes.io/skip-mirror": "true"}
    subset = {"addresses": [{"ip": host}], "ports": ports}
    endpoints = {"metadata": {**meta, "labels": unmanaged}, "subsets": [subset]}
    store.create("endpoints", endpoints, draws_uid=False)
    named = {"kubernetes.io/service-name": "kubernetes"}
    reached = {"addresses": [host], "conditions": {"ready": True}}
    store.create(
        "endpointslices",
        {
            "metadata": {**meta, "labels": named},
            "addressType": "IPv4",
            "ports": ports,
            "endpoints": [reached],
        },
        draws_uid=False,
    )
