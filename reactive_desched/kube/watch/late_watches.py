"""Finds out whether a proxy delays what watches bring: the silent ones, and before an eviction.

A proxy may buffer what a watch brings, or keep its headers until the first byte; a connection may
be half open. A quiet kind looks the same: an API server sends no bookmark while nothing changes.
So what has changed since is requested, by a watch that the server ends after a second: its whole
response passes every proxy.
Before an eviction another watch is opened, from version 0, which begins with the objects that there
are, of one namespace; where its first line comes only with its end, something held it back.
"""

from collections.abc import Iterator
from enum import Enum, auto
from math import inf
from typing import Final, Generic, TypeVar

import anyio
from msgspec import Struct

from reactive_desched.errors import Malformed, RateLimited, Unreachable
from reactive_desched.kube.client.clock import Clock, move_on_after
from reactive_desched.kube.client.cluster_guard import NAMESPACES, ONE_NAMESPACE
from reactive_desched.kube.client.rate_limiter import RequestPriority
from reactive_desched.kube.client.session import RequestLimits, Transport, WatchStream
from reactive_desched.kube.codec import Codec
from reactive_desched.kube.watch.interruptions import KEPT_FOR_S, Interruptions
from reactive_desched.kube.watch.resume import (
    ResumePoint,
    StopReason,
    WatchEnd,
    end_from_response,
    end_from_status,
    is_older,
)
from reactive_desched.primitives.http_failures import CONNECTION_ERRORS
from reactive_desched.primitives.wakeup import Epoch, Wakeup
from reactive_desched.telemetry.metrics import Metric, gauge

__all__ = ["LATE_WATCHES", "LIVE", "DeliveryCheck", "LateWatches", "SilenceCheck"]

T = TypeVar("T")

_CATCH_UP_S = 1
"""The server ends the watch that catches up after this time."""

LATE_WATCHES = gauge(
    "reflector_late_watches",
    "1 while watches bring changes late, as through a proxy that buffers: they are kept short.",
)

LIVE: Final = float("inf")
"""As of when the objects of a kind are whose long watch is open."""

_GRACE_S = 2.0
_LATE_FOR_S = 600.0
_MAX_UNREACHABLE = 3
_LIMITS = RequestLimits(connect_s=3.0, read_s=5.0, total_s=5.0)


class LateWatches:
    """Says whether a proxy before the API server delays what watches deliver.

    The reflectors of a session share it. While it does, the server ends each watch after `SHORT_S`,
    or `FIRST_S` where the kind is not in sync, or `CUT_S` where watches break before that, and the
    objects count as of that end. So kinds are seconds apart: `caught_up` waits for all of them.
    After ten minutes a long watch is tried.
    A kind is as of an end as well while its long watch is opened anew; `interruptions` says whether
    that is so again and again. `opened_at` is when the last long watch was opened (monotonic
    seconds).
    """

    CUT_S, FIRST_S, SHORT_S = 1, 2, 3

    def __init__(self, clock: Clock) -> None:
        self.noted = Epoch()
        self.interruptions = Interruptions(clock)
        self._clock = clock
        self.opened_at = float("-inf")
        self._until = float("-inf")
        self._cause = ""
        self._as_of: dict[str, float] = {}
        self._read = Wakeup()

    def collect(self) -> Iterator[Metric]:
        """Yield whether watches are late, and whether they break often."""
        yield LATE_WATCHES.value(self.are_late)
        yield from self.interruptions.collect()

    @property
    def are_late(self) -> bool:
        """Say whether watches are to be short."""
        return self._clock.now() < self._until

    def length_s(self, *, is_synced: bool) -> int:
        """Return for how long to request a watch while they are late."""
        if self.interruptions.are_frequent:
            return self.CUT_S
        return self.SHORT_S if is_synced else self.FIRST_S

    def note(self, cause: str) -> None:
        """A watch was late: keep all of them short for a while."""
        self._cause = cause
        self._until = self._clock.now() + _LATE_FOR_S
        self.noted.advance(cause)

    def note_in_sync(self, path: str, as_of: float) -> None:
        """The objects of a kind are those of this moment, or later ones; LIVE for a long watch."""
        self._as_of[path] = as_of
        if as_of == LIVE:
            self.opened_at = self._clock.now()
        self._read.notify()

    def note_stale(self, path: str) -> None:
        """A kind is not in sync, or not needed: it is not waited for."""
        self._as_of.pop(path, None)
        self._read.notify()

    async def caught_up(self, since: float) -> bool:
        """Return when every kind is as of this moment, or later; at once while watches are live.

        A kind that is not in sync is not waited for, as it stops evictions by itself, and none for
        longer than its objects may be old: then it is False.
        """
        if self._have_read(since):
            return True
        async with move_on_after(self._clock, KEPT_FOR_S):
            while not self._have_read(since):
                await self._read.wait()
        return self._have_read(since)

    def _have_read(self, since: float) -> bool:
        """Say whether every kind shows what happened until then; a late watch need not."""
        of_watch = float("-inf") if self.are_late else LIVE
        return all((of_watch if it == LIVE else it) >= since for it in self._as_of.values())

    def note_no_headers(self, path: str) -> None:
        """A proxy keeps the headers of a watch back, until its first byte or its end."""
        self.note(f"watch {path}: its headers do not come")

    def message(self) -> str:
        """Say what is late and what is done; empty while nothing is."""
        if not self.are_late:
            return self.interruptions.message()
        length_s = self.length_s(is_synced=True)
        return (
            f"{self._cause}; changes are requested every {length_s} s instead: "
            "switch off response buffering in the proxy before the API server"
        )


class _Missed(Enum):
    """The changes that a silent watch missed, by the watch that was opened to compare."""

    NOTHING = auto()
    SOMETHING = auto()
    UNKNOWN = auto()
    UNREACHABLE = auto()


class _CaughtUp(Struct, frozen=True, gc=False):
    """The resource version of the last change, or of a bookmark where there is no change."""

    missed: _Missed
    version: str = ""
    ending: WatchEnd | None = None


class SilenceCheck(Generic[T]):
    """Catches up with the watch of one resource while that is silent."""

    def __init__(
        self,
        session: Transport,
        codec: Codec[T],
        clock: Clock,
        late_watches: LateWatches,
        silent_s: float,
    ) -> None:
        self._session = session
        self._codec = codec
        self._clock = clock
        self._late_watches = late_watches
        self._silent_s = silent_s

    async def after_no_headers(self, resume_point: ResumePoint, message: str) -> WatchEnd:
        """Return how a watch ends whose headers did not come in time: LATE if the server is there.

        Some proxies keep the headers of a response until its first byte.
        """
        found = await self._catch_up(resume_point.resource_version)
        if found.missed in (_Missed.NOTHING, _Missed.SOMETHING) and found.ending is None:
            self._late_watches.note_no_headers(self._codec.path)
            return WatchEnd(StopReason.LATE, self._late_watches.message())
        return found.ending or WatchEnd(StopReason.UNREACHABLE, message)

    async def confirm(self, stream: WatchStream, resume_point: ResumePoint) -> WatchEnd | None:
        """Say why a watch that has just been opened brings no missed change; None if it does."""
        return None if stream.received_bytes() else await self._check(resume_point, 1)

    async def run(self, stream: WatchStream, resume_point: ResumePoint) -> WatchEnd:
        """Return when the watch is not to be read any longer, and why."""
        received, unreachable = stream.received_bytes(), 0
        while True:
            if await self._are_late():
                return WatchEnd(StopReason.REOPENED, self._late_watches.message())
            if (sofar := stream.received_bytes()) != received:
                received, unreachable = sofar, 0
                continue
            unreachable += 1
            if ending := await self._check(resume_point, unreachable):
                return ending
            if stream.received_bytes() != received:
                unreachable = 0

    async def _are_late(self) -> bool:
        """Wait for the time of a silence, at most until another kind finds watches late."""
        late = self._late_watches
        number = late.noted.number
        if not late.are_late:
            async with move_on_after(self._clock, self._silent_s):
                await late.noted.wait_past(number)
        return late.are_late

    async def _check(self, resume_point: ResumePoint, attempt: int) -> WatchEnd | None:
        found = await self._catch_up(resume_point.resource_version)
        match found.missed:
            case _Missed.NOTHING:
                resume_point.at_bookmark(found.version)
            case _Missed.UNREACHABLE if attempt >= _MAX_UNREACHABLE:
                return found.ending
            case _Missed.SOMETHING if found.ending is not None:
                return found.ending
            case _Missed.SOMETHING:
                await self._clock.sleep(_GRACE_S)
                if is_older(resume_point.resource_version, found.version):
                    cause = f"watch {self._codec.path}: its changes arrive late"
                    self._late_watches.note(cause)
                    return WatchEnd(StopReason.LATE, self._late_watches.message())
        return None

    async def _catch_up(self, version: str) -> _CaughtUp:
        """Request what has changed since this version."""
        call = f"watch {self._codec.path}"
        params = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_CATCH_UP_S),
            "resourceVersion": version,
        }
        try:
            response = await self._session.request(
                "GET",
                self._codec.path,
                params=params,
                limits=_LIMITS,
                priority=RequestPriority.WATCH,
            )
        except RateLimited:
            return _CaughtUp(_Missed.UNKNOWN)
        except Unreachable as error:
            ending = WatchEnd(StopReason.UNREACHABLE, str(error))
            return _CaughtUp(
                _Missed.UNKNOWN if error.is_late else _Missed.UNREACHABLE, ending=ending
            )
        if not response.ok:
            ending = end_from_response(response, call, self._clock.wall())
            is_gone = ending.reason is StopReason.GONE
            return _CaughtUp(_Missed.SOMETHING if is_gone else _Missed.UNKNOWN, ending=ending)
        return self._read(bytes(response.body), call)

    def _read(self, body: bytes, call: str) -> _CaughtUp:
        changed, bookmark = "", ""
        for line in body.splitlines():
            try:
                event = self._codec.decode_event(line)
            except Malformed:
                continue
            if event.type == "ERROR":
                ending = end_from_status(event.status, call)
                is_gone = ending.reason is StopReason.GONE
                return _CaughtUp(_Missed.SOMETHING if is_gone else _Missed.UNKNOWN, ending=ending)
            if event.object is not None:
                changed = event.resource_version
            else:
                bookmark = event.resource_version
        if changed:
            return _CaughtUp(_Missed.SOMETHING, changed)
        return _CaughtUp(_Missed.NOTHING, bookmark)


_WATCH_S: Final = 2
"""The server ends the watch after this time, and everything that was kept back comes."""
_DUE_S: Final = _WATCH_S / 2
"""The first line is due in this time; a slow server's comes later, and its end as much later."""
_NOTICEABLE_S: Final = 0.1
_GIVE_UP_S: Final = _WATCH_S + 3.0
_COUNTS_FOR_S: Final = 5.0
_TRIES: Final = 3
"""So often a watch has to break, one after the other, before that counts as kept back."""
_LATE_TRIES: Final = 2
"""So often its first line has to be late: once it is so in a process that stood still meanwhile."""
_PARAMS: Final = {
    "watch": "true",
    "fieldSelector": ONE_NAMESPACE["fieldSelector"],
    "resourceVersion": "0",
    "timeoutSeconds": str(_WATCH_S),
}


class DeliveryCheck:
    """Lets a decision wait until the watches show what happened before it.

    An answer counts for five seconds, and until a watch is opened after it. Decisions that come
    together wait for one answer. Where there is none, as from a server that is busy, they do not
    wait any longer: the check of silent watches remains. A watch that breaks is opened again before
    it counts: a connection may be cut at any moment. A line that is somewhat late may come from a
    proxy that sends what it has from time to time: decisions wait twice as long as it took.
    """

    def __init__(self, session: Transport, clock: Clock, late_watches: LateWatches) -> None:
        self._session = session
        self._clock = clock
        self._late_watches = late_watches
        self._one_at_a_time = anyio.Lock()
        self._asked_at = -inf
        self._delay_s = 0.0
        self._has_broken = False

    async def caught_up(self) -> bool:
        """Return when the watches show what happened before this call; False where they do not."""
        decided_at = self._clock.now()
        async with self._one_at_a_time:
            if not (self._late_watches.are_late or self._counts):
                await self._ask()
        if self._delay_s >= _NOTICEABLE_S and not self._late_watches.are_late:
            await self._clock.sleep(max(0.0, decided_at + 2 * self._delay_s - self._clock.now()))
        return await self._late_watches.caught_up(decided_at)

    @property
    def _counts(self) -> bool:
        """Say whether the last answer is about the watches that are open now."""
        is_young = self._clock.now() - self._asked_at < _COUNTS_FOR_S
        return is_young and self._asked_at >= self._late_watches.opened_at

    async def _ask(self) -> None:
        asked_at, found, late = self._clock.now(), "", 0
        for _ in range(_TRIES):
            self._delay_s, self._has_broken = 0.0, False
            found = f"did not come in {_GIVE_UP_S:.0f} s"
            async with move_on_after(self._clock, _GIVE_UP_S):
                found = await self._open_and_read()
            late += not self._has_broken
            if not found or late == _LATE_TRIES:
                break
        self._asked_at = asked_at
        if found:
            self._late_watches.note(f"watch {NAMESPACES}: its first object {found}")

    async def _open_and_read(self) -> str:
        """Return how late the first line is; empty where it is not, or nothing shows it."""
        requested_at = self._clock.now()
        try:
            async with self._session.stream(NAMESPACES, _PARAMS, open_s=_GIVE_UP_S) as reply:
                if not isinstance(reply, WatchStream):
                    return ""
                return await self._read(reply, requested_at)
        except RateLimited:
            return ""
        except Unreachable as error:
            return "did not come in time" if error.is_late else ""

    async def _read(self, stream: WatchStream, requested_at: float) -> str:
        line = await self._readline(stream)
        line_at = self._clock.now()
        delay_s = line_at - requested_at
        if not (line or self._has_broken):  # it ended as if there was no such namespace
            return ""
        if not line.endswith(b"\n"):
            self._has_broken = True
            return "did not come before it broke off" if delay_s >= _DUE_S else ""
        if delay_s >= _DUE_S:
            while await self._readline(stream):
                pass
            if self._clock.now() - line_at < _DUE_S:
                return "came with its end"
        self._delay_s = delay_s
        return ""

    async def _readline(self, stream: WatchStream) -> bytes:
        """Return a line; what there is of it, or nothing, at the end."""
        try:
            return await stream.readline()
        except CONNECTION_ERRORS:
            self._has_broken = True
            return b""
