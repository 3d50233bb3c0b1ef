"""Hold the initial events of a streaming list until they make a whole picture."""

from typing import Generic, TypeVar

from msgspec import Struct

from reactive_desched.kube.decode.codec import WatchEvent
from reactive_desched.kube.watch.watch_end import End, Ending, of_status

__all__ = ["Removed", "Staging"]

T = TypeVar("T")


class Removed(Struct, Generic[T], frozen=True, gc=False):
    """An object that went away while the initial events were still coming."""

    obj: T


class Staging(Generic[T]):
    """The changes to make, in order; bounded by the size of the resource and one watch's time.

    A bookmark without the end mark before the end comes from a server that ignores our wish for
    initial events: what it sends is not known to be whole, so it counts as a refusal.
    """

    def __init__(self, path: str) -> None:
        self.changes: list[T | Removed[T]] = []
        self.resource_version = ""
        self._path = path

    def take(self, event: WatchEvent[T]) -> Ending | None:
        """Stage one event; the end mark ends the reading with COMPLETE."""
        if event.object is not None:
            removed = event.type == "DELETED"
            self.changes.append(Removed(event.object) if removed else event.object)
            return None
        if event.type == "ERROR":
            return of_status(event.status, f"streaming list {self._path}")
        if event.type == "BOOKMARK":
            return self._end(event)
        return None

    def _end(self, event: WatchEvent[T]) -> Ending:
        if not event.initial_events_end or event.resource_version in ("", "0"):
            return Ending(End.REJECTED, f"streaming list {self._path}: it has no end mark")
        self.resource_version = event.resource_version
        return Ending(End.COMPLETE)
