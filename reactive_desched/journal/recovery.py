"""What a journal's last writer left behind: where to go on, what was torn, what is still open."""

from dataclasses import dataclass, field
from os import fsync
from pathlib import Path

from reactive_desched.errors import JournalError
from reactive_desched.journal.reading import read_segment
from reactive_desched.journal.records import (
    FORMAT,
    IntentRecord,
    OutcomeRecord,
    SegmentRecord,
    decode,
)
from reactive_desched.journal.segments import Line, Segment, lines, segments

MAX_NAMED = 20
"""So many damaged lines are named; further ones are only counted."""


@dataclass
class Recovery:
    """What opening a journal found; `next_seq` is the number of the next line."""

    next_seq: int = 1
    last: Segment | None = None
    size: int = 0
    open: dict[str, IntentRecord] = field(default_factory=dict)
    torn: Path | None = None
    torn_bytes: int = 0
    damaged_lines: int = 0
    damaged: list[str] = field(default_factory=list)

    def note_damage(self, path: Path, line: Line) -> None:
        """Count and name a line that cannot be read; an unknown kind is a later version's."""
        if line.seq is not None:
            return
        self.damaged_lines += 1
        if len(self.damaged) < MAX_NAMED:
            self.damaged.append(f"{path}: byte {line.offset}")


def recover(directory: Path) -> Recovery:
    """Cut a torn end off the last segment (kept in a `.torn` file) and find the open intents.

    Reads no further back than the oldest open intent. A damaged line with whole lines behind it
    is stepped over, never removed.
    """
    found = Recovery()
    files = segments(directory)
    if files:
        found.last = files[-1]
        found.next_seq = files[-1].first_seq
        _repair(files[-1], found)
        _find_open(files, found)
    return found


def _repair(last: Segment, found: Recovery) -> None:
    for line in lines(last.path):
        if line.seq is not None:
            found.size = line.end
            found.next_seq = max(found.next_seq, line.seq + 1)
    if last.path.stat().st_size > found.size:
        _set_aside(last.path, found)


def _set_aside(path: Path, found: Recovery) -> None:
    """Copy the torn end away, durably, before cutting it off: it may be evidence."""
    found.torn = path.with_name(path.name + ".torn")
    with path.open("r+b") as file, found.torn.open("ab") as torn:
        file.seek(found.size)
        while chunk := file.read(1 << 20):
            found.torn_bytes += torn.write(chunk)
        torn.flush()
        fsync(torn.fileno())
        file.truncate(found.size)
        fsync(file.fileno())


def _find_open(files: list[Segment], found: Recovery) -> None:
    for segment in files[_first_needed(files) :]:
        for record in read_segment(segment, found.note_damage):
            match record:
                case IntentRecord():
                    found.open[record.id] = record
                case OutcomeRecord():
                    found.open.pop(record.intent, None)
                case _:
                    pass


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


def _heading(segment: Segment) -> SegmentRecord | None:
    first = next(lines(segment.path), None)
    record = decode(first.raw) if first else None
    if not isinstance(record, SegmentRecord):
        return None
    if record.format > FORMAT:
        raise JournalError(
            f"{segment.path}: written in format {record.format} by a newer version (this one reads"
            f" {FORMAT}); upgrade, or start with an empty directory"
        )
    return record
