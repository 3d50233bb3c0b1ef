"""Forgets old Events, so that a cluster that runs for months does not drown in them."""

from itertools import islice
from typing import Final

from reactive_desched.sim.pods import Key, key_of
from reactive_desched.sim.store import Event, Store
from reactive_desched.sim.work_set import WorkSet

__all__ = ["EventExpiry"]

_KEEP_S: Final = 3600.0
_MOST: Final = 10_000
_BATCH: Final = 200


class EventExpiry:
    """Deletes an Event an hour after its last write, and the oldest beyond ten thousand."""

    watches = frozenset({"events"})

    def __init__(self, store: Store) -> None:
        self._store = store
        self._written: dict[Key, float] = {}
        self._work_set: WorkSet[Key] = WorkSet()

    def observe(self, event: Event) -> None:
        """Note when an Event was last written."""
        key = key_of(event.object)
        if event.type == "DELETED":
            self._written.pop(key, None)
            self._work_set.drop(key)
            return
        self._written.pop(key, None)
        self._written[key] = now = self._store.clock.now()
        self._work_set.add(key, now + _KEEP_S)

    def due(self) -> float | None:
        """Return when the next Event expires; at once when there are too many."""
        return 0.0 if len(self._written) > _MOST else self._work_set.due()

    def step(self, now: float) -> None:
        """Delete up to two hundred Events."""
        for key in self._work_set.take_due(now, _BATCH):
            expires = self._written[key] + _KEEP_S
            if now < expires:
                self._work_set.add(key, expires)
            else:
                self._store.delete("events", *key)
        surplus = min(max(0, len(self._written) - _MOST), _BATCH)
        for key in tuple(islice(self._written, surplus)):
            self._store.delete("events", *key)
