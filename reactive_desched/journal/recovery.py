"""Recovers what a journal's last writer left: the end of the chain, a torn record, open intents."""

import re
from collections.abc import Iterator
from datetime import datetime
from os import fsync
from pathlib import Path

from msgspec import Struct, field

from reactive_desched.api.event import (
    CHECKPOINT,
    EVICTION_OUTCOME_TYPES,
    EVICTION_REQUESTED,
    MODE_DRY_RUN,
    Checkpoint,
    Event,
    EvictionRequested,
    Who,
)
from reactive_desched.errors import JournalError
from reactive_desched.journal.atomic_files import sync_directory
from reactive_desched.journal.event_builder import evictor_of
from reactive_desched.journal.events import decode_event
from reactive_desched.journal.records import GENESIS, AnyEvent, digest, recorded_at
from reactive_desched.journal.segments import (
    DAMAGE_ERRORS,
    JournalLine,
    Segment,
    list_segments,
    read_lines,
)
from reactive_desched.model.eviction_options import EvictionOptions
from reactive_desched.model.outcomes import RequestTime

MAX_DAMAGED_NAMED = 20
"""So many damaged lines are named; further ones are only counted."""

_OLD_FORMAT = re.compile(rb'\{"seq":\d+,"kind":')


class OpenIntent(Struct):
    """An intent on disk without outcome, and where it stands."""

    seq: int
    event: Event[EvictionRequested]

    @property
    def id(self) -> str:
        """Its id, by which it is ended."""
        return self.event.id

    @property
    def who(self) -> Who:
        """The pod that was to be evicted."""
        return self.event.data.who

    @property
    def options(self) -> EvictionOptions:
        """Return how the pod was asked to leave."""
        what = self.event.data.what
        return EvictionOptions(evictor_of(what)).or_grace_period(what.grace_period_seconds)

    @property
    def sent(self) -> RequestTime:
        """Return when the request was sent at the earliest."""
        server_time = self.event.data.server_time
        server_s = None if server_time is None else server_time.timestamp()
        return RequestTime(server_s, self.event.time.timestamp())

    @property
    def is_dry_run(self) -> bool:
        """Say whether nothing was to be asked."""
        return self.event.data.mode == MODE_DRY_RUN


class Recovery(Struct):
    """The result of opening a journal; `next_seq` is the number of the next line, `prev` its link.

    `segment_started` is when the last file was begun. The last checkpoint signs `checkpoint_size`
    records, which end in the hash `checkpoint_root`; `records_since_checkpoint` follow it.
    `truncated_from` is how far the journal once reached when its end is missing, else 0;
    `has_new_key` says that another key signed its checkpoints so far.
    """

    next_seq: int = 1
    prev: str = GENESIS
    oldest_seq: int = 1
    source: str = ""
    last_segment: Segment | None = None
    last_segment_bytes: int = 0
    segment_started: datetime | None = None
    records_since_checkpoint: int = 0
    checkpoint_size: int = 0
    checkpoint_root: str = ""
    open_intents: dict[str, OpenIntent] = field(default_factory=dict)
    torn_file: Path | None = None
    torn_bytes: int = 0
    damaged_lines: int = 0
    damage_locations: list[str] = field(default_factory=list)
    truncated_from: int = 0
    has_new_key: bool = False

    @property
    def oldest_open_seq(self) -> int | None:
        """Return where in the journal the oldest open intent is."""
        return next((intent.seq for intent in self.open_intents.values()), None)

    def add_damage(self, path: Path, line: JournalLine) -> None:
        """Count and name a line that cannot be read."""
        self.damaged_lines += 1
        if len(self.damage_locations) < MAX_DAMAGED_NAMED:
            self.damage_locations.append(f"{path}: byte {line.offset}")


def recover(directory: Path) -> Recovery:
    """Cut a torn end off the last segment (kept in a `.torn` file) and find the open intents.

    Reads no further back than the oldest open intent. A damaged line with whole lines behind it
    is stepped over, never removed. Raises JournalError for a journal of another format, or one
    whose last file is compressed: no writer leaves that.
    """
    found = Recovery()
    files = list_segments(directory)
    if files:
        if files[-1].is_compressed:
            raise JournalError(
                f"{files[-1].path}: the last segment is compressed, so later ones are missing;"
                " restore them, or move this journal away and begin another"
            )
        found.last_segment = files[-1]
        found.next_seq = files[-1].first_seq
        found.oldest_seq = files[0].first_seq
        _repair_last_segment(files, found)
        _find_open_intents(files, found)
    return found


def _repair_last_segment(segment_files: list[Segment], recovery: Recovery) -> None:
    last, end = segment_files[-1], None
    for line in read_lines(last):
        if line.header is not None:
            _add_whole_line(last.path, line, recovery)
            end = line
        elif _OLD_FORMAT.match(line.raw):
            raise JournalError(
                f"{last.path}: written by an earlier version, whose records are not chained;"
                " move the folder away, and another is begun"
            )
    if last.path.stat().st_size > recovery.last_segment_bytes:
        _set_aside(last.path, recovery)
    if end is None and len(segment_files) > 1:
        end = _chain_head_from(segment_files[-2], recovery)
    recovery.source = _source_of(end)


def _add_whole_line(path: Path, line: JournalLine, recovery: Recovery) -> None:
    """Add a whole line of the last file: the next one follows the last of them."""
    assert line.header is not None
    raw, mark = line.raw[:-1], line.header
    if recovery.last_segment_bytes and mark.prev != recovery.prev:
        recovery.add_damage(path, line)  # a whole line, but not the one that was written here
    recovery.last_segment_bytes = line.end
    recovery.next_seq = max(recovery.next_seq, mark.seq + 1)
    recovery.prev = digest(raw)
    recovery.records_since_checkpoint += 1
    if mark.type == CHECKPOINT:  # it signs everything before it
        recovery.records_since_checkpoint, recovery.checkpoint_size, recovery.checkpoint_root = (
            0,
            mark.seq - 1,
            mark.prev,
        )
    recovery.segment_started = recovery.segment_started or recorded_at(raw)


def _chain_head_from(segment: Segment, recovery: Recovery) -> JournalLine | None:
    """Find the link of a file that was begun and has no whole line: the last line before it."""
    end = None
    for line in _read_whole_segment(segment):
        if line.header is not None:
            recovery.prev = digest(line.raw[:-1])
            end = line
    return end


def _source_of(line: JournalLine | None) -> str:
    """Return the source of a whole line; nothing when there is none."""
    if line is None or line.header is None:
        return ""
    found = decode_event(line.header.type, line.raw[:-1])
    return "" if found is None else found.source


def _read_whole_segment(segment: Segment) -> Iterator[JournalLine]:
    """Yield a file's lines; raises JournalError where a compressed one is damaged."""
    try:
        yield from read_lines(segment)
    except DAMAGE_ERRORS as error:
        raise JournalError(
            f"{segment.path}: is damaged, and what comes next must follow its last record: {error};"
            " restore it, or move this journal away and begin another"
        ) from error


def _set_aside(path: Path, recovery: Recovery) -> None:
    """Copy the torn end away, durably, before cutting it off: it may be evidence."""
    recovery.torn_file = path.with_name(path.name + ".torn")
    with path.open("r+b") as file, recovery.torn_file.open("ab") as torn:
        file.seek(recovery.last_segment_bytes)
        while chunk := file.read(1 << 20):
            recovery.torn_bytes += torn.write(chunk)
        torn.flush()
        fsync(torn.fileno())
        sync_directory(path.parent)  # the name must not be lost while the cut stays
        file.truncate(recovery.last_segment_bytes)
        fsync(file.fileno())


def _find_open_intents(files: list[Segment], recovery: Recovery) -> None:
    for segment in files[_first_segment_to_read(files) :]:
        for line in _readable_lines(segment, recovery):
            if line.header is None:
                recovery.add_damage(segment.path, line)
            elif (
                line.header.type == EVICTION_REQUESTED or line.header.type in EVICTION_OUTCOME_TYPES
            ):
                _track_intent(line, decode_event(line.header.type, line.raw[:-1]), recovery)


def _readable_lines(segment: Segment, recovery: Recovery) -> Iterator[JournalLine]:
    """Yield a file's lines; where a compressed one is damaged, note that and end."""
    end = 0
    try:
        for line in read_lines(segment):
            end = line.end
            yield line
    except DAMAGE_ERRORS:
        recovery.add_damage(segment.path, JournalLine(b"", end, None))


def _track_intent(line: JournalLine, event_: AnyEvent | None, recovery: Recovery) -> None:
    if event_ is None:
        return
    if isinstance(event_.data, EvictionRequested):
        assert line.header is not None
        recovery.open_intents[event_.id] = OpenIntent(line.header.seq, event_)
    else:
        recovery.open_intents.pop(event_.causationid, None)


def _first_segment_to_read(files: list[Segment]) -> int:
    """Return the index of the newest segment whose first checkpoint can be read."""
    for index in range(len(files) - 1, -1, -1):
        heading = _first_checkpoint(files[index])
        if heading is not None:
            return _segment_containing(files, index, heading.oldest_open)
    return 0


def _segment_containing(files: list[Segment], index: int, seq: int | None) -> int:
    while index > 0 and seq is not None and files[index].first_seq > seq:
        index -= 1
    return index


def _first_checkpoint(segment: Segment) -> Checkpoint | None:
    try:
        first = next(read_lines(segment), None)
    except DAMAGE_ERRORS:
        return None
    if first is None or first.header is None or first.header.type != CHECKPOINT:
        return None
    found = decode_event(CHECKPOINT, first.raw[:-1])
    return None if found is None else found.data
