"""Deletes what its owners left behind, and holds owners back while they wait for dependents."""

from collections.abc import Iterable
from typing import Final, TypeAlias

from reactive_desched.sim.controllers.controller import ANY_OTHER
from reactive_desched.sim.objects import Obj, name_of, namespace_of
from reactive_desched.sim.pods import is_terminating
from reactive_desched.sim.resources import RESOURCES
from reactive_desched.sim.store import DeleteOptions, Event, Store
from reactive_desched.sim.work_set import WorkSet

__all__ = ["Garbage"]

_BATCH: Final = 200
_FOREGROUND: Final = "foregroundDeletion"
_ORPHAN: Final = "orphan"

_Ref: TypeAlias = tuple[str, str, str]
"""Resource, namespace and name."""


class Garbage:
    """The garbage collector; bounded by the objects that exist and the owners they name."""

    watches = (frozenset(RESOURCES) - {"events"}) | {ANY_OTHER}

    def __init__(self, store: Store) -> None:
        self._store = store
        self._work_set: WorkSet[_Ref] = WorkSet()
        self._living: dict[str, _Ref] = {}
        self._owners: dict[_Ref, tuple[str, ...]] = {}
        self._dependents: dict[str, dict[_Ref, None]] = {}

    def observe(self, event: Event) -> None:
        """Follow which objects exist, and which owns which."""
        obj = event.object
        ref = (event.resource, namespace_of(obj), name_of(obj))
        uid = obj["metadata"]["uid"]
        if event.type == "DELETED":
            self._link(ref, ())
            self._living.pop(uid, None)
            for dependent in self._dependents.get(uid, ()):
                self._work_set.add(dependent)
            return
        self._living[uid] = ref
        owners = tuple(owner["uid"] for owner in obj["metadata"].get("ownerReferences") or ())
        if self._owners.get(ref, ()) != owners:
            self._link(ref, owners)
            self._work_set.add(ref)
        if is_terminating(obj) and _waits(obj):
            self._work_set.add(ref)

    def due(self) -> float | None:
        """Return when there is something to collect, or None."""
        return self._work_set.due()

    def step(self, now: float) -> None:
        """Look at up to two hundred objects."""
        for ref in self._work_set.take_due(now, _BATCH):
            obj = self._store.get(*ref)
            if obj is None:
                continue
            if is_terminating(obj) and _waits(obj):
                self._finish(ref, obj)
            elif not is_terminating(obj):
                self._judge(ref, obj)

    def _link(self, ref: _Ref, owners: tuple[str, ...]) -> None:
        for uid in self._owners.pop(ref, ()):
            dependents = self._dependents.get(uid, {})
            dependents.pop(ref, None)
            if not dependents:
                self._dependents.pop(uid, None)
            self._recheck(uid)
        for uid in owners:
            self._dependents.setdefault(uid, {})[ref] = None
        if owners:
            self._owners[ref] = owners

    def _recheck(self, uid: str) -> None:
        """Look again at an owner that may have waited for this dependent to go."""
        if (owner := self._living.get(uid)) is not None:
            self._work_set.add(owner)

    def _judge(self, ref: _Ref, obj: Obj) -> None:
        """Delete an object whose owners are all gone; drop references to those that are.

        As the garbage collector of kube-controller-manager: a kind that is not served, or the
        namespaced owner of a cluster-scoped object, leaves the object as it is.
        """
        references = obj["metadata"].get("ownerReferences") or []
        kept = []
        for reference in references:
            group = reference["apiVersion"].rpartition("/")[0]
            kind = self._store.kinds.of_kind(group, reference["kind"])
            if kind is None or (kind.namespaced and not ref[1]):
                return
            place = (kind.plural, ref[1] if kind.namespaced else "", reference["name"])
            if self._living.get(reference["uid"]) == place:
                kept.append(reference)
        if len(kept) == len(references):
            return
        if not kept:
            uid = obj["metadata"]["uid"]
            self._store.delete(*ref, DeleteOptions(uid=uid))
            return
        self._rewrite(ref, ownerReferences=kept)

    def _finish(self, ref: _Ref, obj: Obj) -> None:
        """Carry an owner's own deletion through, as its finalizer asks."""
        finalizers = obj["metadata"]["finalizers"]
        dependents = tuple(self._dependents.get(obj["metadata"]["uid"], ()))
        if _ORPHAN in finalizers:
            for dependent in dependents:
                self._release(dependent, obj["metadata"]["uid"])
            self._rewrite(ref, finalizers=[f for f in finalizers if f != _ORPHAN])
            return
        blocking = [d for d in dependents if self._blocks(d, obj["metadata"]["uid"])]
        self._delete_all(blocking)
        if not any(self._store.get(*dependent) for dependent in blocking):
            self._rewrite(ref, finalizers=[f for f in finalizers if f != _FOREGROUND])

    def _delete_all(self, dependents: Iterable[_Ref]) -> None:
        for dependent in dependents:
            obj = self._store.get(*dependent)
            if obj is None or is_terminating(obj):
                continue
            references = obj["metadata"].get("ownerReferences") or ()
            if kept := [each for each in references if self._stays(each["uid"])]:
                self._rewrite(dependent, ownerReferences=kept)
            else:
                leaf = not self._dependents.get(obj["metadata"]["uid"])
                policy = "Background" if leaf else "Foreground"
                self._store.delete(*dependent, DeleteOptions(propagation_policy=policy))

    def _stays(self, owner: str) -> bool:
        """Say whether an owner is there and does not wait for its dependents to go."""
        obj = self._store.get(*self._living[owner]) if owner in self._living else None
        if obj is None:
            return False
        return not (is_terminating(obj) and _FOREGROUND in obj["metadata"].get("finalizers", ()))

    def _blocks(self, dependent: _Ref, uid: str) -> bool:
        obj = self._store.get(*dependent) or {"metadata": {}}
        references = obj["metadata"].get("ownerReferences") or ()
        return any(r["uid"] == uid and r.get("blockOwnerDeletion") for r in references)

    def _release(self, dependent: _Ref, uid: str) -> None:
        obj = self._store.get(*dependent)
        if obj is not None:
            references = obj["metadata"].get("ownerReferences") or ()
            self._rewrite(dependent, ownerReferences=[r for r in references if r["uid"] != uid])

    def _rewrite(self, ref: _Ref, **fields: list[object]) -> None:
        def change(current: Obj) -> Obj:
            return {**current, "metadata": {**current["metadata"], **fields}}

        self._store.modify(*ref, change)


def _waits(obj: Obj) -> bool:
    finalizers = obj["metadata"].get("finalizers") or ()
    return _FOREGROUND in finalizers or _ORPHAN in finalizers
