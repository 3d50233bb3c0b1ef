"""What a journal's last writer left behind: where to go on, what was torn, what is still open."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from os import fsync
from pathlib import Path

from reactive_desched.api.event import (
    CHECKPOINT,
    DRY_RUN,
    EVICTION_REQUESTED,
    OUTCOMES,
    Checkpoint,
    Event,
    EvictionRequested,
    Who,
)
from reactive_desched.errors import JournalError
from reactive_desched.journal.durable import sync_directory
from reactive_desched.journal.events import event
from reactive_desched.journal.records import GENESIS, AnyEvent, digest, recorded_at
from reactive_desched.journal.segments import BROKEN, Line, Segment, lines, segments

MAX_NAMED = 20
"""So many damaged lines are named; further ones are only counted."""

_FORMER = re.compile(rb'\{"seq":\d+,"kind":')


@dataclass
class OpenIntent:
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
    def is_dry_run(self) -> bool:
        """Say whether nothing was to be asked."""
        return self.event.data.mode == DRY_RUN


@dataclass
class Recovery:
    """What opening a journal found; `next_seq` is the number of the next line, `prev` its link.

    `unsealed` counts the records since the last checkpoint, which signs so many records (`sealed`)
    that end in this hash (`sealed_root`); `began` is when the last file did.
    `cut_to` is how far the journal once reached when its end is missing, else 0; `has_new_key`
    tells that its checkpoints had another signer so far.
    """

    next_seq: int = 1
    prev: str = GENESIS
    oldest_seq: int = 1
    source: str = ""
    last: Segment | None = None
    size: int = 0
    began: datetime | None = None
    unsealed: int = 0
    sealed: int = 0
    sealed_root: str = ""
    open: dict[str, OpenIntent] = field(default_factory=dict)
    torn: Path | None = None
    torn_bytes: int = 0
    damaged_lines: int = 0
    damaged: list[str] = field(default_factory=list)
    cut_to: int = 0
    has_new_key: bool = False

    @property
    def oldest_open(self) -> int | None:
        """Where in the journal the oldest open intent stands."""
        return next((intent.seq for intent in self.open.values()), None)

    def note_damage(self, path: Path, line: Line) -> None:
        """Count and name a line that cannot be read."""
        self.damaged_lines += 1
        if len(self.damaged) < MAX_NAMED:
            self.damaged.append(f"{path}: byte {line.offset}")


def recover(directory: Path) -> Recovery:
    """Cut a torn end off the last segment (kept in a `.torn` file) and find the open intents.

    Reads no further back than the oldest open intent. A damaged line with whole lines behind it
    is stepped over, never removed. Raises JournalError for a journal of another format, or one
    whose last file is compressed: no writer leaves that.
    """
    found = Recovery()
    files = segments(directory)
    if files:
        if files[-1].is_compressed:
            raise JournalError(
                f"{files[-1].path}: the last segment is compressed, so later ones are missing;"
                " restore them, or move this journal away and begin another"
            )
        found.last = files[-1]
        found.next_seq = files[-1].first_seq
        found.oldest_seq = files[0].first_seq
        _repair(files, found)
        _find_open(files, found)
    return found


def _repair(files: list[Segment], found: Recovery) -> None:
    last, end = files[-1], None
    for line in lines(last):
        if line.mark is not None:
            _note_whole(last.path, line, found)
            end = line
        elif _FORMER.match(line.raw):
            raise JournalError(
                f"{last.path}: written by an earlier version, whose records are not chained;"
                " move the folder away, and another is begun"
            )
    if last.path.stat().st_size > found.size:
        _set_aside(last.path, found)
    if end is None and len(files) > 1:
        end = _link_to(files[-2], found)
    found.source = _source_of(end)


def _note_whole(path: Path, line: Line, found: Recovery) -> None:
    """Take in a whole line of the last file: the next one follows the last of them."""
    assert line.mark is not None
    raw, mark = line.raw[:-1], line.mark
    if found.size and mark.prev != found.prev:
        found.note_damage(path, line)  # a whole line, but not the one that was written here
    found.size = line.end
    found.next_seq = max(found.next_seq, mark.seq + 1)
    found.prev = digest(raw)
    found.unsealed += 1
    if mark.type == CHECKPOINT:  # it signs everything before it
        found.unsealed, found.sealed, found.sealed_root = 0, mark.seq - 1, mark.prev
    found.began = found.began or recorded_at(raw)


def _link_to(before: Segment, found: Recovery) -> Line | None:
    """Find the link of a file that was begun and has no whole line: the last line before it."""
    end = None
    for line in _whole(before):
        if line.mark is not None:
            found.prev = digest(line.raw[:-1])
            end = line
    return end


def _source_of(line: Line | None) -> str:
    """Return the source of a whole line; nothing when there is none."""
    if line is None or line.mark is None:
        return ""
    found = event(line.mark.type, line.raw[:-1])
    return "" if found is None else found.source


def _whole(segment: Segment) -> Iterator[Line]:
    """Yield a file's lines; raises JournalError where a compressed one is damaged."""
    try:
        yield from lines(segment)
    except BROKEN as error:
        raise JournalError(
            f"{segment.path}: is damaged, and what comes next must follow its last record: {error};"
            " restore it, or move this journal away and begin another"
        ) from error


def _set_aside(path: Path, found: Recovery) -> None:
    """Copy the torn end away, durably, before cutting it off: it may be evidence."""
    found.torn = path.with_name(path.name + ".torn")
    with path.open("r+b") as file, found.torn.open("ab") as torn:
        file.seek(found.size)
        while chunk := file.read(1 << 20):
            found.torn_bytes += torn.write(chunk)
        torn.flush()
        fsync(torn.fileno())
        sync_directory(path.parent)  # the name must not be lost while the cut stays
        file.truncate(found.size)
        fsync(file.fileno())


def _find_open(files: list[Segment], found: Recovery) -> None:
    for segment in files[_first_needed(files) :]:
        for line in _readable(segment, found):
            if line.mark is None:
                found.note_damage(segment.path, line)
            elif line.mark.type == EVICTION_REQUESTED or line.mark.type in OUTCOMES:
                _take(line, event(line.mark.type, line.raw[:-1]), found)


def _readable(segment: Segment, found: Recovery) -> Iterator[Line]:
    """Yield a file's lines; where a compressed one is damaged, note that and end."""
    end = 0
    try:
        for line in lines(segment):
            end = line.end
            yield line
    except BROKEN:
        found.note_damage(segment.path, Line(b"", end, None))


def _take(line: Line, event_: AnyEvent | None, found: Recovery) -> None:
    if event_ is None:
        return
    if isinstance(event_.data, EvictionRequested):
        assert line.mark is not None
        found.open[event_.id] = OpenIntent(line.mark.seq, event_)
    else:
        found.open.pop(event_.causationid, None)


def _first_needed(files: list[Segment]) -> int:
    """Return the index of the segment to read from: the newest readable heading tells."""
    for index in range(len(files) - 1, -1, -1):
        heading = _heading(files[index])
        if heading is not None:
            return _holding(files, index, heading.oldest_open)
    return 0


def _holding(files: list[Segment], index: int, seq: int | None) -> int:
    while index > 0 and seq is not None and files[index].first_seq > seq:
        index -= 1
    return index


def _heading(segment: Segment) -> Checkpoint | None:
    try:
        first = next(lines(segment), None)
    except BROKEN:
        return None
    if first is None or first.mark is None or first.mark.type != CHECKPOINT:
        return None
    found = event(CHECKPOINT, first.raw[:-1])
    return None if found is None else found.data
