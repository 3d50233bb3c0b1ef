"""The fan-out of store events to open watches: each event is encoded once per rendering."""

import asyncio
from collections import deque

from msgspec import Struct

from reactive_desched.sim.http.options import Wanted
from reactive_desched.sim.http.rendering import Rendering, encode
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.store import Event, Store

__all__ = ["Packet", "WatchHub", "Watcher", "document"]


def document(what: str, obj: Obj) -> bytes:
    """Encode one watch document, newline included."""
    return b'{"type":"%b","object":%b}\n' % (what.encode(), encode(obj))


class Packet:
    """An event on its way to many watches, remembering how it was encoded."""

    def __init__(self, event: Event, now: float) -> None:
        self.event = event
        self._now = now
        self._documents: dict[tuple[str, Rendering], bytes] = {}

    def document(self, what: str, rendering: Rendering) -> bytes:
        """Return the encoded document, made at most once for each type and rendering."""
        made = self._documents.get((what, rendering))
        if made is None:
            made = document(what, rendering.one(self._object(what), self._now))
            self._documents[what, rendering] = made
        return made

    def _object(self, what: str) -> Obj:
        """Return the object to show: one that left a selector is shown as it was inside it."""
        event = self.event
        if what != "DELETED" or event.previous is None:
            return event.object
        meta = {**event.previous["metadata"], "resourceVersion": str(event.rv)}
        return {**event.previous, "metadata": meta}


class Watcher(Struct, kw_only=True, eq=False):
    """One open watch: its selectors, and the events that it has not been sent yet.

    Holds at most `limit` documents; when one more arrives it drops them all and closes, so
    that the client resumes from the last version it saw. Never makes a writer wait.
    """

    resource: str
    wanted: Wanted
    rendering: Rendering
    start: int
    limit: int
    wake: asyncio.Event
    pending: deque[tuple[str, Packet]]
    closed: bool = False

    def offer(self, packet: Packet) -> None:
        """Queue an event if this watch should see it."""
        if packet.event.rv <= self.start or self.closed:
            return
        if len(self.pending) >= self.limit:
            self.close()
            self.pending.clear()
            return
        self.replay(packet)

    def replay(self, packet: Packet) -> None:
        """Queue an event from history, which has its own bound."""
        if what := self._seen_as(packet.event):
            self.pending.append((what, packet))
            self.wake.set()

    def _seen_as(self, event: Event) -> str:
        """Translate an event: entering a selection is ADDED, leaving it is DELETED."""
        before = event.previous is not None and self.wanted.matches(event.previous)
        after = event.type != "DELETED" and self.wanted.matches(event.object)
        if after:
            return "MODIFIED" if before else "ADDED"
        return "DELETED" if before else ""

    def take(self) -> bytes:
        """Return everything pending as one piece of the response body."""
        self.wake.clear()
        taken = [packet.document(what, self.rendering) for what, packet in self.pending]
        self.pending.clear()
        return b"".join(taken)

    def close(self) -> None:
        """End the watch as soon as its handler looks."""
        self.closed = True
        self.wake.set()


class WatchHub:
    """Receives every write of a store and passes it to the open watches."""

    def __init__(self, store: Store, limit: int) -> None:
        self._store = store
        self._limit = limit
        self._watchers: dict[str, set[Watcher]] = {}
        self._waiting: set[asyncio.Event] = set()
        self._unsubscribe = store.subscribe(self._on_event)

    def open(self, resource: str, wanted: Wanted, rendering: Rendering, start: int) -> Watcher:
        """Begin to collect the events after version `start`."""
        watcher = Watcher(
            resource=resource,
            wanted=wanted,
            rendering=rendering,
            start=start,
            limit=self._limit,
            wake=asyncio.Event(),
            pending=deque(),
        )
        self._watchers.setdefault(resource, set()).add(watcher)
        return watcher

    def drop(self, watcher: Watcher) -> None:
        """Forget a watch whose handler has ended."""
        self._watchers[watcher.resource].discard(watcher)

    def cut_all(self) -> None:
        """End every open watch."""
        for watchers in self._watchers.values():
            for watcher in watchers:
                watcher.close()

    def stop(self) -> None:
        """End every watch and receive no more writes."""
        self._unsubscribe()
        self.cut_all()

    async def reached(self, rv: int, within_s: float) -> bool:
        """Wait until the store is at `rv` or later; return whether it got there in time."""
        if self._store.rv >= rv:
            return True
        change = asyncio.Event()
        self._waiting.add(change)
        try:
            async with asyncio.timeout(within_s):
                while self._store.rv < rv:
                    await change.wait()
                    change.clear()
        except TimeoutError:
            return False
        finally:
            self._waiting.discard(change)
        return True

    def _on_event(self, event: Event) -> None:
        for change in self._waiting:
            change.set()
        watchers = self._watchers.get(event.resource)
        if not watchers:
            return
        packet = Packet(event, self._store.clock.now())
        for watcher in watchers:
            watcher.offer(packet)
