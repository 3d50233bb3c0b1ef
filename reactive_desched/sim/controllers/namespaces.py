"""Furnishes new namespaces, and empties those that are being deleted."""

from typing import Final

from reactive_desched.sim.clock import parse_time
from reactive_desched.sim.controllers.controller import ANY_OTHER, Reconciler
from reactive_desched.sim.objects import Obj, name_of, namespace_of
from reactive_desched.sim.pods import Key, is_terminating, key_of
from reactive_desched.sim.resources import RESOURCES
from reactive_desched.sim.store import Event, Store

__all__ = ["GRACE_S", "Namespaces"]

GRACE_S: Final = 5.0
"""The namespace controller leaves a deleted namespace alone for so long.

So `kubectl delete -k` still finds the objects in it, which it deletes after the namespace.
"""

_NAMESPACED: Final = tuple(kind.plural for kind in RESOURCES.values() if kind.namespaced)


class Namespaces(Reconciler):
    """The namespace controller and the one that gives each namespace its service account."""

    watches = frozenset({"namespaces", *_NAMESPACED, ANY_OTHER})

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._ending: set[str] = set()

    def observe(self, event: Event) -> None:
        """Look at a namespace when it changes, or when it is ending and something left it."""
        if event.resource != "namespaces":
            if event.type == "DELETED" and namespace_of(event.object) in self._ending:
                self.soon(("", namespace_of(event.object)))
            return
        name = name_of(event.object)
        if event.type == "DELETED":
            self._ending.discard(name)
            return
        if is_terminating(event.object):
            self._ending.add(name)
        self.soon(("", name))

    def reconcile(self, key: Key, now: float) -> None:
        """Give a living namespace what it needs; take a dying one apart."""
        namespace = self.store.get("namespaces", *key)
        if namespace is None:
            return
        if is_terminating(namespace):
            begins_at = parse_time(namespace["metadata"]["deletionTimestamp"]) + GRACE_S
            if begins_at > now:
                self.soon(key, begins_at)
            else:
                self._empty(key[1])
        elif self.store.get("serviceaccounts", key[1], "default") is None:
            account = {"metadata": {"name": "default", "namespace": key[1]}}
            self.store.create("serviceaccounts", account)

    def _empty(self, name: str) -> None:
        namespaced = [kind.plural for kind in self.store.kinds if kind.namespaced]
        for resource in namespaced:
            for obj in self.store.list(resource, name):
                if not is_terminating(obj):
                    self.store.delete(resource, *key_of(obj))
        if not any(self.store.list(resource, name) for resource in namespaced):
            self.store.modify("namespaces", "", name, _released, subresource="finalize")


def _released(namespace: Obj) -> Obj:
    return {**namespace, "spec": {**namespace["spec"], "finalizers": []}}
