"""Furnishes new namespaces, and empties those that are being deleted."""

from typing import Final

from reactive_desched.sim.clock import parse_time
from reactive_desched.sim.controllers.controller import ANY_OTHER, Reconciler
from reactive_desched.sim.objects import Obj, name_of, namespace_of
from reactive_desched.sim.pods import Key, is_terminating, key_of
from reactive_desched.sim.resources import RESOURCES
from reactive_desched.sim.store import Event, Store

__all__ = ["GRACE_S", "ROOT_CA", "Namespaces"]

GRACE_S: Final = 5.0
"""The namespace controller leaves a deleted namespace alone for so long.

So `kubectl delete -k` still finds the objects in it, which it deletes after the namespace.
"""

ROOT_CA: Final = "kube-root-ca.crt"
"""The ConfigMap with which pods trust the API server, in every namespace."""

_CERTIFICATE: Final = "# The simulated API server speaks plain HTTP: there is no certificate.\n"
_NAMESPACED: Final = tuple(kind.plural for kind in RESOURCES.values() if kind.namespaced)


class Namespaces(Reconciler):
    """The namespace controller, and those that give each namespace account and certificate."""

    watches = frozenset({"namespaces", *_NAMESPACED, ANY_OTHER})

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._ending: set[str] = set()

    def observe(self, event: Event) -> None:
        """Look at a namespace when it changes, or when something left it that it needs or held."""
        if event.resource != "namespaces":
            is_needed = event.resource == "configmaps" and name_of(event.object) == ROOT_CA
            home = namespace_of(event.object)
            if event.type == "DELETED" and (is_needed or home in self._ending):
                self.soon(("", home))
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
        else:
            self._furnish(key[1])

    def _furnish(self, name: str) -> None:
        if self.store.get("serviceaccounts", name, "default") is None:
            account = {"metadata": {"name": "default", "namespace": name}}
            self.store.create("serviceaccounts", account)
        if self.store.get("configmaps", name, ROOT_CA) is None:
            meta = {"name": ROOT_CA, "namespace": name}
            made = {"metadata": meta, "data": {"ca.crt": _CERTIFICATE}}
            self.store.create("configmaps", made, draws_uid=False)

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
