"""Reads a recording: its items in their order, and the cluster as it was at any moment.

A recording is a folder of segments, as a controller writes them, or one file, as an export or an
import makes it; each function that takes a path takes both, and `recording_paths` has the files.

- The cluster at a moment T: `state, covered_s = state_at(path, t, on_damage)`. The objects are in
  `state.objects["pods"]` and so on by their keys, the measured use in `state.samples`.
- What came after T: `items_between(path, t, until, on_damage)`, with a picture of the cluster at T
  first. Each item has its time, `item.at`; `RecordedState.apply(item)` keeps the state at it.
- Everything in its order: `read_items(recording_paths(path), on_damage)`. At its head stands a
  picture, and in the midst stand others: each segment begins with one (`PictureBegun`). One with
  `is_continued` repeats what the changes before it have said; a `RecordedState` skips it.

Times are seconds since the epoch. A time of day that was set shows some times twice and others not
at all: a moment is then the last at which the clock passed its time (`Passing`).
`on_damage` takes each `Damage` as it is found, and reading goes on with the next segment: for what
is missing until then stands `RecordingInterrupted`, after which the state is not known, and
`RecordedState.missing` says why, up to the end of the next picture.
Raised is `NotRecorded` alone, whose text says what the recording has.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.errors import NotRecorded
from reactive_desched.recording.frames import NO_FRAME, Frame, SegmentBegins
from reactive_desched.recording.items import (
    STEP_S,
    Damage,
    Instant,
    Item,
    NothingChanged,
    ObjectFound,
    PictureBegun,
    PictureEnded,
    RecordingInterrupted,
)
from reactive_desched.recording.recorded_state import RecordedState
from reactive_desched.recording.rows import RowReader
from reactive_desched.recording.segments import (
    OnDamage,
    RecordedSegment,
    find_segments,
    frames_in,
    ignore_damage,
    name_lost_end,
    recording_paths,
    unreadable,
)
from reactive_desched.text.times import format_timestamp

MAX_LAG_S: Final = 60.0
"""So long after the last frame the state still counts: a recorder writes at least so often."""


class Passing(Struct, frozen=True):
    """A frame during which the clock passed a time of day, `wall_s`.

    With `is_shown` the clock showed that time then; without, it was set over it, or nothing was
    recorded of it: what came before is known. What was seen from `latest_s` on, in monotonic
    seconds, was seen after it.
    """

    segment: RecordedSegment
    offset: int
    wall_s: float
    latest_s: float
    at: Instant
    is_shown: bool

    @property
    def monotonic_s(self) -> float:
        """Return when the clock showed the time, in monotonic seconds of the process."""
        return self.at.monotonic_s + self.wall_s - self.at.wall_s


def passings_of(paths: Sequence[Path], wall_s: float) -> list[Passing]:
    """Return where the clock passed a time of day, oldest first.

    That is each time at which it showed it, or else the last frame of before that time. There is
    none where the recording begins later.
    """
    segments = find_segments(paths, ignore_damage)
    ends = [*(each.at for each in segments[1:]), None]
    followed = list(zip(segments, ends, strict=True))
    likely = (each for each in followed if _may_pass(each[0].at, each[1], wall_s))
    found = list(chain.from_iterable(_passings_in(*each, wall_s) for each in likely))
    if not any(each.is_shown for each in found):  # perhaps within a segment, there and back
        found = list(chain.from_iterable(_passings_in(*each, wall_s) for each in followed))
    shown = [each for each in found if each.is_shown]
    return shown or sorted(found, key=lambda each: each.at.wall_s)[-1:]


def _may_pass(at: Instant, next_at: Instant | None, wall_s: float) -> bool:
    """Say whether the clock may have passed a time between two segments, by their times alone."""
    if next_at is None or at.is_step_to(next_at):
        return True
    return at.wall_s <= wall_s < next_at.wall_s


def _passings_in(
    segment: RecordedSegment, next_at: Instant | None, wall_s: float
) -> Iterator[Passing]:
    """Yield the frames of a segment in which the clock passed a time; another one follows it."""
    frames = [(frame.offset, frame.at) for frame in _frames_of(segment)]
    ends = [*(at for _, at in frames[1:]), next_at]
    for (offset, at), after in zip(frames, ends, strict=False):
        if at.wall_s > wall_s:
            continue
        at_s = at.monotonic_s + wall_s - at.wall_s
        passing = Passing(segment, offset, wall_s, at_s + STEP_S, at, is_shown=True)
        if after is None or at.is_step_to(after):
            ends_s = at.monotonic_s + MAX_LAG_S
            if after is not None and (after is not next_at or after.monotonic_s < ends_s):
                ends_s = after.monotonic_s
            yield replace(passing, latest_s=min(at_s + STEP_S, ends_s), is_shown=at_s < ends_s)
        elif wall_s < after.wall_s:
            yield passing


def _frames_of(segment: RecordedSegment) -> Iterator[Frame]:
    """Yield the frames of one segment, whose rows are not read."""
    begun = count()
    for _, each in frames_in((segment.path,), ignore_damage, segment.offset):
        if not isinstance(each, SegmentBegins):
            yield each
        elif next(begun):
            return


class _Limit:
    """The moment up to which is read: the first item beyond it was seen after it.

    Without a passing that is never.
    """

    def __init__(self, passing: Passing | None) -> None:
        self._passing = passing
        self._last = NO_FRAME
        self._is_over = False
        self.is_near = False
        self.goes_on = False
        """Whether the same process recorded something beyond it, so nothing before is missing."""

    def begin_segment(self, begins: SegmentBegins) -> None:
        """Take the begin of the next segment: that of another process is beyond the moment."""
        self._is_over = self._is_over or (self.is_near and begins.continues != self._last)

    def enter(self, path: Path, frame: Frame) -> None:
        """Take the next frame; only from that of the passing on an item may be beyond."""
        if (passing := self._passing) is not None:
            is_it = (passing.segment.path, passing.offset) == (path, frame.offset)
            self.is_near = self.is_near or is_it
            self._last = frame.checksum

    def is_before(self, at: Instant) -> bool:
        """Say whether an item or a frame was seen after the moment."""
        if (passing := self._passing) is None or not self.is_near:
            return False
        is_set = passing.at.is_step_to(at) and at.monotonic_s > passing.monotonic_s
        is_later = at.wall_s > passing.wall_s or at.monotonic_s >= passing.latest_s or is_set
        self.goes_on = self.goes_on or (is_later and not self._is_over)
        return self._is_over or is_later


def times_of_frames(paths: Iterable[Path]) -> Iterator[Instant]:
    """Yield the time of each frame of these files, without its rows; damage ends a segment."""
    for _, each in frames_in(paths, ignore_damage, 0):
        if not isinstance(each, SegmentBegins):
            yield each.at


def read_items(
    paths: Sequence[Path], on_damage: OnDamage, until: Passing | None = None
) -> Iterator[Item]:
    """Yield the items of these files in their order, as far as they can be read.

    What was seen after the clock passed a time is not read. Behind damage it goes on with the next
    segment: `RecordingInterrupted` stands where items may be missing.
    """
    yield from _items(_read(paths, on_damage, _Limit(until)))


def _items(read: Iterable[Item | Instant]) -> Iterator[Item]:
    """Yield the items of what was read, without the times of frames."""
    return (each for each in read if isinstance(each, Item))


def _read(
    paths: Sequence[Path],
    on_damage: OnDamage,
    limit: _Limit,
    offset: int = 0,
    folding: "_Folding | None" = None,
) -> Iterator[Item | Instant]:
    """Yield the items, and the time of each frame before its items, but for what is folded."""
    rows, last = RowReader(), Instant(0.0, 0.0)
    damages: list[Damage] = []

    def damaged(damage: Damage) -> None:
        damages.append(damage)
        on_damage(damage)

    checksum = NO_FRAME
    folding = _Folding(None, limit) if folding is None else folding
    for path, frame in frames_in(paths, damaged, offset):
        if isinstance(frame, SegmentBegins):
            name_lost_end(path, frame, checksum, tuple(damages), damaged)
            if damages:
                yield RecordingInterrupted(last, _DAMAGED)
                damages.clear()
            limit.begin_segment(frame)
            folding.limit.begin_segment(frame)
            folding.begin_segment(rows)
            rows.begin_segment()
        elif not damages:  # else its rows need those of a frame that is damaged
            limit.enter(path, frame)
            folding.limit.enter(path, frame)
            if limit.is_before(frame.at):
                folding.begin_segment(rows)
                return
            yield (last := frame.at)
            checksum = frame.checksum
            is_folded = folding.takes(rows, path, frame, damaged)
            items = (folding.ends,) if is_folded else _frame_items(rows, path, frame, damaged)
            for item in items:
                last = item if isinstance(item, Instant) else item.at
                if limit.is_before(last):
                    return
                yield item
    folding.begin_segment(rows)
    if damages:
        yield RecordingInterrupted(last, _DAMAGED)


_DAMAGED: Final = "the recording is damaged here"


def _frame_items(rows: RowReader, path: Path, frame: Frame, on_damage: OnDamage) -> Iterator[Item]:
    try:
        if frame.raw_bytes:
            yield from rows.read(frame.at, frame.rows())
        else:
            yield NothingChanged(frame.at)
    except ValueError as error:
        on_damage(Damage(path.name, frame.offset, f"the frame {error}"))


def state_at(path: Path, wall_s: float, on_damage: OnDamage) -> tuple[RecordedState, float]:
    """Return the cluster as it was at this time, and until when the recording says so.

    Raises NotRecorded where it is not in the recording, which names what is.
    """
    reached = _reach(path, _passings(path, wall_s)[-1], on_damage, None)
    return reached.state, reached.covered_s


class Approach:
    """The items before a moment, which are read once: `state_at_end` has the cluster after them.

    It is the last time at which the clock passed `wall_s`. Raises NotRecorded where it never did.
    """

    def __init__(self, path: Path, wall_s: float, on_damage: OnDamage) -> None:
        self._path = path
        self._on_damage = on_damage
        self.passings: Final = _passings(path, wall_s)
        self._state = RecordedState()
        self._end = _Limit(self.passing)

    @property
    def passing(self) -> Passing:
        """Return where the clock passed it last."""
        return self.passings[-1]

    def from_file(self, first: Path) -> Iterator[Item]:
        """Yield the items from the beginning of a file of the recording on."""
        paths = recording_paths(self._path)
        read = _read(paths[paths.index(first) :], self._on_damage, self._end)
        return _applied(_items(read), self._state)

    def from_time(self, since_s: float) -> Iterator[Item]:
        """Yield the items after an earlier time, and a picture of it first: see items_between."""
        reached = _begin_period(self._path, since_s, self._on_damage, self.passing)
        self._state, self._end = reached.state, reached.end
        reached.later = _applied(reached.later, reached.state)
        yield from _of_period(reached, since_s)

    def state_at_end(self) -> tuple[RecordedState, float]:
        """Return the cluster as it is after the items, and until when the recording says so.

        All items are to be read before. Raises NotRecorded as `state_at`.
        """
        wall_s = self.passing.wall_s
        covered_s = wall_s if self._end.goes_on else self._state.at.wall_s
        _refuse_unknown(self._path, self._state, covered_s, wall_s)
        return self._state, covered_s


def _applied(items: Iterable[Item], state: RecordedState) -> Iterator[Item]:
    for item in items:
        state.apply(item)
        yield item


def items_between(
    path: Path, since_s: float | None, until_s: float | None, on_damage: OnDamage
) -> Iterator[Item]:
    """Yield the items of a period, after a picture of the cluster at its beginning.

    Where the recording does not have the cluster at that time, it is the first picture that ends
    after it, which may have begun before it.
    """
    until = _last_passing(path, until_s)
    if until is None and until_s is not None:
        return  # the recording begins later
    if since_s is not None:
        yield from _of_period(_begin_period(path, since_s, on_damage, until), since_s)
    else:
        yield from read_items(recording_paths(path), on_damage, until)


def _begin_period(
    path: Path, since_s: float, on_damage: OnDamage, until: Passing | None
) -> "_Reached":
    """Read up to the beginning of a period; the state is not known where a picture comes later."""
    try:
        return _reach(path, _passings(path, since_s)[0], on_damage, until)
    except NotRecorded:
        paths, end, later = recording_paths(path), _Limit(until), iter(tuple[Item]())
        first = _first_picture_after(paths, since_s, on_damage)
        if first is not None and not _is_behind(paths, first, until):
            rest = paths[paths.index(first.path) :]
            later = _items(_read(rest, on_damage, end, first.offset))
        return _Reached(RecordedState(), 0.0, later, end)


def _is_behind(paths: Sequence[Path], segment: RecordedSegment, until: Passing | None) -> bool:
    """Say whether a segment begins after the end of a period, which lies in an earlier one."""
    if until is None:
        return False
    segments = find_segments(paths, ignore_damage)
    return segments.index(segment) > segments.index(until.segment)


def _of_period(begun: "_Reached", since_s: float) -> Iterator[Item]:
    """Yield the items of a period, after a picture of the cluster at its beginning if it is known.

    The rest of a picture that had begun before is left out.
    """
    is_begun = bool(begun.state.missing)
    if not is_begun:
        passed_s = max(0.0, since_s - begun.state.at.wall_s)
        yield from begun.state.as_picture(Instant(since_s, begun.state.at.monotonic_s + passed_s))
    for item in begun.later:
        is_begun = is_begun or isinstance(item, PictureBegun)
        if is_begun or not isinstance(item, ObjectFound | PictureEnded):
            yield item


def _first_picture_after(
    paths: Sequence[Path], wall_s: float, on_damage: OnDamage
) -> RecordedSegment | None:
    segments = find_segments(paths, on_damage)
    if passings := passings_of(paths, wall_s):
        reached = _reach_from(paths, passings[0].segment, passings[0], on_damage, passings[0])
        if reached.state.is_picture_open:
            return passings[0].segment
        later = segments[segments.index(passings[0].segment) + 1 :]
        return next(iter(later), None)
    return next(iter(segments), None)


def _last_passing(path: Path, wall_s: float | None) -> Passing | None:
    if wall_s is None:
        return None
    return next(reversed(passings_of(recording_paths(path), wall_s)), None)


def _passings(path: Path, wall_s: float) -> list[Passing]:
    """Return where the clock passed a time of day; raises NotRecorded where it did nowhere."""
    paths = recording_paths(path)
    damages: list[Damage] = []
    segments = find_segments(paths, damages.append)
    if not segments:
        raise unreadable(path, damages)
    if not (found := passings_of(paths, wall_s)):
        begins = _time(segments[0].at.wall_s)
        raise NotRecorded(f"{path} begins at {begins}, and has nothing of {_time(wall_s)}")
    return found


class _Reached(Struct):
    """The cluster at a moment, until when the recording says so, and the items up to an end."""

    state: RecordedState
    covered_s: float
    later: Iterator[Item]
    end: _Limit


def _reach(path: Path, passing: Passing, on_damage: OnDamage, until: Passing | None) -> _Reached:
    """Read up to a time: from the picture before it, or the one before that if it is not whole."""
    paths = recording_paths(path)
    segments = find_segments(paths, ignore_damage)
    at = segments.index(passing.segment)
    reached = _reach_from(paths, passing.segment, passing, on_damage, until)
    if reached.state.missing and at:
        reached = _reach_from(paths, segments[at - 1], passing, on_damage, until)
    _refuse_unknown(path, reached.state, reached.covered_s, passing.wall_s)
    return reached


def _refuse_unknown(path: Path, state: RecordedState, covered_s: float, wall_s: float) -> None:
    """Raise NotRecorded where the cluster at a time is not known."""
    missing = state.missing
    if not missing and wall_s - covered_s > MAX_LAG_S:
        missing = f"what was seen after {_time(covered_s)} is not recorded"
    if missing:
        raise NotRecorded(f"{path} has nothing of {_time(wall_s)}: {missing}")


def _reach_from(
    paths: Sequence[Path],
    first: RecordedSegment,
    passing: Passing,
    on_damage: OnDamage,
    until: Passing | None,
) -> _Reached:
    state, covered_s = RecordedState(), 0.0
    limit, end = _Limit(passing), _Limit(until)
    folding = _Folding(state, limit)
    read = _read(paths[paths.index(first.path) :], on_damage, end, first.offset, folding)
    for each in read:
        at = each if isinstance(each, Instant) else each.at
        if not limit.is_before(at):
            covered_s = at.wall_s
        if isinstance(each, Instant):
            continue
        if limit.is_before(at):
            folding.is_over = True
            covered_s = passing.wall_s if limit.goes_on else covered_s
            return _Reached(state, covered_s, chain((each,), _items(read)), end)
        state.apply(each)
    return _Reached(state, covered_s, iter(()), end)


class _Folding:
    """Applies whole frames to a state, up to a time: of the changes of a pod the last one counts.

    Most of a recording are changes of pods, and to build each pod as it was after each of them
    takes most of the time of reading it. The first frame of a segment is read item by item, and so
    are those about the limit, up to which the state is asked for.
    """

    def __init__(self, state: RecordedState | None, limit: _Limit) -> None:
        self.ends = Instant(0.0, 0.0)
        self.limit = limit
        self.is_over = state is None
        self._state = state or RecordedState()
        self._begins = True

    def begin_segment(self, rows: RowReader) -> None:
        """Let the state have what was folded: another picture begins."""
        self._settle(rows)
        self._begins = True

    def takes(self, rows: RowReader, path: Path, frame: Frame, on_damage: OnDamage) -> bool:
        """Apply a frame; say whether it was, else each of its items is to be."""
        state, begins = self._state, self._begins
        self._begins = False
        is_read = self.is_over or begins or self.limit.is_near or not frame.raw_bytes
        try:
            found = None if is_read else rows.fold(frame.at, frame.rows())
        except ValueError as error:
            on_damage(Damage(path.name, frame.offset, f"the frame {error}"))
            return True
        if found is None:
            self._settle(rows)
            return False
        state.apply_folded(found)
        self.ends = found.ends
        return True

    def _settle(self, rows: RowReader) -> None:
        """Let the state have what was folded."""
        try:
            self._state.settle(rows.settle())
        except ValueError as error:
            self._state.lose(f"a frame {error}")


def _time(wall_s: float) -> str:
    return format_timestamp(datetime.fromtimestamp(wall_s, UTC))
