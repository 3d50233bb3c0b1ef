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

Times are seconds since the epoch. `on_damage` takes each `Damage` as it is found, and reading goes
on with the next segment: for what is missing until then stands `RecordingInterrupted`, after which
the state is not known, and `RecordedState.missing` says why, up to the end of the next picture.
Raised is `NotRecorded` alone, whose text says what the recording has.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain, islice, pairwise
from math import inf
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.errors import NotRecorded
from reactive_desched.model.objects import ClusterObject
from reactive_desched.model.usage import NodeUsage
from reactive_desched.primitives.shortage import lacking
from reactive_desched.recording.frames import (
    NO_FRAME,
    Frame,
    SegmentBegins,
    read_frames,
    segment_paths,
)
from reactive_desched.recording.items import (
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
from reactive_desched.recording.rows import RowReader, picture_end
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

    Raises NotRecorded where there is none.
    """
    if path.is_dir():
        if found := segment_paths(path):
            return found
        raise NotRecorded(f"{path} holds no recording: no file in it ends in .rdrec")
    if not path.exists():
        raise NotRecorded(f"{path} does not exist, so there is no recording")
    return [path]


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


def times_of_frames(paths: Iterable[Path]) -> Iterator[Instant]:
    """Yield the time of each frame of these files, without its rows; damage ends a segment."""
    for _, each in _frames(paths, ignore_damage, 0):
        if not isinstance(each, SegmentBegins):
            yield each.at


def read_items(
    paths: Sequence[Path], on_damage: OnDamage, until_s: float | None = None
) -> Iterator[Item]:
    """Yield the items of these files in their order, as far as they can be read.

    What comes later than `until_s`, since the epoch, is not read. Behind damage it goes on with the
    next segment: `RecordingInterrupted` stands where items may be missing.
    """
    for item in _read(paths, on_damage, until_s):
        if isinstance(item, Item):
            yield item


def _read(
    paths: Sequence[Path],
    on_damage: OnDamage,
    until_s: float | None,
    offset: int = 0,
    folding: "_Folding | None" = None,
) -> Iterator[Item | Instant]:
    """Yield the items, and the time of each frame before its items, but for what is folded."""
    rows, last = RowReader(), Instant(0.0, 0.0)
    damages: list[Damage] = []

    def damaged(damage: Damage) -> None:
        damages.append(damage)
        on_damage(damage)

    limit_s, checksum = inf if until_s is None else until_s, NO_FRAME
    folding = _Folding(None, -inf) if folding is None else folding
    for path, frame in _frames(paths, damaged, offset):
        if isinstance(frame, SegmentBegins):
            is_gone = frame.continues != checksum and NO_FRAME not in (frame.continues, checksum)
            if damages or is_gone:
                yield RecordingInterrupted(last, _DAMAGED if damages else _GONE)
                damages.clear()
            folding.begin_segment(rows)
            rows.begin_segment()
        elif not damages:  # else its rows need those of a frame that is damaged
            if frame.at.wall_s > limit_s:
                folding.begin_segment(rows)
                return
            yield (last := frame.at)
            checksum = frame.checksum
            is_folded = folding.takes(rows, path, frame, damaged)
            items = (folding.ends,) if is_folded else _frame_items(rows, path, frame, damaged)
            for item in items:
                last = item if isinstance(item, Instant) else item.at
                if last.wall_s > limit_s:
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
    for path in paths:
        try:
            with path.open("rb") as file:
                for frame in read_frames(file, path.name, on_damage, offset):
                    yield path, frame
        except OSError as error:
            if lacking(error):
                raise
            on_damage(Damage(path.name, 0, f"cannot be read: {error.strerror}"))
        offset = 0


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

    @property
    def is_whole(self) -> bool:
        """Say whether the state is known, and no picture repeats it now."""
        return not self.missing and not self._is_repeated

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
    state, covered_s, _ = _reach(path, wall_s, on_damage, None)
    return state, covered_s


def follow_from(
    path: Path, wall_s: float, on_damage: OnDamage, until_s: float | None = None
) -> tuple[RecordedState, Iterator[Item]]:
    """Return the cluster as it was at this time, and the items that came after it.

    Apply them to the state to have it at a later time. The first read ends at the first of them,
    each is read when it is asked for, and what comes later than `until_s` is not read. Raises
    NotRecorded where the recording does not have the cluster at this time.
    """
    state, _, later = _reach(path, wall_s, on_damage, until_s)
    return state, later


def items_between(
    path: Path, since_s: float | None, until_s: float | None, on_damage: OnDamage
) -> Iterator[Item]:
    """Yield the items of a period, after a picture of the cluster at its beginning.

    Where the recording does not have the cluster at that time, it is the first picture that ends
    after it, which may have begun before it.
    """
    paths = recording_paths(path)
    if since_s is None:
        yield from read_items(paths, on_damage, until_s)
        return
    try:
        state, later = follow_from(path, since_s, on_damage, until_s)
    except NotRecorded:
        if first := _first_picture_after(paths, since_s, on_damage):
            rest = paths[paths.index(first.path) :]
            found = _read(rest, on_damage, until_s, first.offset)
            yield from (item for item in found if isinstance(item, Item))
        return
    passed_s = since_s - state.at.wall_s
    yield from state.as_picture(Instant(since_s, state.at.monotonic_s + passed_s))
    is_begun = False
    for item in later:  # at first, perhaps, the rest of a picture that had begun before
        is_begun = is_begun or isinstance(item, PictureBegun)
        if is_begun or not isinstance(item, ObjectFound | PictureEnded):
            yield item


def _first_picture_after(
    paths: Sequence[Path], wall_s: float, on_damage: OnDamage
) -> RecordedSegment | None:
    segments = find_segments(paths, on_damage)
    before = [each for each in segments if each.at.wall_s < wall_s]
    if before:
        state, *_ = _reach_from(paths, before[-1], wall_s, on_damage, wall_s)
        if state.missing == _PICTURE_OPEN:
            return before[-1]
    return next((each for each in segments if each.at.wall_s >= wall_s), None)


def _reach(
    path: Path, wall_s: float, on_damage: OnDamage, until_s: float | None
) -> tuple[RecordedState, float, Iterator[Item]]:
    """Read up to a time: from the picture before it, or the one before that if it is not whole."""
    paths = recording_paths(path)
    segments = find_segments(paths, ignore_damage)
    if not segments:
        raise NotRecorded(f"{path} holds no recording that can be read")
    before = [each for each in segments if each.at.wall_s <= wall_s]
    if not before:
        begins = _time(segments[0].at.wall_s)
        raise NotRecorded(f"{path} begins at {begins}, and has nothing of {_time(wall_s)}")
    reached = _reach_from(paths, before[-1], wall_s, on_damage, until_s)
    if reached[0].missing and len(before) > 1:
        reached = _reach_from(paths, before[-2], wall_s, on_damage, until_s)
    state, covered_s, _ = reached
    if not state.missing and wall_s - covered_s > MAX_LAG_S:
        state.missing = f"what was seen after {_time(covered_s)} is not recorded"
    if state.missing:
        raise NotRecorded(f"{path} has nothing of {_time(wall_s)}: {state.missing}")
    return reached


def _reach_from(
    paths: Sequence[Path],
    first: RecordedSegment,
    wall_s: float,
    on_damage: OnDamage,
    until_s: float | None,
) -> tuple[RecordedState, float, Iterator[Item]]:
    state, covered_s = RecordedState(), 0.0
    folding = _Folding(state, wall_s)
    read = _read(paths[paths.index(first.path) :], on_damage, until_s, first.offset, folding)
    for each in read:
        if isinstance(each, Instant):
            if each.wall_s <= wall_s:
                covered_s = max(covered_s, each.wall_s)
        elif each.at.wall_s > wall_s:
            is_gap = isinstance(each, PictureBegun) and not each.is_continued
            folding.is_over = True
            later = (item for item in read if isinstance(item, Item))
            return state, covered_s if is_gap else wall_s, chain((each,), later)
        else:
            covered_s = max(covered_s, each.at.wall_s)
            state.apply(each)
    return state, covered_s, iter(())


class _Folding:
    """Applies whole frames to a state, up to a time: of the changes of a pod the last one counts.

    Most of a recording are changes of pods, and to build each pod as it was after each of them
    takes most of the time of reading it. The frames of a picture are read item by item.
    """

    def __init__(self, state: RecordedState | None, until_s: float) -> None:
        self.ends = Instant(0.0, 0.0)
        self.is_over = state is None
        self._state = state or RecordedState()
        self._until_s = until_s
        self._begins = True

    def begin_segment(self, rows: RowReader) -> None:
        """Let the state have what was folded: another picture begins."""
        self._settle(rows)
        self._begins = True

    def takes(self, rows: RowReader, path: Path, frame: Frame, on_damage: OnDamage) -> bool:
        """Apply a frame; say whether it was, else each of its items is to be."""
        state, begins = self._state, self._begins
        self._begins = False
        is_read = self.is_over or begins or not state.is_whole or not frame.raw_bytes
        try:
            found = None if is_read else rows.fold(frame.at, frame.rows(), self._until_s)
        except ValueError as error:
            on_damage(Damage(path.name, frame.offset, f"the frame {error}"))
            return True
        if found is None:
            self._settle(rows)
            return False
        for item in found.others:
            state.apply(item)
        self.ends = state.at = found.ends
        state.changed_s = max(state.changed_s, found.changed_s)
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
    found: list[tuple[float, float]] = []
    known: _Span | None = None  # the segment before, where the cluster is known at its end
    for span in spans:
        if known is not None and not _is_gap(known, span):
            found[-1] = found[-1][0], span.last_s
            known = span
        elif (pictured_s := _pictured_s(span)) is not None:
            found.append((pictured_s, span.last_s))
            known = span
        else:
            known = None
    return found


def _pictured_s(span: "_Span") -> float | None:
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
            return ended.wall_s
    return None


class _Span(Struct):
    """A segment: its first and last time, which it continues, its last frame, and its picture."""

    path: Path
    offset: int
    first_s: float
    last_s: float
    continues: int
    last: int
    begun: PictureBegun | None


def _is_gap(before: _Span, after: _Span) -> bool:
    """Say whether something is missing between two segments."""
    is_continued = after.begun is not None and after.begun.is_continued
    return not is_continued or after.continues != before.last


def _spans_of(path: Path, on_damage: OnDamage) -> list[_Span]:
    """Return the segments of a recording; raises NotRecorded where none can be read."""
    spans: list[_Span] = []
    for each in recording_paths(path):
        _read_spans(each, spans, on_damage)
    if not spans:
        raise NotRecorded(f"{path} holds no recording that can be read")
    return spans


def _read_spans(path: Path, spans: list[_Span], on_damage: OnDamage) -> None:
    """Add the segments of a file."""
    segment: SegmentBegins | None = None
    for _, each in _frames((path,), on_damage, 0):
        if isinstance(each, SegmentBegins):
            segment = each
        elif segment is not None:
            begun, at_s = _begun(each, path, on_damage), each.at.wall_s
            spans.append(
                _Span(path, segment.offset, at_s, at_s, segment.continues, each.checksum, begun)
            )
            segment = None
        else:
            spans[-1].last_s, spans[-1].last = each.at.wall_s, each.checksum


def _begun(frame: Frame, path: Path, on_damage: OnDamage) -> PictureBegun | None:
    try:
        for item in RowReader().read(frame.at, frame.rows()):
            return item if isinstance(item, PictureBegun) else None
    except ValueError as error:
        on_damage(Damage(path.name, frame.offset, f"the frame {error}"))
    return None
