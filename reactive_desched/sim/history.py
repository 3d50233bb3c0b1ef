"""The recent past of every kind, from which watches resume and old lists are rebuilt."""

from collections import deque
from typing import NamedTuple

from reactive_desched.sim.objects import Obj, name_of, namespace_of, storage_key
from reactive_desched.sim.status import Expired

__all__ = ["Event", "History"]


class Event(NamedTuple):
    """One committed write."""

    type: str
    """ADDED, MODIFIED or DELETED."""
    resource: str
    object: Obj
    """The new state; for DELETED the last state, carrying the version of the deletion."""
    previous: Obj | None
    rv: int

    @property
    def key(self) -> str:
        """The storage key of the object."""
        return storage_key(namespace_of(self.object), name_of(self.object))


class History:
    """Keeps the latest `limit` events of each kind; older ones are forgotten and answer 410."""

    def __init__(self, limit: int, start: int) -> None:
        self._limit = limit
        self._start = start
        self._events: dict[str, deque[Event]] = {}
        self._forgotten: dict[str, int] = {}

    def append(self, event: Event) -> None:
        """Remember an event, forgetting the oldest of its kind when full."""
        events = self._events.setdefault(event.resource, deque())
        if len(events) >= self._limit:
            self._forgotten[event.resource] = events.popleft().rv
        events.append(event)

    def since(self, resource: str, rv: int) -> list[Event]:
        """Return the events after `rv`, oldest first; raise Expired when some are forgotten."""
        horizon = self._forgotten.get(resource, self._start)
        if rv < horizon:
            raise Expired(f"too old resource version: {rv} ({horizon})")
        found = []
        for event in reversed(self._events.get(resource, ())):
            if event.rv <= rv:
                break
            found.append(event)
        return found[::-1]

    def forget(self, rv: int) -> None:
        """Drop everything up to now, so that resuming from before `rv` fails."""
        self._events.clear()
        self._forgotten.clear()
        self._start = rv
