"""Renews each live node's Lease, as kubelets do to show that they are there."""

from typing import Final

from reactive_desched.sim.clock import rfc3339_micro
from reactive_desched.sim.controllers.controller import Reconciler
from reactive_desched.sim.node_switch import is_down
from reactive_desched.sim.objects import Obj, name_of
from reactive_desched.sim.pods import Key
from reactive_desched.sim.store import Event, Store

__all__ = ["Heartbeats"]

_EVERY_S: Final = 10.0
_HOLDS_S: Final = 40
_NAMESPACE: Final = "kube-node-lease"


class Heartbeats(Reconciler):
    """One Lease per node, every ten seconds; nodes that are switched off fall silent."""

    watches = frozenset({"nodes"})

    def __init__(self, store: Store) -> None:
        super().__init__(store)

    def observe(self, event: Event) -> None:
        """Begin with a node as soon as it exists or is back."""
        before = event.previous
        if event.type == "ADDED" or (before is not None and is_down(before)):
            self.soon(("", name_of(event.object)))

    def reconcile(self, key: Key, now: float) -> None:
        """Renew one Lease and come back in ten seconds."""
        node = self.store.get("nodes", *key)
        if node is None or is_down(node):
            return
        self.soon(key, now + _EVERY_S)
        if self.store.get("leases", _NAMESPACE, key[1]) is None:
            self.store.create("leases", _lease(node, now))
            return

        def renewed(current: Obj) -> Obj:
            return {**current, "spec": {**current["spec"], "renewTime": rfc3339_micro(now)}}

        self.store.modify("leases", _NAMESPACE, key[1], renewed)


def _lease(node: Obj, now: float) -> Obj:
    owner = {"apiVersion": "v1", "kind": "Node", "name": name_of(node)}
    owner["uid"] = node["metadata"]["uid"]
    return {
        "metadata": {
            "name": name_of(node),
            "namespace": _NAMESPACE,
            "ownerReferences": [owner],
        },
        "spec": {
            "holderIdentity": name_of(node),
            "leaseDurationSeconds": _HOLDS_S,
            "renewTime": rfc3339_micro(now),
        },
    }
