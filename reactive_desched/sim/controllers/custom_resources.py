"""Has the server serve the kinds of CustomResourceDefinitions, and take their objects along."""

from functools import partial
from typing import Final

from reactive_desched.sim.controllers.adoption import without_finalizer
from reactive_desched.sim.controllers.controller import Reconciler, write_conditions
from reactive_desched.sim.custom_kinds import is_built_in
from reactive_desched.sim.defaults import CLEAN_UP
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.pods import Key, is_terminating, key_of
from reactive_desched.sim.store import Event, Store

__all__ = ["CustomResources"]

_DEFINITIONS: Final = "customresourcedefinitions"
_AGAIN_S: Final = 1.0
"""After so long a deleted definition is looked at again whose objects have finalizers."""


class CustomResources(Reconciler):
    """Accepts the names of a definition unless another kind has its plural."""

    watches = frozenset({_DEFINITIONS})

    def __init__(self, store: Store) -> None:
        super().__init__(store)

    def observe(self, event: Event) -> None:
        """Look at a definition whose spec is new, or that is being deleted."""
        before = event.previous
        if event.type == "DELETED":
            return
        if (
            before is None
            or before["spec"] != event.object["spec"]
            or is_terminating(event.object) != is_terminating(before)
        ):
            self.soon(key_of(event.object))

    def reconcile(self, key: Key, now: float) -> None:
        """Serve a definition's kind and say so, or delete all objects of it."""
        definition = self.store.get(_DEFINITIONS, *key)
        if definition is None:
            return
        if is_terminating(definition):
            self._clean_up(definition, now)
            return
        names = definition["spec"]["names"]
        if said := self.store.kinds.conflict(definition):
            conflict = _condition("NamesAccepted", "False", "PluralConflict", said)
            waiting = _condition(
                "Established", "False", "NotAccepted", "not all names are accepted"
            )
            write_conditions(self.store, _DEFINITIONS, definition, conflict, waiting)
            return
        self.store.define(definition)
        stored = [each["name"] for each in definition["spec"]["versions"] if each.get("storage")]
        write_conditions(
            self.store,
            _DEFINITIONS,
            definition,
            _condition("NamesAccepted", "True", "NoConflicts", "no conflicts found"),
            _condition(
                "Established",
                "True",
                "InitialNamesAccepted",
                "the initial names have been accepted",
            ),
            acceptedNames=names,
            storedVersions=stored,
        )

    def _clean_up(self, definition: Obj, now: float) -> None:
        plural = definition["spec"]["names"]["plural"]
        is_served = not self.store.kinds.conflict(definition) and not is_built_in(definition)
        left = self.store.list(plural) if is_served and self.store.has(plural) else []
        for obj in left:
            if not is_terminating(obj):
                self.store.delete(plural, *key_of(obj))
        if left and self.store.list(plural):
            self.soon(key_of(definition), now + _AGAIN_S)
            return
        if is_served:
            self.store.kinds.forget(plural)
        freed = partial(without_finalizer, finalizer=CLEAN_UP)
        self.store.modify(_DEFINITIONS, *key_of(definition), freed)


def _condition(kind: str, status: str, reason: str, message: str) -> Obj:
    return {"type": kind, "status": status, "reason": reason, "message": message}
