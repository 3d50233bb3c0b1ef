"""What every cluster holds before anybody has created anything."""

from reactive_desched.sim.store import Store

__all__ = ["seed"]

_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_SYSTEM_CLASSES = (
    ("system-cluster-critical", 2_000_000_000),
    ("system-node-critical", 2_000_001_000),
)


def seed(store: Store) -> None:
    """Create the namespaces, their default service accounts and the system priority classes."""
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
