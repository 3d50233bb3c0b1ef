"""Reading a journal from outside, while it is being written or long after."""

from collections.abc import Callable, Iterator
from pathlib import Path

from reactive_desched.journal.records import Record, decode
from reactive_desched.journal.segments import Line, Segment, lines, segments

Skipped = Callable[[Path, Line], None]


def _say_nothing(path: Path, line: Line) -> None:
    """Take no notice of a skipped line."""


def read(directory: Path, skipped: Skipped = _say_nothing) -> Iterator[Record]:
    """Yield every record in the order written.

    Lines that are damaged, or of a kind this version does not know, go to `skipped`. A last line
    without its end is still being written, or torn: it is no record, and is not reported.
    """
    for segment in segments(directory):
        yield from read_segment(segment, skipped)


def read_segment(segment: Segment, skipped: Skipped = _say_nothing) -> Iterator[Record]:
    """Yield the records of one file."""
    for line in lines(segment.path):
        record = decode(line.raw) if line.seq is not None else None
        if record is not None:
            yield record
        elif line.raw.endswith(b"\n"):
            skipped(segment.path, line)
