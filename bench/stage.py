"""Sends scripted events to every watch; stamps when each left and when its eviction came."""

import itertools
import threading
import time
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from bench.generate import Cluster
from bench.resources import Resource, Versions
from bench.scripts import SCRIPTS, PodRef, Scripted
from bench.wire import LAST_CHUNK, Connection, chunk

_POLL_INTERVAL_S = 0.01
_PODS = "/api/v1/pods"
KEPT_EVENTS = 20_000
"""So many events of each collection are sent to a watch that begins behind them."""

_TOO_OLD = chunk(
    b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure",'
    b'"reason":"Expired","code":410,"message":"too old resource version"}}\n'
)

_BATCH = 32
"""Events per write when they go out flat out; each still has its own chunk."""


class Watcher:
    """One open watch; several threads may send to it."""

    def __init__(self, connection: Connection) -> None:
        """Write to a connection whose own thread only waits."""
        self._connection = connection
        self._lock = threading.Lock()
        self.closed = threading.Event()

    def send(self, data: bytes) -> None:
        """Send framed bytes; a client that has gone closes the watch."""
        try:
            with self._lock:
                self._connection.sock.sendall(data)
        except OSError:
            self.closed.set()

    def end(self) -> None:
        """End the answer as an API server does when the watch times out."""
        self.send(LAST_CHUNK)
        self.closed.set()


@dataclass
class EventPlayer:
    """Open watches, prepared events, and the stamps of both ends.

    `overdue` are the pods of earlier scripts whose evictions have not come.
    """

    cluster: Cluster
    resources: Mapping[str, Resource]
    versions: Versions
    watchers: defaultdict[str, list[Watcher]] = field(default_factory=lambda: defaultdict(list))
    sent_counts: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    prepared: dict[str, list[Scripted]] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)
    evictions: list[tuple[str, int]] = field(default_factory=list)
    late: int = 0
    overdue: dict[str, PodRef] = field(default_factory=dict)
    playbacks: list[threading.Thread] = field(default_factory=list)
    _latest: defaultdict[str, deque[tuple[int, bytes]]] = field(
        default_factory=lambda: defaultdict(deque)
    )
    _forgotten: dict[str, int] = field(default_factory=dict)
    _added: dict[tuple[str, str], int] = field(default_factory=dict)
    _evicted_late: list[PodRef] = field(default_factory=list)
    _in_order: threading.Lock = field(default_factory=threading.Lock)

    def version_of_lists(self) -> int:
        """Return a version of which every event is true in a list made after this."""
        with self._in_order:
            return self.versions.now

    def open_watch(self, path: str, watcher: Watcher, version: int | None) -> None:
        """Send a watch what came after a version, and from now on all.

        None: only what comes from now on. A version whose next events are kept no more is answered
        as an API server does: it is too old.
        """
        with self._in_order:
            if version is not None and version < self._forgotten.get(path, 0):
                watcher.send(_TOO_OLD)
                watcher.end()
                return
            for at, frame in self._latest[path]:
                if version is not None and at > version:
                    watcher.send(frame)
            self.watchers[path].append(watcher)

    def prepare(self, script: str, count: int, slot: str) -> int:
        """Render the next events of a script and forget the stamps; return how many there are.

        Each slot holds one script, so that two can be sent at the same time.
        """
        self._note_overdue()
        self.sent, self.evictions, self.late = {}, [], 0
        events = SCRIPTS[script](self.cluster, self.versions, self.sent_counts[script])
        self.prepared[slot] = list(islice(events, count))
        self.sent_counts[script] += len(self.prepared[slot])
        return len(self.prepared[slot])

    def _note_overdue(self) -> None:
        came = {pod for pod, _ in self.evictions}
        for event in itertools.chain.from_iterable(self.prepared.values()):
            if event.pod and event.key in self.sent and event.key not in came:
                self.overdue[event.key] = event.pod

    def play(self, pace: float, slot: str) -> None:
        """Start to send what is prepared: `pace` events per second, or flat out when 0."""
        play, events = self._play_at if pace else self._play_flat_out, self.prepared[slot]
        thread = threading.Thread(target=play, args=(events, pace), daemon=True)
        self.playbacks = [*(play for play in self.playbacks if play.is_alive()), thread]
        thread.start()

    def await_playbacks(self) -> None:
        """Return when everything has been sent."""
        for play in self.playbacks:
            play.join()

    def _play_at(self, events: Sequence[Scripted], pace: float) -> None:
        start = time.monotonic()
        for turn, event in enumerate(events):
            time.sleep(max(0.0, start + turn / pace - time.monotonic()))
            with self._in_order:
                frame = self._apply_event(event)
                if event.pod:
                    self.sent[event.key] = time.monotonic_ns()
                self._send(event.path, frame)

    def _play_flat_out(self, events: Sequence[Scripted], _: float) -> None:
        with self._in_order:
            frames = [self._apply_event(event) for event in events]
            for first in range(0, len(frames), _BATCH):
                batch = b"".join(frames[first : first + _BATCH])
                self._send(events[first].path, batch)

    def _apply_event(self, event: Scripted) -> bytes:
        """Make the event true for later lists and return its frame; its version is the latest."""
        resource, version = self.resources[event.path], self.versions.next()
        obj = event.at(version)
        resource.change(event.number, obj)
        if event.pod:
            self._added[event.pod.owner.namespace, event.key] = event.number
        return self._framed(event.path, version, resource.event(event.what, obj))

    def _framed(self, path: str, version: int, line: bytes) -> bytes:
        frame, latest = chunk(line), self._latest[path]
        latest.append((version, frame))
        if len(latest) > KEPT_EVENTS:
            self._forgotten[path], _ = latest.popleft()
        return frame

    def _send(self, path: str, data: bytes) -> None:
        for watcher in tuple(self.watchers[path]):
            watcher.send(data)

    def record_eviction(self, pod: str, at_ns: int) -> None:
        """Stamp an eviction request by the name of its pod; count one of an earlier script."""
        if pod in self.sent:
            self.evictions.append((pod, at_ns))
            return
        self.late += 1
        if (overdue := self.overdue.pop(pod, None)) is not None:
            self._evicted_late.append(overdue)

    def await_evictions(self, count: int, within_s: float) -> None:
        """Return when so many requests have come, or when the time is over."""
        until = time.monotonic() + within_s
        while len(self.evictions) < count and time.monotonic() < until:
            time.sleep(_POLL_INTERVAL_S)

    def delete_evicted(self) -> int:
        """Delete every pod that was to leave and whose eviction came; return how many."""
        names = {name for name, _ in self.evictions}
        events = itertools.chain.from_iterable(self.prepared.values())
        leaving = [event.pod for event in events if event.pod and event.key in names]
        late, self._evicted_late = self._evicted_late, []
        leaving += late
        for pod in leaving:
            self._delete(pod)
        return len(leaving)

    def _delete(self, pod: PodRef) -> None:
        resource = self.resources[_PODS]
        with self._in_order:
            version = self.versions.next()
            last = self.cluster.changed_pod(pod.owner, pod.ordinal, version)
            resource.change(pod.number, None)
            self._added.pop((pod.owner.namespace, self._name(pod)), None)
            self._send(_PODS, self._framed(_PODS, version, resource.event("DELETED", last)))

    def find_pod(self, namespace: str, name: str) -> bytes | None:
        """Return a pod as it is now; slow for one that no script added."""
        resource = self.resources[_PODS]
        if (number := self._added.get((namespace, name))) is None:
            for listed, (owner, ordinal) in enumerate(self.cluster.order):
                if (owner.namespace, self.cluster.values(owner, ordinal).name) == (namespace, name):
                    number = listed
        return None if number is None else next(resource.each(number, number + 1), None)

    def _name(self, pod: PodRef) -> str:
        return self.cluster.values(pod.owner, pod.ordinal).name

    def drop_watches(self) -> None:
        """Forget every watch, its connection being closed."""
        for watchers in self.watchers.values():
            for watcher in watchers:
                watcher.closed.set()
            watchers.clear()

    def expire_watches(self, path: str) -> int:
        """End the watches with the error that their version is too old, so that they list again."""
        watchers = self.watchers[path]
        self.watchers[path] = []
        for watcher in watchers:
            watcher.send(_TOO_OLD)
            watcher.end()
        return len(watchers)
