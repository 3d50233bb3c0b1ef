"""Keeps a store equal to one resource of the API server: list, watch, resume, list again.

The store keeps its objects until a new list is complete. After a failure the store is marked stale
until a watch is open again, unless watches break again and again; no call is repeated more than
once a second.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import TypeVar

import anyio
from msgspec import Struct

from reactive_desched.errors import Malformed, RateLimited, Unreachable
from reactive_desched.kube.client.clock import Clock, SystemClock
from reactive_desched.kube.client.responses import ApiResponse
from reactive_desched.kube.client.session import Transport, WatchStream
from reactive_desched.kube.codec import Codec, ReflectorStore, WatchEvent
from reactive_desched.kube.watch.initial_list import Deleted, InitialList, Lister
from reactive_desched.kube.watch.interruptions import KEPT_FOR_S, IdleCuts, Reopening
from reactive_desched.kube.watch.late_watches import LIVE, LateWatches, SilenceCheck
from reactive_desched.kube.watch.resume import (
    TOLERATED_DENIALS,
    ExponentialBackoff,
    ResumePoint,
    ServerProbe,
    StopReason,
    WatchEnd,
    end_from_error,
    end_from_response,
    end_from_status,
    is_older,
)
from reactive_desched.kube.watch.settings import ReflectorSettings
from reactive_desched.kube.watch.watcher import WatchEventHandler, WatchReader
from reactive_desched.kube.watch.yielding import Yielder
from reactive_desched.primitives.wakeup import Epoch
from reactive_desched.telemetry.metrics import Metric, counter, gauge

__all__ = ["Reflector", "ReflectorSettings", "ReflectorStatus"]

T = TypeVar("T")

SYNCED = gauge(
    "reflector_synced",
    "1 while the resource is listed and its watch is open; left out while nothing needs it, and "
    "while the API server denies one that the controller can do without.",
    "resource",
)
RELISTS = counter("reflector_relists", "Lists after the first.", "resource")
REPEATED_PAGES = counter(
    "reflector_repeated_pages",
    "Pages of lists that were requested again, as the API server or a proxy answered otherwise.",
    "resource",
)
RECONNECTS = counter("reflector_reconnects", "Watches opened after the first.", "resource")
EVENTS = counter("reflector_events", "Watch events applied.", "resource")
MALFORMED = counter(
    "reflector_malformed", "Objects and events that could not be read and were skipped.", "resource"
)

NOT_NEEDED = "not needed"

_MIN_WATCH_S = 1.0
_OF_LIMITED = 0.8
"""A server's second began before the headers of its watch arrived."""
_LONG_ENOUGH_S, _FIRST_WAIT_S = 5.0, 0.2
"""A watch that breaks after so long is opened anew at once, but for a jitter."""
_HEALTHY_S = 3.0
"""A list whose watch lived so long did not bring the API server down."""
_MOST_OF_RETRY_AFTER = 1.25
"""A call waits for at most so many times the wait that the server asks for.

An API server that starts asks for a second for each kind whose cache it has not filled.
"""
_MAX_EMPTY_WATCHES = 3
_AT_ITS_END_S = 0.5
"""Headers that come so shortly before the end of a watch were kept back until then."""
_RELIST_REASONS = frozenset({StopReason.GONE, StopReason.FAILED, StopReason.REJECTED})
_ANSWERS = frozenset({StopReason.GONE, StopReason.REJECTED})
"""How calls end that an API server has answered: it serves again, whatever other calls met."""
_OUTAGES = frozenset(
    {
        StopReason.UNREACHABLE,
        StopReason.BROKEN,
        StopReason.IDLE_TIMEOUT,
        StopReason.THROTTLED,
        StopReason.UNAUTHORIZED,
        StopReason.DENIED,
    }
)
"""How calls end while the API server is down or starts, or a proxy stands before it."""
_INTERRUPTIONS = frozenset(
    {
        StopReason.UNREACHABLE,
        StopReason.BROKEN,
        StopReason.IDLE_TIMEOUT,
        StopReason.THROTTLED,
    }
)
"""How calls end that a proxy cut or refused; the next one may be served."""
_NOT_STREAMING_ERRORS = frozenset(
    {StopReason.UNREACHABLE, StopReason.THROTTLED, StopReason.UNAUTHORIZED, StopReason.GONE}
)


class ReflectorStatus(Struct, gc=False):
    """One reflector's state, for `/readyz?verbose` and the metrics.

    `state` is one of starting, not needed, listing, swapping, connecting, watching and waiting;
    `synced` means that a watch is open, or was less than `KEPT_FOR_S` ago and is being reopened, on
    a complete list.
    `is_dispensable` says that the API server denies it and the controller goes on without. The
    `resource_version` is that of the last list, bookmark or end of a watch.
    """

    kind: str
    path: str
    state: str = "starting"
    synced: bool = False
    is_dispensable: bool = False
    resource_version: str = ""
    last_error: str = ""
    failures: int = 0
    completed_lists: int = 0
    relists: int = 0
    repeated_pages: int = 0
    watches: int = 0
    reconnects: int = 0
    events: int = 0
    bookmarks: int = 0
    malformed: int = 0


class _Cycle(Struct, gc=False):
    """One cycle so far, from the resume point to the end of its watch.

    `after_silence` says that a streaming list brought nothing in time: the watch after the list in
    pages is short. `opened_at` is when the watch began (monotonic seconds), None before. `watch_s`
    is for how long it was requested; `is_limited` says that a proxy cuts what lasts longer,
    `is_live` that the long watch shows what happens.
    """

    after_silence: bool = False
    opened_at: float | None = None
    watch_s: float = 0.0
    is_limited: bool = False
    got_bookmark: bool = False
    got_event: bool = False
    is_live: bool = False


class Reflector(WatchEventHandler[T]):
    """The list-watch loop of one resource; `run` never returns and raises nothing but bugs."""

    def __init__(  # noqa: PLR0913 -- the last three are shared by all reflectors of a session
        self,
        session: Transport,
        codec: Codec[T],
        store: ReflectorStore[T],
        *,
        clock: Clock | None = None,
        rng: Random | None = None,
        settings: ReflectorSettings | None = None,
        probe: ServerProbe | None = None,
        epoch: Epoch | None = None,
        late_watches: LateWatches | None = None,
    ) -> None:
        self.status = ReflectorStatus(codec.kind, codec.path)
        self._session = session
        self._path, self._resource = codec.path, codec.resource
        self._store = store
        self._clock = clock or SystemClock()
        self._rng = rng or Random()  # noqa: S311  jitter is no secret
        self._settings = settings or ReflectorSettings()
        self._outage_backoff = ExponentialBackoff(self._rng, self._settings.backoff)
        self._answer_backoff = ExponentialBackoff(self._rng, self._settings.backoff)
        self._relist_backoff = ExponentialBackoff(self._rng, self._settings.backoff)
        self._lister = Lister(
            session,
            codec,
            self._on_malformed,
            self._clock,
            store.reuse,
            rng=self._rng,
            on_repeat=self._on_page_repeat,
        )
        self._epoch = epoch or Epoch()
        self._watch_epoch = self._epoch.number
        self._reader = WatchReader(codec, self._on_malformed, self._clock, self._epoch)
        self._resume_point = ResumePoint()
        self._stale_reason: str | None = None
        self._list_began_at = float("-inf")
        self._as_of = float("-inf")
        """The objects are those of this moment, or later ones, while no watch is live."""
        self._relisted_at_once_at = float("-inf")
        self._was_synced_since_list = False
        self._was_healthy_since_list = False
        self._recoveries_at_list = 0
        self._streaming_off_until = float("-inf")
        self._cycle = _Cycle()
        self._empty_watches = self._denials = 0
        self._idle_cuts = IdleCuts()
        self._probe = probe or ServerProbe(session, self._clock)
        self._late_watches = late_watches or LateWatches(self._clock)
        self._silence = SilenceCheck(
            session, codec, self._clock, self._late_watches, self._settings.silent_s
        )
        self._reopening = Reopening(self._clock, self._give_up_reopening)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the resource's list and watch."""
        resource, status = self._resource, self.status
        if status.state != NOT_NEEDED and not status.is_dispensable:
            yield SYNCED.value(status.synced, resource)
        yield RELISTS.value(status.relists, resource)
        yield REPEATED_PAGES.value(status.repeated_pages, resource)
        yield RECONNECTS.value(status.reconnects, resource)
        yield EVENTS.value(status.events, resource)
        yield MALFORMED.value(status.malformed, resource)

    async def run(self) -> None:
        """List and watch, until cancelled."""
        async with anyio.create_task_group() as beside:
            beside.start_soon(self._reopening.run)
            await self._run()

    async def _run(self) -> None:
        while True:
            self._cycle = _Cycle()
            recoveries = self._probe.recoveries
            ending = await self._list_or_watch()
            if self._cycle.opened_at is not None:
                recoveries = self._probe.recoveries
            await self._recover(ending, recoveries)

    async def stop(self) -> None:
        """Drop the objects, after `run` was cancelled; the next `run` lists the resource again."""
        self._store.begin_replace()
        await self._remove_unlisted(self._settings.relist.steps_per_slice)
        self._store.end_replace()
        self._resume_point.reset()
        self._late_watches.note_stale(self._path)
        self._reopening.end()
        self.status.state, self.status.synced = NOT_NEEDED, False

    # --- one cycle: from the resume point to the end of a watch ---

    async def _list_or_watch(self) -> WatchEnd:
        if self._resume_point.can_resume:
            return await self._watch()
        can_stream = self._settings.streaming and not self._late_watches.are_late
        if can_stream and self._clock.now() >= self._streaming_off_until:
            ending = await self._stream_list_and_watch()
            if not self._needs_paged_list(ending):
                return ending
            self._cycle = _Cycle(after_silence=ending.reason is StopReason.IDLE_TIMEOUT)
        return await self._list_and_watch()

    def _needs_paged_list(self, ending: WatchEnd) -> bool:
        """Say whether a streaming list failed in a way that a paged list may not fail."""
        if self._resume_point.can_resume or ending.reason in _NOT_STREAMING_ERRORS:
            return False
        if ending.reason in (StopReason.REJECTED, StopReason.IDLE_TIMEOUT):
            self._streaming_off_until = self._clock.now() + self._settings.streaming_retry_s
        return True

    async def _list_and_watch(self) -> WatchEnd:
        self._begin_list()
        sizes = (
            self._settings.relist if self.status.completed_lists else self._settings.initial_list
        )
        staged = await self._lister.list_all(sizes)
        if isinstance(staged, WatchEnd):
            return staged
        if not self._resume_point.accepts(staged.resource_version):
            return self._version_regressed(staged.resource_version)
        await self._replace_store(staged.items, staged.resource_version)
        return await self._watch()

    async def _stream_list_and_watch(self) -> WatchEnd:
        """Read the initial events of a streaming list, replace the store, and read on."""
        self._begin_list()
        initial_list: InitialList[T] = InitialList(self._path, self._store.reuse)
        initial = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        params, first_byte_s = self._watch_params() | initial, self._settings.first_byte_s
        try:
            async with self._open_watch(params, first_byte_s) as reply:
                if not isinstance(reply, WatchStream):
                    return self._end_from_refusal(reply)
                self._cycle.opened_at = self._clock.now()
                received, idle_s = reply.received_bytes, self._settings.initial_idle_s
                ending = await self._reader.read(
                    reply, initial_list, lambda: idle_s if received() else first_byte_s
                )
                if ending.reason is not StopReason.INITIAL_EVENTS_DONE:
                    return ending
                if not self._resume_point.accepts(initial_list.resource_version):
                    return self._version_regressed(initial_list.resource_version)
                await self._replace_store(initial_list.changes, initial_list.resource_version)
                return await self._read_unless_outdated(reply)
        except (Unreachable, RateLimited) as error:
            ending = end_from_error(error)
            if not ending.is_late:
                return ending
            return WatchEnd(StopReason.IDLE_TIMEOUT, ending.message)  # a list may come whole

    async def _watch(self) -> WatchEnd:
        self.status.state = "connecting"
        requested_at = self._clock.now()
        params = self._watch_params() | {"resourceVersion": self._resume_point.resource_version}
        is_short = self._is_short
        try:
            async with self._open_watch(params) as reply:
                if not isinstance(reply, WatchStream):
                    return self._end_from_refusal(reply)
                if is_short:
                    return await self._read_short_watch(reply, requested_at)
                return await self._read_unless_outdated(reply)
        except (Unreachable, RateLimited) as error:
            if isinstance(error, Unreachable) and error.is_late and not is_short:
                return await self._silence.after_no_headers(self._resume_point, str(error))
            return end_from_error(error)

    async def _read_short_watch(self, stream: WatchStream, requested_at: float) -> WatchEnd:
        """Read a watch that the server ends soon; the objects are as of its end."""
        self._cycle.opened_at = requested_at
        self._cycle.got_event = True  # it counts whether it brings something or not
        self.status.state = "watching"
        self.status.reconnects += self.status.watches > 0
        self.status.watches += 1
        headers_at = self._clock.now()
        ending = await self._reader.read(stream, self, self._idle_limit_s)
        if ending.reason is StopReason.CLEAN and not self._is_outdated:
            at_its_end = requested_at + self._cycle.watch_s - _AT_ITS_END_S
            came_together = self._clock.now() - headers_at < _AT_ITS_END_S
            if came_together and headers_at >= at_its_end and not self._late_watches.are_late:
                self._late_watches.note_no_headers(self._path)
            ends_at = requested_at + self._cycle.watch_s  # at the earliest, unless it is cut short
            self._mark_synced(as_of=ends_at if self._clock.now() >= ends_at else requested_at)
        return ending

    @property
    def _is_short(self) -> bool:
        return self._late_watches.are_late or self._cycle.after_silence

    def _open_watch(
        self, params: dict[str, str], open_s: float | None = None
    ) -> AbstractAsyncContextManager[WatchStream | ApiResponse]:
        self._enter_epoch()
        return self._session.stream(self._path, params, open_s=open_s)

    def _begin_list(self) -> None:
        self._enter_epoch()
        self._list_began_at = self._clock.now()
        self.status.state = "listing"

    def _enter_epoch(self) -> None:
        """Note in which epoch a request is sent; the objects of an earlier one are not trusted.

        An epoch ends when this process was suspended: what happened meanwhile may not be read yet,
        and the connection may be dead. The store counts as synced again when a watch that was
        opened afterwards has been open for a while.
        """
        if self._is_outdated:
            self._watch_epoch = self._epoch.number
            self._list_began_at = self._as_of = float("-inf")
            self.status.last_error = self._epoch.reason
            if self.status.synced:
                self._mark_stale(self._epoch.reason)

    @property
    def _is_outdated(self) -> bool:
        return self._watch_epoch != self._epoch.number

    async def _read_unless_outdated(self, stream: WatchStream) -> WatchEnd:
        """Read a watch to its end; one that was requested in an earlier epoch is opened again."""
        if not self._is_outdated:
            ending = await self._read_watch(stream)
        return WatchEnd(StopReason.REOPENED, self._epoch.reason) if self._is_outdated else ending

    async def _read_watch(self, stream: WatchStream) -> WatchEnd:
        self._cycle.opened_at = opened_at = self._clock.now()
        self.status.reconnects += self.status.watches > 0
        self.status.watches += 1
        self.status.state = "watching"
        is_confirmed = opened_at - self._as_of <= self._settings.sync_delay_s
        if is_confirmed:
            self._mark_synced(LIVE)

        async def watch_over() -> WatchEnd | None:
            if not is_confirmed:
                ending = await self._mark_synced_after_delay(stream)
                if ending is not None:
                    return ending
            return await self._silence.run(stream, self._resume_point)

        ending = await self._reader.read(stream, self, self._idle_limit_s, watch_over)
        self._note_read(ending, opened_at)
        return ending

    def _note_read(self, ending: WatchEnd, opened_at: float) -> None:
        """Note of which moment the objects are, now that a long watch has ended.

        A server has sent what was missed before it ends a watch itself. Of one that broke it is not
        known what was on its way; what was missed before it came in the time of the delay.
        """
        now, cycle = self._clock.now(), self._cycle
        lived_s = now - opened_at
        if self._is_outdated:
            return
        if ending.reason is StopReason.CLEAN and self._has_lived(lived_s):
            if cycle.is_live or cycle.is_limited:
                self._mark_synced(now)
        elif cycle.is_live:
            if lived_s >= self._settings.sync_delay_s:
                self._as_of = max(self._as_of, opened_at)
            self._late_watches.note_in_sync(self._path, self._as_of)

    def _has_lived(self, lived_s: float) -> bool:
        """Say whether a watch ended no sooner than it was requested to, or lived long enough."""
        wanted_s = min(_MIN_WATCH_S, self._cycle.watch_s) if self._cycle.is_limited else 0.0
        return lived_s >= (_OF_LIMITED * wanted_s or _MIN_WATCH_S)

    async def _mark_synced_after_delay(self, stream: WatchStream) -> WatchEnd | None:
        """Mark older objects synced once missed changes, or a 410, have had time to arrive."""
        ending: WatchEnd | None = None

        async def confirm() -> None:
            nonlocal ending
            ending = await self._silence.confirm(stream, self._resume_point)

        async with anyio.create_task_group() as both:
            both.start_soon(confirm)
            both.start_soon(self._clock.sleep, self._settings.sync_delay_s)
        if ending is None and not self._is_outdated:
            self._mark_synced(LIVE)
        return ending

    def _mark_synced(self, as_of: float) -> None:
        """Count the objects as those of this moment; LIVE of what an open long watch shows."""
        self._cycle.is_live = as_of == LIVE
        if not self._cycle.is_live:
            self._as_of = as_of
        self._late_watches.note_in_sync(self._path, as_of)
        self._reopening.end()
        self._stale_reason = None
        self._was_synced_since_list = True
        self._probe.report_success()
        if not self.status.synced:
            self.status.synced = True
            self._denials = 0
            self.status.is_dispensable = False
            self._store.mark_synced()

    def _watch_params(self) -> dict[str, str]:
        if self._is_short:
            length_s = self._late_watches.length_s(is_synced=self.status.synced)
            self._cycle.watch_s, self._cycle.is_limited = length_s, length_s <= _MIN_WATCH_S
        else:
            wanted_s = self._settings.watch_s * (1.0 + self._rng.random())
            self._cycle.watch_s = self._idle_cuts.limit_s(wanted_s, self._clock.now())
            self._cycle.is_limited = self._cycle.watch_s < wanted_s
        return {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(self._cycle.watch_s)),
        }

    def _end_from_refusal(self, reply: ApiResponse) -> WatchEnd:
        return end_from_response(reply, f"watch {self._path}", self._clock.wall())

    def _idle_limit_s(self) -> float:
        if self._cycle.got_bookmark:
            return self._settings.idle_after_bookmark_s
        return self._cycle.watch_s + self._settings.idle_slack_s

    # --- events ---

    def apply(self, event: WatchEvent[T]) -> WatchEnd | None:
        """Apply one event of a watch to the store; the hot path."""
        if event.object is None:
            return self._apply_control_event(event)
        version, resume_point = event.resource_version, self._resume_point
        last = resume_point.resource_version
        if version == last:
            return None  # sent twice
        if (version < last or len(version) < len(last)) and is_older(version, last):
            return self._version_regressed(version)
        if event.type == "DELETED":
            self._store.remove(event.object)
        else:
            self._store.upsert(event.object)
        resume_point.at_event(version)
        self._cycle.got_event = True
        self.status.events += 1
        return None

    def _apply_control_event(self, event: WatchEvent[T]) -> WatchEnd | None:
        if event.type == "ERROR":
            return end_from_status(event.status, f"watch {self._path}")
        if event.type == "BOOKMARK":
            self._cycle.got_bookmark = self._cycle.got_event = True
            self.status.bookmarks += 1
            self._resume_point.at_bookmark(event.resource_version)
            self.status.resource_version = self._resume_point.resource_version
        return None

    def _version_regressed(self, version: str) -> WatchEnd:
        return WatchEnd(
            StopReason.FAILED, f"{self._path}: the server went back in time to {version}"
        )

    async def _replace_store(self, changes: deque[T] | deque[T | Deleted[T]], version: str) -> None:
        """Replace the store's objects by those of a new list, slice by slice; empties `changes`.

        What stayed as long as the watch would keep every object that has changed since.
        """
        self._probe.report_success()
        self.status.state = "swapping"
        sizes = (
            self._settings.relist if self.status.completed_lists else self._settings.initial_list
        )
        yielder = Yielder(self._clock, sizes.steps_per_slice)
        self._store.begin_replace()
        while changes:
            size = min(yielder.steps, len(changes))
            self._store_slice([changes.popleft() for _ in range(size)])
            await yielder.yield_now()
        await self._remove_unlisted(sizes.steps_per_slice)
        self._store.end_replace()
        self._resume_point.at_list(version)
        self._as_of = self._list_began_at
        self._was_synced_since_list = self._was_healthy_since_list = False
        self._recoveries_at_list = self._probe.recoveries
        self.status.resource_version = version
        self.status.relists += self.status.completed_lists > 0
        self.status.completed_lists += 1

    async def _remove_unlisted(self, steps_per_slice: int) -> None:
        yielder = Yielder(self._clock, steps_per_slice)
        for _ in self._store.remove_unlisted():
            if yielder.slice_over():
                await yielder.yield_now()

    def _store_slice(self, changes: Sequence[T | Deleted[T]]) -> None:
        objs = [change for change in changes if not isinstance(change, Deleted)]
        if len(objs) == len(changes):
            self._store.upsert_many(objs)
            return
        for change in changes:
            if isinstance(change, Deleted):
                self._store.remove(change.obj)
            else:
                self._store.upsert(change)

    def _on_page_repeat(self, ending: WatchEnd) -> None:
        self.status.repeated_pages += 1
        self.status.last_error = ending.message
        if not self.status.synced:
            self._mark_stale(ending.message)

    def _on_malformed(self, error: Malformed) -> None:
        self.status.malformed += 1
        self._store.report_malformed(error)

    # --- failures ---

    async def _recover(self, ending: WatchEnd, recoveries: int) -> None:
        """Decide whether the objects are stale, from where to resume, and how long to wait."""
        self.status.resource_version = self._resume_point.resource_version
        if ending.reason is StopReason.REOPENED:
            self._keep_in_sync()
            return
        cycle, lived_s = self._cycle, 0.0
        if cycle.opened_at is not None:
            lived_s = self._clock.now() - cycle.opened_at
            if ending.reason is StopReason.BROKEN and not cycle.got_event:
                self._idle_cuts.note(lived_s, self._clock.now())
            self._note_interruption(ending)
            is_empty = not (cycle.got_event or cycle.is_limited or self._is_interrupted(ending))
            self._empty_watches = self._empty_watches + 1 if is_empty else 0
        self._reset_backoffs(lived_s)
        if ending.reason in _ANSWERS:
            self._probe.report_success()
        if ending.reason in _RELIST_REASONS or self._empty_watches >= _MAX_EMPTY_WATCHES:
            self._resume_point.reset()
            self._empty_watches = 0
        elif ending.reason is StopReason.CLEAN and self._has_lived(lived_s):
            self._keep_in_sync()
            return
        self._record_failure(ending)
        wait_s = self._wait_s(ending, lived_s)
        if ending.reason in _OUTAGES and ending.retry_after_s is None:
            if await self._probe.wait(wait_s, recoveries):
                self._outage_backoff.reset()
        elif wait_s > 0:
            await self._clock.sleep(wait_s)

    def _reset_backoffs(self, lived_s: float) -> None:
        """Forget failures after a watch that lived, and of relists after one that lived long."""
        if lived_s >= _MIN_WATCH_S:
            self._outage_backoff.reset()
            self._answer_backoff.reset()
        if lived_s >= _HEALTHY_S:
            self._was_healthy_since_list = True
        if lived_s >= self._settings.min_relist_interval_s:
            self._relist_backoff.reset()

    def _record_failure(self, ending: WatchEnd) -> None:
        self.status.state = "waiting"
        self.status.failures += 1
        self.status.last_error = ending.message
        is_young = self._clock.now() < self._as_of + KEPT_FOR_S
        if self.status.synced and is_young and self._is_interrupted(ending):
            self._reopening.begin(self._as_of + KEPT_FOR_S)
        else:
            self._mark_stale(ending.message)

    def _note_interruption(self, ending: WatchEnd) -> None:
        if (self.status.synced or self._is_short) and ending.reason in _INTERRUPTIONS:
            self._late_watches.interruptions.note(self._path)

    def _is_interrupted(self, ending: WatchEnd) -> bool:
        """Say whether a call ended as so many do that the kind stays in sync meanwhile."""
        return self._late_watches.interruptions.are_frequent and ending.reason in _INTERRUPTIONS

    def _keep_in_sync(self) -> None:
        """Let the kind stay in sync, if it is, while the next watch is opened."""
        if self.status.synced:
            self._reopening.begin(self._clock.now() + KEPT_FOR_S)

    def _give_up_reopening(self) -> None:
        """Mark the objects stale: no watch was opened in time."""
        self._mark_stale(
            f"watch {self._path}: it is not open again after {KEPT_FOR_S:.0f} s"
            f"{self.status.last_error and f'; last came: {self.status.last_error}'}"
        )

    def _mark_stale(self, reason: str) -> None:
        self._reopening.end()
        self.status.synced = False
        self._late_watches.note_stale(self._path)
        if self._stale_reason != reason:
            self._stale_reason = reason
            self._store.mark_stale(reason)

    def _wait_s(self, ending: WatchEnd, lived_s: float) -> float:
        now = self._clock.now()
        if ending.reason is StopReason.DENIED:
            self._denials += 1
            if self._denials > TOLERATED_DENIALS:
                self.status.is_dispensable = self._store.mark_denied(ending.message)
                return self._settings.denied_retry_s * (1.0 + self._rng.random())
        if ending.reason is StopReason.CLEAN and self._cycle.got_event:
            return max(_MIN_WATCH_S - lived_s, 0.0) + self._rng.random() / 2
        if ending.reason is StopReason.GONE:
            return self._relist_wait_s(now)
        if ending.reason is StopReason.LATE:
            return 0.0
        if ending.retry_after_s is not None:
            wait_s, asked_s = self._answer_backoff.next_wait_s(now), ending.retry_after_s
            return max(min(wait_s, _MOST_OF_RETRY_AFTER * asked_s), asked_s)
        if ending.reason is StopReason.BROKEN and lived_s >= _LONG_ENOUGH_S:
            return self._rng.random() * _FIRST_WAIT_S
        if self.status.synced and self._is_interrupted(ending):
            self._outage_backoff.reset()  # others are served meanwhile
        is_outage = ending.reason in _OUTAGES
        return (self._outage_backoff if is_outage else self._answer_backoff).next_wait_s(now)

    def _relist_wait_s(self, now: float) -> float:
        """Return how long to wait before a new list, now that the history is gone.

        An API server that was restarted has no history, however young the last list is: the first
        new list after objects that were in sync is due at once, and so is each one after an outage
        that began when the watch of the last list had lived for a while. Another that follows soon
        has waits of its own, which an outage does not lengthen.
        """
        is_first = now - self._relisted_at_once_at >= self._settings.min_relist_interval_s
        was_down = self._probe.recoveries != self._recoveries_at_list
        if self._was_synced_since_list and (
            is_first or (self._was_healthy_since_list and was_down)
        ):
            self._relisted_at_once_at = now
            return 0.0
        return self._relist_backoff.next_wait_s(now)
