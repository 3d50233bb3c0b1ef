"""Hold the initial events of a streaming list until they make a whole picture."""

from typing import Generic, TypeVar

from msgspec import Struct

from reactive_desched.kube.codec import WatchEvent
from reactive_desched.kube.watch.watch_end import StopReason, WatchEnd, end_from_status

__all__ = ["Deleted", "InitialList"]

T = TypeVar("T")


class Deleted(Struct, Generic[T], frozen=True, gc=False):
    """An object that went away while the initial events were still coming."""

    obj: T


class InitialList(Generic[T]):
    """The changes to make, in order; bounded by the size of the resource and one watch's time.

    A bookmark without the end mark before the end comes from a server that ignores our wish for
    initial events: what it sends is not known to be whole, so it counts as a refusal.
    """

    def __init__(self, path: str) -> None:
        self.changes: list[T | Deleted[T]] = []
        self.resource_version = ""
        self._path = path

    def add(self, event: WatchEvent[T]) -> WatchEnd | None:
        """Stage one event; the end mark ends the reading with COMPLETE."""
        if event.object is not None:
            removed = event.type == "DELETED"
            self.changes.append(Deleted(event.object) if removed else event.object)
            return None
        if event.type == "ERROR":
            return end_from_status(event.status, f"streaming list {self._path}")
        if event.type == "BOOKMARK":
            return self._finish(event)
        return None

    def _finish(self, event: WatchEvent[T]) -> WatchEnd:
        if not event.initial_events_end or event.resource_version in ("", "0"):
            return WatchEnd(StopReason.REJECTED, f"streaming list {self._path}: it has no end mark")
        self.resource_version = event.resource_version
        return WatchEnd(StopReason.INITIAL_EVENTS_DONE)
