"""Furnishes new namespaces, and empties those that are being deleted."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from reactive_desched.sim.clock import parse_time
from reactive_desched.sim.controllers.controller import ANY_OTHER, Reconciler, write_conditions
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
_DONE: Final = (
    (
        "NamespaceDeletionDiscoveryFailure",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
)
"""Conditions of what cannot fail here."""

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
                self._empty(namespace)
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

    def _empty(self, namespace: Obj) -> None:
        """Delete all pods, then everything else, and say in conditions what is left."""
        name = name_of(namespace)
        left: dict[str, list[Obj]] = {}
        if not self._delete_all("pods", name):
            kinds = [kind for kind in self.store.kinds if kind.namespaced]
            for kind in kinds:
                if found := self._delete_all(kind.plural, name):
                    left[f"{kind.plural}.{kind.group}"] = found
            if not left:
                self.store.modify("namespaces", "", name, _released, subresource="finalize")
        if (current := self.store.get("namespaces", "", name)) is not None:
            write_conditions(self.store, "namespaces", current, *_conditions(left))

    def _delete_all(self, resource: str, namespace: str) -> list[Obj]:
        """Delete what there is of a kind; return what stays for a while."""
        for obj in self.store.list(resource, namespace):
            if not is_terminating(obj):
                self.store.delete(resource, *key_of(obj))
        return self.store.list(resource, namespace)


def _conditions(left: Mapping[str, Sequence[Obj]]) -> Iterator[Obj]:
    """Yield what a namespace says of its deletion, as the controller does where nothing fails."""
    kinds = sorted(f"{kind} has {len(found)} resource instances" for kind, found in left.items())
    finalizers = Counter(
        finalizer
        for found in left.values()
        for obj in found
        for finalizer in obj["metadata"].get("finalizers") or ()
    )
    holders = sorted(f"{name} in {count} resource instances" for name, count in finalizers.items())
    for kind, reason, message in _DONE:
        yield {"type": kind, "status": "False", "reason": reason, "message": message}
    for kind, (reason, message), (waits, what), parts in (
        (
            "NamespaceContentRemaining",
            ("ContentRemoved", "All content successfully removed"),
            ("SomeResourcesRemain", "Some resources are remaining"),
            kinds,
        ),
        (
            "NamespaceFinalizersRemaining",
            ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
            ("SomeFinalizersRemain", "Some content in the namespace has finalizers remaining"),
            holders,
        ),
    ):
        if parts:
            said = f"{what}: {', '.join(parts)}"
            yield {"type": kind, "status": "True", "reason": waits, "message": said}
        else:
            yield {"type": kind, "status": "False", "reason": reason, "message": message}


def _released(namespace: Obj) -> Obj:
    return {**namespace, "spec": {**namespace["spec"], "finalizers": []}}
