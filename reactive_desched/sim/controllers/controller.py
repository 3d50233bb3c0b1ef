"""The base of the simulated controllers: each notes events, and acts when it is stepped."""

from abc import ABC, abstractmethod
from typing import Final, Protocol

from reactive_desched.sim.clock import rfc3339
from reactive_desched.sim.conditions import with_conditions
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.pods import Key, key_of
from reactive_desched.sim.store import Event, Store
from reactive_desched.sim.work_set import AT_ONCE, WorkSet

__all__ = ["ANY_OTHER", "BATCH", "Controller", "Reconciler", "write_conditions", "write_status"]

BATCH: Final = 100
"""How many objects a controller looks at in one step."""


ANY_OTHER: Final = "*"
"""Among what a controller watches: the kinds that clients define."""


class Controller(Protocol):
    """One part of the simulated world."""

    @property
    def watches(self) -> frozenset[str]:
        """The resources whose events this controller wants."""
        ...

    def observe(self, event: Event) -> None:
        """Note an event; called inside the store's write, so it must not write."""
        ...

    def due(self) -> float | None:
        """Return the earliest moment at which there is work, or None."""
        ...

    def step(self, now: float) -> None:
        """Do a bounded amount of the work that is due."""
        ...


class Reconciler(ABC):
    """A controller that brings one object at a time to its desired state."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.work_set: WorkSet[Key] = WorkSet()

    def due(self) -> float | None:
        """Return the earliest moment at which an object is to be looked at, or None."""
        return self.work_set.due()

    def step(self, now: float) -> None:
        """Reconcile up to a hundred objects."""
        for key in self.work_set.take_due(now, BATCH):
            self.reconcile(key, now)

    def soon(self, key: Key, at: float = AT_ONCE) -> None:
        """Look at an object at that moment, or earlier if something else asks for it."""
        self.work_set.add(key, at)

    @abstractmethod
    def reconcile(self, key: Key, now: float) -> None:
        """Bring the object nearer to what it should be; it may no longer exist."""


def write_conditions(
    store: Store, resource: str, obj: Obj, *conditions: Obj, **fields: object
) -> Obj:
    """Write conditions into an object's status, and other fields of it; return it as stored."""
    at = rfc3339(store.clock.now())

    def change(current: Obj) -> Obj:
        status = {**current.get("status", {}), **fields}
        merged = with_conditions(status.get("conditions") or (), conditions, at)
        return {**current, "status": {**status, "conditions": merged}}

    return store.modify(resource, *key_of(obj), change, subresource="status")


def write_status(store: Store, resource: str, obj: Obj, status: Obj) -> None:
    """Write a status if it differs; fields set to None are left out."""
    fresh = {field: value for field, value in status.items() if value is not None}
    if fresh == obj.get("status"):
        return
    store.replace_status(resource, *key_of(obj), fresh)
