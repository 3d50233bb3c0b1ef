"""Reads a recording: its items in their order, and the cluster as it was at any moment.

A recording is a folder of segments, as a controller writes them, or one file, as an export or an
import makes it; each function that takes a path takes both, and `recording_paths` has the files.

- The cluster at a moment T: `state, covered_s = state_at(path, t, on_damage)`. The objects are in
  `state.objects["pods"]` and so on by their keys, the measured use in `state.samples`.
- What came after T: `state, later = follow_from(path, t, on_damage)`. Each item of `later` has its
  time, `item.at`; `state.apply(item)` after it keeps the state at the moment of that item.
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

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain, count, islice, pairwise
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.errors import NotRecorded
from reactive_desched.model.objects import ClusterObject, Pod
from reactive_desched.model.usage import NodeUsage
from reactive_desched.primitives.shortage import lacking
from reactive_desched.recording.frames import (
    NO_FRAME,
    Frame,
    SegmentBegins,
    read_frames,
    segment_number,
    segment_paths,
)
from reactive_desched.recording.items import (
    STEP_S,
    BrakesHeld,
    ConfigurationInForce,
    Damage,
    HealthAnswered,
    Instant,
    Item,
    LookedForWork,
    NodeSeen,
    NothingChanged,
    ObjectChanged,
    ObjectFound,
    PauseSet,
    PictureBegun,
    PictureEnded,
    ProcessBegan,
    RecordingInterrupted,
    ResourceDenied,
    TermChanged,
    UsageMeasured,
    Verb,
    Worked,
)
from reactive_desched.recording.rows import FoldedFrame, RowReader, picture_end
from reactive_desched.state.resources import PODS
from reactive_desched.text.times import format_timestamp

MAX_LAG_S: Final = 60.0
"""So long after the last frame the state still counts: a recorder writes at least so often."""

OnDamage = Callable[[Damage], None]


def ignore_damage(_: Damage) -> None:
    """Take a damage that another reading names."""


class RecordedSegment(Struct, frozen=True):
    """A part of a recording that begins with a picture, and when that began."""

    path: Path
    offset: int
    at: Instant


def recording_paths(path: Path) -> list[Path]:
    """Return the files of a recording: a folder's segments, oldest first, or the file itself.

    Raises NotRecorded where there is none, and where segments of two recordings, or recordings of
    two clusters, are mixed.
    """
    if path.is_dir():
        if found := segment_paths(path):
            _refuse_mixed(path, found)
            _refuse_clusters(path, found)
            return found
        raise NotRecorded(f"{path} holds no recording: no file in it ends in .rdrec")
    if not path.exists():
        raise NotRecorded(f"{path} does not exist, so there is no recording")
    return [path]


def _refuse_mixed(folder: Path, paths: Sequence[Path]) -> None:
    """Raise NotRecorded where two segments have one number: a recorder counts on."""
    for before, after in pairwise(paths):
        number = segment_number(after)
        if number is not None and number == segment_number(before):
            raise NotRecorded(
                f"{folder} has segments of two recordings: {before.name} and {after.name} have one"
                " number; move those of one of them to a folder of its own"
            )


def _refuse_clusters(folder: Path, paths: Sequence[Path]) -> None:
    """Raise NotRecorded where the segments are of two clusters."""
    named = ((path, begun) for path, begun in _beginnings(paths) if begun.cluster_uid)
    for (before, first), (after, begun) in pairwise(named):
        if begun.cluster_uid != first.cluster_uid:
            raise NotRecorded(
                f"{folder} has recordings of two clusters: {before.name} is of"
                f" {_cluster_text(first)}, {after.name} of {_cluster_text(begun)}; move those of"
                " one of them to a folder of its own"
            )


def _beginnings(paths: Iterable[Path]) -> Iterator[tuple[Path, PictureBegun]]:
    """Yield the head of each file of the recorder that continues no other, as far as it is read."""
    for path in paths:
        continues = NO_FRAME
        for _, each in _frames((path,), ignore_damage, 0):
            if isinstance(each, SegmentBegins):
                continues = each.continues
            elif continues == NO_FRAME and (begun := _begun(each, path, ignore_damage)):
                yield path, begun
            if continues != NO_FRAME or not isinstance(each, SegmentBegins):
                break


def _cluster_text(begun: PictureBegun) -> str:
    return f"{begun.cluster} ({begun.cluster_uid})" if begun.cluster else begun.cluster_uid


def recorded_cluster(folder: Path) -> PictureBegun | None:
    """Return the newest head of a segment that names its cluster; None where none does."""
    heads = _beginnings(reversed(segment_paths(folder)))
    return next((begun for _, begun in heads if begun.cluster_uid), None)


def _missing_before(path: Path, before: Path | None) -> Iterator[Damage]:
    """Yield what is wrong where segments are missing between two files."""
    last = None if before is None else segment_number(before)
    number = segment_number(path)
    if last is None or number is None or number <= last + 1:
        return
    first = f"{last + 1:08}"
    lost, it = f"segment {first} of the recording is not here", "it"
    if number > last + 2:
        lost, it = f"segments {first} to {number - 1:08} of the recording are not here", "them"
    yield Damage(path.name, 0, f"before it {lost}: copy {it} to this folder")


def find_segments(paths: Sequence[Path], on_damage: OnDamage) -> list[RecordedSegment]:
    """Find the segments of these files, without reading more than the first frame of each.

    A file of the recorder has one; one that was exported or imported may have several.
    """
    found: list[RecordedSegment] = []
    for path in paths:
        of_path = _segments_of(path, on_damage)
        found += islice(of_path, 1) if path.suffix == _OF_RECORDER and len(paths) > 1 else of_path
    return found


def _segments_of(path: Path, on_damage: OnDamage) -> Iterator[RecordedSegment]:
    begins: int | None = None
    for _, each in _frames((path,), on_damage, 0):
        if isinstance(each, SegmentBegins):
            begins = each.offset
        elif begins is not None:
            yield RecordedSegment(path, begins, each.at)
            begins = None


_OF_RECORDER: Final = ".rdrec"


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
    for _, each in _frames((segment.path,), ignore_damage, segment.offset):
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
        is_later = at.wall_s > passing.wall_s or at.monotonic_s >= passing.latest_s
        self.goes_on = self.goes_on or (is_later and not self._is_over)
        return self._is_over or is_later


def times_of_frames(paths: Iterable[Path]) -> Iterator[Instant]:
    """Yield the time of each frame of these files, without its rows; damage ends a segment."""
    for _, each in _frames(paths, ignore_damage, 0):
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
    for path, frame in _frames(paths, damaged, offset):
        if isinstance(frame, SegmentBegins):
            is_gone = frame.continues != checksum and NO_FRAME not in (frame.continues, checksum)
            if damages or is_gone:
                yield RecordingInterrupted(last, _DAMAGED if damages else _GONE)
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
_GONE: Final = "a part of the recording is gone here"


def _frame_items(rows: RowReader, path: Path, frame: Frame, on_damage: OnDamage) -> Iterator[Item]:
    try:
        if frame.raw_bytes:
            yield from rows.read(frame.at, frame.rows())
        else:
            yield NothingChanged(frame.at)
    except ValueError as error:
        on_damage(Damage(path.name, frame.offset, f"the frame {error}"))


def _frames(
    paths: Iterable[Path], on_damage: OnDamage, offset: int
) -> Iterator[tuple[Path, Frame | SegmentBegins]]:
    """Yield the frames of the files in turn; of the first those from the segment at `offset` on."""
    before: Path | None = None
    for path in paths:
        for damage in _missing_before(path, before):
            on_damage(damage)
        try:
            with path.open("rb") as file:
                for frame in read_frames(file, path.name, on_damage, offset):
                    yield path, frame
        except OSError as error:
            if lacking(error):
                raise
            on_damage(Damage(path.name, 0, f"cannot be read: {error.strerror}"))
        before, offset = path, 0


_CHANGING_NOTHING: Final = (
    LookedForWork
    | NodeSeen
    | NothingChanged
    | ObjectFound
    | PictureBegun
    | PictureEnded
    | ProcessBegan
    | Worked
)
"""The items after which the cluster is as it was before them."""


class RecordedState:
    """The cluster after some items, which are applied in their order.

    `objects` has those of each resource by their keys, `samples` the measured use by its key, and
    `pauses` the reasons of those that hold, empty where one has ended. `missing` says why the state
    is not known, as before the first picture; it is empty while it is. `changed_s` is when it last
    changed, in seconds since the epoch: no earlier than its picture. `at` is the time of the last
    item that was applied.
    """

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, ClusterObject]] = {}
        self.samples: dict[str, NodeUsage] = {}
        self.denied: set[str] = set()
        self.pauses: dict[str, str] = {}
        self.configuration: ConfigurationInForce | None = None
        self.brakes: BrakesHeld | None = None
        self.answers: dict[str, HealthAnswered] = {}
        self.term: TermChanged | None = None
        self.picture: PictureBegun | None = None
        self.missing = "no picture of the cluster was recorded before"
        self.changed_s = 0.0
        self.at = Instant(0.0, 0.0)
        self._is_repeated = False

    def apply(self, item: Item) -> None:  # noqa: C901, PLR0912 -- one case for each item
        """Apply the next item."""
        self.at = item.at
        if not isinstance(item, _CHANGING_NOTHING):
            self.changed_s = item.at.wall_s
        match item:
            case ObjectChanged(resource=resource, verb=verb, obj=obj):
                of_kind = self.objects.setdefault(resource, {})
                if verb is Verb.DELETED:
                    of_kind.pop(obj.key, None)
                else:
                    of_kind[obj.key] = obj
            case ObjectFound(resource=resource, obj=obj):
                if not self._is_repeated:
                    self.objects.setdefault(resource, {})[obj.key] = obj
            case UsageMeasured(sample=sample, is_gone=is_gone):
                if is_gone:
                    self.samples.pop(sample.key, None)
                else:
                    self.samples[sample.key] = sample
            case PictureBegun():
                self._begin(item)
            case PictureEnded():
                self.missing, self._is_repeated = "", False
            case RecordingInterrupted(reason=reason):
                self.missing = f"the recording was interrupted: {reason}"
            case ConfigurationInForce():
                self.configuration = item
            case ResourceDenied(resource=resource, is_denied=is_denied):
                (self.denied.add if is_denied else self.denied.discard)(resource)
            case PauseSet(name=name, reason=reason):
                self.pauses[name] = reason
            case TermChanged():
                self.term = item
            case BrakesHeld():
                self.brakes = item
            case HealthAnswered(name=name):
                self.answers[name] = item
            case _:
                pass

    def apply_folded(self, frame: FoldedFrame) -> None:
        """Apply a frame but for the changes of pods, which the reader of its rows keeps."""
        for each in frame.found:
            if not isinstance(each, Pod):
                self.apply(each)
            elif not self._is_repeated:
                self.objects.setdefault(PODS, {})[each.key] = each
        self.at, self.changed_s = frame.ends, max(self.changed_s, frame.changed_s)

    @property
    def leads(self) -> bool:
        """Say whether the process that recorded led."""
        return self.term is not None and self.term.leads

    def as_picture(self, at: Instant) -> Iterator[Item]:
        """Yield this state as a picture that continues nothing."""
        picture, denied = self.picture or PictureBegun(at), tuple(sorted(self.denied))
        yield replace(picture, at=at, denied=denied, is_continued=False)
        standing = (self.configuration, self.term, self.brakes, *self.answers.values())
        yield from (replace(item, at=at) for item in standing if item is not None)
        yield from (PauseSet(at, name, reason) for name, reason in self.pauses.items())
        yield from (UsageMeasured(at, sample) for sample in self.samples.values())
        for resource, of_kind in self.objects.items():
            yield from (ObjectFound(at, resource, obj) for obj in of_kind.values())
        yield PictureEnded(at, {name: len(each) for name, each in self.objects.items() if each})

    def _begin(self, picture: PictureBegun) -> None:
        self._is_repeated = picture.is_continued and not self.missing
        self.picture = picture
        if self._is_repeated:
            return
        self.objects, self.samples, self.changed_s = {}, {}, picture.at.wall_s
        self.denied = set(picture.denied)
        self.pauses, self.configuration, self.term, self.brakes = {}, None, None, None
        self.answers = {}
        self.missing = _PICTURE_OPEN


_PICTURE_OPEN: Final = "its picture is not complete"


def state_at(path: Path, wall_s: float, on_damage: OnDamage) -> tuple[RecordedState, float]:
    """Return the cluster as it was at this time, and until when the recording says so.

    Raises NotRecorded where it is not in the recording, which names what is.
    """
    reached = _reach(path, _passings(path, wall_s)[-1], on_damage, None)
    return reached.state, reached.covered_s


def follow_from(
    path: Path, wall_s: float, on_damage: OnDamage, until_s: float | None = None
) -> tuple[RecordedState, Iterator[Item]]:
    """Return the cluster as it was at this time, and the items that came after it.

    Apply them to the state to have it at a later time. The first read ends at the first of them,
    each is read when it is asked for, and what comes later than `until_s` is not read. Of times
    that came twice it is the first of `wall_s`, and the last of `until_s`. Raises NotRecorded where
    the recording does not have the cluster at this time.
    """
    passing, until = _passings(path, wall_s)[0], _last_passing(path, until_s)
    reached = _reach(path, passing, on_damage, until)
    return reached.state, reached.later


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
        if reached.state.missing == _PICTURE_OPEN:
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
        raise _unreadable(path, damages)
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
            for pod in rows.settle():
                self._state.objects.setdefault(PODS, {})[pod.key] = pod
        except ValueError as error:
            self._state.missing = f"a frame {error}"


def _time(wall_s: float) -> str:
    return format_timestamp(datetime.fromtimestamp(wall_s, UTC))


class RecordingSummary(Struct, frozen=True, kw_only=True):
    """The contents of a recording, by its files: times are seconds since the epoch."""

    first_s: float
    last_s: float
    bytes: int
    segments: int
    version: str
    cluster: str
    interruptions: tuple[tuple[float, float], ...]
    """Between which times nothing is recorded."""
    damages: tuple[Damage, ...]


def summarize_recording(path: Path) -> RecordingSummary:
    """Read a recording's frames, but no more rows than the first of each segment.

    Raises NotRecorded where there is none.
    """
    paths = recording_paths(path)
    damages: list[Damage] = []
    spans = _spans_of(path, damages.append)
    newest = next((span.begun for span in reversed(spans) if span.begun is not None), None)
    gaps = tuple(
        (before.last_s, after.first_s)
        for before, after in pairwise(spans)
        if _is_gap(before, after)
    )
    return RecordingSummary(
        first_s=spans[0].first_s,
        last_s=spans[-1].last_s,
        bytes=sum(each.stat().st_size for each in paths if each.exists()),
        segments=len(spans),
        version="" if newest is None else newest.version,
        cluster="" if newest is None else newest.cluster,
        interruptions=gaps,
        damages=tuple(damages),
    )


def covered_times(path: Path, on_damage: OnDamage) -> list[tuple[float, float]]:
    """Return from when to when there is a cluster to look at, oldest first.

    Behind a gap that is from the end of a picture on. Raises NotRecorded where there is none.
    """
    spans = _spans_of(path, on_damage)
    found: list[list[Instant]] = []  # the first and the last moment of each
    known: _Span | None = None  # the segment before, where the cluster is known at its end
    for span in spans:
        pieces = span.pieces
        if known is None or _is_gap(known, span):
            if (pictured := _pictured(span)) is None:
                known = None
                continue
            found.append([pictured, pictured])
            pieces = [each for each in pieces if each[-1].monotonic_s >= pictured.monotonic_s]
        known = span
        for piece in pieces:
            if found[-1][-1].is_step_to(piece[0]):
                found.append([piece[0], piece[0]])
            found[-1][-1] = max(found[-1][-1], piece[-1])
    return _joined(sorted((first.wall_s, last.wall_s) for first, last in found))


def _joined(times: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Join times that overlap, as those that a clock showed twice; they are in their order."""
    joined: list[tuple[float, float]] = []
    for first_s, last_s in times:
        if joined and first_s <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], last_s)
        else:
            joined.append((first_s, last_s))
    return joined


def _pictured(span: "_Span") -> Instant | None:
    """Return when the picture at the head of a segment ended; None where it is not whole."""
    is_begun = False
    for _, each in _frames((span.path,), ignore_damage, span.offset):
        if isinstance(each, SegmentBegins):
            if is_begun:
                return None
            is_begun = True
            continue
        try:
            ended = picture_end(each.at, each.rows())
        except ValueError:
            return None
        if ended is not None:
            return ended
    return None


class _Span(Struct):
    """A segment: its times, which it continues, its last frame, and its picture.

    `pieces` are the first and the last moment of each time in which its clock was not set.
    """

    path: Path
    offset: int
    pieces: list[list[Instant]]
    continues: int
    last: int
    begun: PictureBegun | None

    @property
    def first_s(self) -> float:
        """Return its first time of day."""
        return self.pieces[0][0].wall_s

    @property
    def last_s(self) -> float:
        """Return its last time of day."""
        return self.pieces[-1][-1].wall_s


def _is_gap(before: _Span, after: _Span) -> bool:
    """Say whether something is missing between two segments."""
    is_continued = after.begun is not None and after.begun.is_continued
    return not is_continued or after.continues != before.last


def _spans_of(path: Path, on_damage: OnDamage) -> list[_Span]:
    """Return the segments of a recording; raises NotRecorded where none can be read."""
    spans: list[_Span] = []
    damages: list[Damage] = []
    before: Path | None = None
    for each in recording_paths(path):
        damages += _missing_before(each, before)
        before = each
        _read_spans(each, spans, damages.append)
    if not spans:
        raise _unreadable(path, damages)
    for damage in damages:
        on_damage(damage)
    return spans


def _unreadable(path: Path, damages: Sequence[Damage]) -> NotRecorded:
    """Return the error for a recording without a segment; it names the first damage."""
    damage = f": {damages[0]}" if damages else ""
    return NotRecorded(f"{path} holds no recording that can be read{damage}")


def _read_spans(path: Path, spans: list[_Span], on_damage: OnDamage) -> None:
    """Add the segments of a file."""
    segment: SegmentBegins | None = None
    for _, each in _frames((path,), on_damage, 0):
        if isinstance(each, SegmentBegins):
            segment = each
        elif segment is not None:
            begun, pieces = _begun(each, path, on_damage), [[each.at, each.at]]
            spans.append(
                _Span(path, segment.offset, pieces, segment.continues, each.checksum, begun)
            )
            segment = None
        else:
            pieces, spans[-1].last = spans[-1].pieces, each.checksum
            if (before := pieces[-1][-1]).is_step_to(each.at):
                passed_s = max(0.0, each.at.monotonic_s - before.monotonic_s)
                pieces[-1][-1] = Instant(before.wall_s + passed_s, each.at.monotonic_s)
                pieces.append([each.at, each.at])
            pieces[-1][-1] = each.at


def _begun(frame: Frame, path: Path, on_damage: OnDamage) -> PictureBegun | None:
    try:
        for item in RowReader().read(frame.at, frame.rows()):
            return item if isinstance(item, PictureBegun) else None
    except ValueError as error:
        on_damage(Damage(path.name, frame.offset, f"the frame {error}"))
    return None
