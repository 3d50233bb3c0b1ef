"""Records what the cluster state is given, beside it: nothing waits for the recording.

A follower of the state notes each change; a task turns notes into rows, in slices of the event loop
of half a millisecond, and a thread compresses and writes them. Where that falls behind, or the disk
takes nothing, the recording is interrupted, and begins again with a picture some time later.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from itertools import chain
from math import inf, isfinite
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from reactive_desched._version import __version__
from reactive_desched.api.index import NodeState
from reactive_desched.model.changes import Change
from reactive_desched.model.objects import Node, Pod
from reactive_desched.model.usage import NodeMetric, NodeUsage
from reactive_desched.recording.items import (
    NO_TIME,
    STANDING,
    STOPPED,
    Instant,
    Item,
    NodeSeen,
    PictureBegun,
    PictureEnded,
    RecordingInterrupted,
    ResourceDenied,
    UsageMeasured,
)
from reactive_desched.recording.rows import RowWriter
from reactive_desched.recording.segment_file import SegmentFile
from reactive_desched.recording.segments import recorded_cluster
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.resources import WATCHED_KINDS
from reactive_desched.telemetry.logs import Logger
from reactive_desched.telemetry.metrics import Metric, counter, gauge

RECORDED = counter("recording_items", "Changes and other items that were recorded.")
INTERRUPTIONS = counter(
    "recording_interruptions", "How often the recording was interrupted; see its status."
)
BYTES = gauge("recording_bytes", "Size of the recording on disk.")
HEALTHY = gauge("recording_healthy", "1 while what the controller sees is recorded.")

MAX_NOTES: Final = 50_000
"""So many changes wait to be turned into rows; with more the recording is interrupted."""
FRAME_BYTES: Final = 2**18
"""A frame is written when its rows are so long, or `FLUSH_S` after its first."""
FLUSH_S: Final = 5.0
RETRY_S: Final = 60.0
"""So long after an interruption the recording begins again."""
QUIET_S: Final = 30.0
"""So often the time is written where nothing happens: it says that nothing did."""

_SLICE_S: Final = 0.0005
_PAUSE_S: Final = 0.005
_SHORT_PAUSE_S: Final = 0.001
_BEHIND: Final = 2_000
"""With more changes that wait the pauses between slices are short: before they are too many."""
_TICK_S: Final = 0.25
_IDLE_S: Final = 2.0
"""So often what holds besides the objects is looked at where nothing is noted."""
_NOTES_PER_LOOK: Final = 16
_CLOCK_ERROR_S: Final = 0.001

_ADDED, _MODIFIED, _DELETED = 1, 2, 3

_RESOURCES: Final = {kind.record: name for name, kind in WATCHED_KINDS.items()}
_OF_EVERY_VERSION: Final = frozenset(
    kind.record for kind in WATCHED_KINDS.values() if kind.announces_every_version
)
"""The kinds of which a new version wakes findings, whatever it differs in."""

Moment = tuple[float, float]
"""Monotonic seconds and the time of day, of one moment."""

RunBlocking = Callable[[Callable[[], Any]], Awaitable[Any]]  # what the call returns
"""Runs a call that blocks beside the event loop, one at a time."""


class _DiskWorker:
    """Runs one call after the other in threads; the caller may go, and leave a thread behind.

    The next call waits until that thread is done: two never use the disk at a time.
    """

    def __init__(self) -> None:
        self._limiter = anyio.CapacityLimiter(1)

    async def __call__(self, work: Callable[[], Any]) -> Any:  # what the call returns
        """Return or raise what the call does."""
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._limiter)


class RecorderBounds(Struct, frozen=True):
    """The size and the age at which a recording is shortened, and a segment ends."""

    max_bytes: int
    max_age_s: float
    segment_bytes: int
    segment_age_s: float


class ClusterName(Struct, frozen=True):
    """The cluster that is recorded."""

    name: str = ""
    uid: str = ""


UNNAMED_CLUSTER: Final = ClusterName()


class _Interrupted(Exception):  # noqa: N818 -- it ends a segment, and is no error of the program
    """The recording cannot go on."""


class ClusterRecorder:
    """Records one cluster state while `run` runs; `note` takes what the state does not have.

    `standing` returns the items that hold besides the objects, such as the policy in force: they
    stand in each picture. `fault` says why nothing is recorded, and is empty while it is.
    """

    def __init__(
        self,
        state: ClusterState,
        folder: Path,
        bounds: RecorderBounds,
        standing: Callable[[Instant], Iterator[Item]],
        *,
        moment: Callable[[], Moment],
        log: Logger,
        cluster: ClusterName = UNNAMED_CLUSTER,
        run_blocking: "RunBlocking | None" = None,
    ) -> None:
        self._state = state
        self._folder = folder
        self._bounds = bounds
        self._standing = standing
        self._moment = moment
        self._log = log
        self._cluster = cluster
        self._file = SegmentFile(folder, bounds.max_bytes, bounds.max_age_s)
        self._run_blocking = run_blocking or _DiskWorker()
        self._notes: deque[_Note] = deque()
        self._first_note: anyio.Event | None = None  # set by a note, while `run` waits for one
        self._denied: set[str] = set()  # as of the last note that was written
        self._rows = RowWriter()
        self._offset_s = 0.0  # what the time of day is ahead of monotonic seconds
        self._following: ExitStack | None = None
        self._is_first_picture = False
        self._has_overflowed = False
        self._has_picture = False  # the segment has every object that the state has
        self._stood: dict[tuple[type[Item], str], Item] = {}
        self.fault = "it has not begun"
        self.recorded = 0
        self.interruptions = 0
        self.total_bytes = 0

    @property
    def folder(self) -> Path:
        """Return the folder of the recording."""
        return self._folder

    def collect(self) -> Iterator[Metric]:
        """Yield how much was recorded, and whether it is."""
        yield RECORDED.value(self.recorded)
        yield INTERRUPTIONS.value(self.interruptions)
        yield BYTES.value(self.total_bytes)
        yield HEALTHY.value(not self.fault)

    def note(self, make: Callable[[Instant], Item]) -> None:
        """Record an item that is seen now."""
        if self._following is None:
            return
        if len(self._notes) < MAX_NOTES:
            self._notes.append((self._moment(), None, make))
        else:
            self._has_overflowed = True
        if self._first_note is not None:
            self._first_note.set()

    def _follow(self, old: Any, new: Any) -> tuple[Change, ...]:  # objects of any kind
        """Note a change of the state: this is on the way of each change."""
        if len(self._notes) < MAX_NOTES:
            self._notes.append((self._moment(), old, new))
        else:
            self._has_overflowed = True
        if self._first_note is not None:
            self._first_note.set()
        return ()

    def _note_denial(self, resource: str, is_denied: bool) -> None:  # noqa: FBT001 -- it is called by the place of its arguments
        self.note(partial(ResourceDenied, resource=resource, is_denied=is_denied))

    def begin(self) -> None:
        """Note from now on what changes; `run` writes it.

        What holds besides the objects is noted as it is now, before all that changes.
        """
        if self._following is None:
            self._notes.clear()
            self._has_overflowed = False
            self._following = ExitStack()
            self._following.enter_context(self._state.followed_by(self._follow))
            self._following.enter_context(self._state.denials_followed_by(self._note_denial))
            self._denied = set(self._state.unreadable())
            for item in self._standing(NO_TIME):
                self.note(partial(_with_time, item))

    def _end(self) -> None:
        """Note nothing more."""
        following, self._following = self._following, None
        if following is not None:
            following.close()
        self._notes.clear()
        self._rows = RowWriter()

    async def run(self) -> None:
        """Record until cancelled; what the disk does not take in time is left out."""
        try:
            while True:
                reason = await self._record_until_interrupted()
                self.interruptions += 1
                self.fault = reason
                self._log.warning("the recording is interrupted", message=reason)
                await anyio.sleep(RETRY_S)
        finally:
            self._end()
            self.fault = "it has ended"
            with anyio.move_on_after(_LAST_WRITE_S, shield=True), suppress(OSError):
                await self._run_blocking(self._file.close)

    async def _record_until_interrupted(self) -> str:
        """Record segment after segment; return why it cannot go on."""
        is_continued = False
        try:
            self.begin()
            while True:
                await self._record_segment(is_continued=is_continued)
                is_continued = True
        except OSError as error:
            return f"{self._folder}: {error.strerror or error}"
        except _Interrupted as error:
            await self._write_end(str(error))
            return str(error)
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(_LAST_WRITE_S, shield=True), suppress(Exception):
                self._write_notes(inf)
                self._write_standing()
                await self._write_end(STOPPED)
            raise
        except Exception as error:  # noqa: BLE001 -- whatever fails here, evictions go on
            return f"{type(error).__name__}: {error}"
        finally:
            self._end()

    async def _write_end(self, reason: str) -> None:
        """Write that the recording ends here, if the disk takes it.

        It has a frame of its own, whose time shows that the time of day was set in the one before.
        A disk that did not even open a segment has none to take it.
        """
        if not self._file.is_open:
            return
        with suppress(OSError, _Interrupted):
            await self._flush()
            self._rows.add(RecordingInterrupted(self._now(), reason))
            await self._flush()

    async def _record_segment(self, *, is_continued: bool) -> None:
        """Write a picture, and then what changes, until the segment is long enough.

        What was noted before the first picture is a part of it.
        """
        if is_continued:
            await self._drain()
        await self._flush()
        self._rows = RowWriter()
        at = self._notes_begin()
        if not is_continued:
            await self._in_thread(self._refuse_other_cluster)
        await self._in_thread(partial(self._file.begin, at, is_continued=is_continued))
        self._is_first_picture = not is_continued
        await self._write_picture(at, is_continued=is_continued)
        self._is_first_picture = False
        if self.fault:
            self.fault = ""
            self._log.info("what the controller sees is recorded", folder=str(self._folder))
        began, written, flushed = self._clock(), 0, self._clock()
        while written < self._bounds.segment_bytes:
            await self._wait_for_notes()
            written += await self._drain()
            self._write_standing()
            now = self._clock()
            has_rows = self._rows.at is not None
            if now - flushed >= (FLUSH_S if has_rows else QUIET_S):
                written += await self._flush(writes_time=True)
                flushed = now
            if now - began >= self._bounds.segment_age_s:
                return

    def _refuse_other_cluster(self) -> None:
        """Raise OSError where the folder has the recording of another cluster."""
        mine, found = self._cluster, recorded_cluster(self._folder)
        if found is not None and mine.uid not in ("", found.cluster_uid):
            raise OSError(
                0,
                f"it has the recording of cluster {found.cluster} ({found.cluster_uid}), and this"
                f" is {mine.name} ({mine.uid}): set `recording.directory` to a folder of its own",
            )

    async def _write_picture(self, at: Instant, *, is_continued: bool) -> None:
        """Write every object, in slices; what changes meanwhile is written where it happens."""
        self._has_picture = False
        rows = self._rows
        begun = PictureBegun(
            at,
            __version__,
            self._cluster.name,
            self._cluster.uid,
            tuple(sorted(self._denied)),
            is_continued=is_continued,
        )
        rows.add(begun)
        self._stood.clear()
        if is_continued:
            self._write_standing()
        await self._drain()  # what was noted before the picture was begun, or holds at the first
        self._write_standing()
        counts = dict.fromkeys(WATCHED_KINDS, 0)
        for sample in list(self._state.store(NodeUsage)):
            rows.add(UsageMeasured(self._now(), sample))
        await self._end_slice()
        for resource in WATCHED_KINDS:
            keys = chain.from_iterable(self._state.key_batches(resource))
            while True:
                await self._drain()  # they come before what is found now
                if not (found := self._write_objects(resource, keys)):
                    break
                counts[resource] += found
                await self._end_slice()
        await self._drain()
        self._has_picture = True
        rows.add(PictureEnded(self._now(), {name: each for name, each in counts.items() if each}))
        await self._flush()

    def _write_objects(self, resource: str, keys: Iterator[str]) -> int:
        """Write objects for one slice; return how many."""
        now = self._now()
        get, add, clock = self._state.get, self._rows.add_object, self._clock
        ends, count = now.monotonic_s + _SLICE_S, 0
        for key in keys:
            count += 1
            if (obj := get(resource, key)) is not None:
                add(now, resource, 0, obj)
                if isinstance(obj, Node):
                    self._write_times(now, obj.name)
            if count % _NOTES_PER_LOOK == 0 and clock() >= ends:
                break
        self._rows.encode()
        return count

    def _write_times(self, at: Instant, name: str) -> None:
        """Write since when a node has its taints and labels: the node itself does not say it."""
        if (seen := self._state.nodes.standing.seen(name)) is not None:
            self._rows.add(
                NodeSeen(
                    at,
                    name,
                    seen.known_since,
                    seen.created,
                    seen.ready_since,
                    tuple(seen.taints.items()),
                    tuple((key, since, value) for key, (since, value) in seen.labels.items()),
                    self._order_of_pods(name),
                    tuple(seen.conditions.items()),
                    seen.opened if isfinite(seen.opened) else None,
                )
            )

    def _order_of_pods(self, node: str) -> tuple[str, ...]:
        """Return the pods of a node as they came, where they did not as a list has them."""
        info = self._state.node_info(node) if self._is_first_picture else None
        if info is None:
            return ()
        pods = [(pod.namespace, pod.name) for pod in info.active.values()]
        return () if pods == sorted(pods) else tuple(info.active)

    async def _wait_for_notes(self) -> None:
        """Wait for a note, but `_IDLE_S` at most, and then for those that come shortly after it."""
        if not self._notes:
            self._first_note = anyio.Event()
            with anyio.move_on_after(_IDLE_S):
                await self._first_note.wait()
            self._first_note = None
        await anyio.sleep(_TICK_S)

    async def _drain(self) -> int:
        """Turn the notes into rows, in slices; return how many bytes were written meanwhile."""
        written = 0
        while self._notes:
            self._write_notes(self._clock() + _SLICE_S)
            written += await self._end_slice()
        return written

    async def _end_slice(self) -> int:
        """Let others run; return how many bytes were written meanwhile."""
        if self._has_overflowed:
            raise _Interrupted("changes come faster than they are recorded")
        if len(self._rows) >= FRAME_BYTES:
            return await self._flush()
        is_behind = len(self._notes) > _BEHIND
        await anyio.sleep(_SHORT_PAUSE_S if is_behind else _PAUSE_S)
        return 0

    def _write_notes(self, ends: float) -> None:
        """Turn notes into rows until the slice ends, in monotonic seconds."""
        notes, rows = self._notes, self._rows
        ahead_s, modify_pod, recorded = self._offset_s, rows.modify_pod, 0
        is_row = self._has_picture  # whether a change of a pod is a row, and no whole pod
        for number in range(1, len(notes) + 1):
            (seen_s, wall_s), old, new = notes.popleft()
            if not -_CLOCK_ERROR_S < wall_s - seen_s - ahead_s < _CLOCK_ERROR_S:
                ahead_s = wall_s - seen_s  # the time of day was set, or this is the beginning
            if is_row and type(new) is Pod and type(old) is Pod:  # nearly all of them
                recorded += modify_pod(seen_s, ahead_s, old, new)
            else:
                self._write_note(rows, Instant(seen_s + ahead_s, seen_s), old, new)
            if number % _NOTES_PER_LOOK == 0 and self._clock() >= ends:
                break
        self._offset_s = ahead_s
        self.recorded += recorded
        rows.encode()

    def _write_note(self, rows: RowWriter, at: Instant, old: Any, new: Any) -> None:
        if old is None and callable(new):
            item = new(at)
            if isinstance(item, ResourceDenied):
                if item.is_denied:
                    self._denied.add(item.resource)
                else:
                    self._denied.discard(item.resource)
            self._write_item(item, stands=isinstance(item, STANDING))
            return
        old, new = _plain(old), _plain(new)
        obj = old if new is None else new
        if obj is None or (old is not None and new is not None and _is_same(old, new)):
            return
        self.recorded += 1
        if isinstance(obj, NodeUsage) and not isinstance(obj, NodeMetric):
            rows.add(UsageMeasured(at, obj, is_gone=new is None))
            return
        verb = _DELETED if new is None else _ADDED if old is None else _MODIFIED
        resource = _RESOURCES[type(obj)]
        known = old if self._has_picture else None
        if self._is_first_picture and verb == _MODIFIED:
            rows.add_object(at, resource, 0, old)  # its part may come later: it was so until now
        rows.add_object(at, resource, verb, obj, known)

    def _write_standing(self) -> None:
        """Write what holds besides the objects, as far as it was not written before."""
        at = self._now()
        for item in self._standing(at):
            self._write_item(item, stands=True)
        self._rows.encode()

    def _write_item(self, item: Item, *, stands: bool = False) -> None:
        """Write an item; one that stands is left out where the last of its kind said the same."""
        key = type(item), str(getattr(item, "name", ""))
        if stands or key in self._stood:
            timeless = replace(item, at=NO_TIME)
            if self._stood.get(key) == timeless:
                return
            self._stood[key] = timeless
        self._rows.add(item)
        self.recorded += 1

    def _notes_begin(self) -> Instant:
        """Return when what is not written yet begins."""
        now = self._now()
        if not self._notes:
            return now
        seen_s, wall_s = self._notes[0][0]
        return Instant(wall_s, seen_s)

    def _now(self) -> Instant:
        seen_s, wall_s = self._moment()
        return Instant(wall_s, seen_s)

    def _clock(self) -> float:
        return self._moment()[0]

    async def _flush(self, *, writes_time: bool = False) -> int:
        """Write the rows, or the time alone; return how many bytes were written."""
        taken = self._rows.take()
        if taken is None:
            if not writes_time:
                return 0
            taken = self._now(), b""
        written: int = await self._in_thread(partial(self._file.write, *taken))
        self.total_bytes = self._file.total_bytes
        return written

    async def _in_thread(self, work: Callable[[], Any]) -> Any:  # what the work returns
        """Run what blocks on the disk; a disk that hangs interrupts the recording.

        It is waited for in looks of a second each: a process that does not run for a minute has
        waited for one of them.
        """
        ended, outcomes, errors = anyio.Event(), list[Any](), list[Exception]()

        async def run() -> None:
            try:
                outcomes.append(await self._run_blocking(work))
            except Exception as error:  # noqa: BLE001 -- it is raised below, in no group
                errors.append(error)
            ended.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            for _ in range(_SLOW_DISK_LOOKS):
                with anyio.move_on_after(_LOOK_S):
                    await ended.wait()
                if ended.is_set():
                    break
            tasks.cancel_scope.cancel()
        if errors:
            raise errors[0]
        if not outcomes:
            raise _Interrupted(f"the disk took longer than {_SLOW_DISK_LOOKS * _LOOK_S:.0f} s")
        return outcomes[0]


def _with_time(item: Item, at: Instant) -> Item:
    return replace(item, at=at)


_LOOK_S: Final = 1.0
_SLOW_DISK_LOOKS: Final = 20
_LAST_WRITE_S: Final = 2.0

_Note = tuple[Moment, Any, Any]
"""When a change was seen, and what was there before and after it."""


def _plain(obj: Any) -> Any:  # an object of any kind; a Node comes with its eligibility
    return obj.node if isinstance(obj, NodeState) else obj


def _is_same(old: Any, new: Any) -> bool:  # of any kind
    """Say whether two versions differ in nothing but their version, as after a heartbeat.

    Of a kind whose every version is a change they differ.
    """
    if old is new:
        return True
    if type(new) in _OF_EVERY_VERSION:
        return bool(old == new)
    if isinstance(new, NodeUsage):
        return bool(old == new)
    same: bool = replace(old, resource_version=new.resource_version) == new
    return same
