"""Reading a journal from outside, while it is being written or long after."""

from collections.abc import Callable, Iterator
from pathlib import Path

from reactive_desched.journal.events import event
from reactive_desched.journal.records import AnyEvent
from reactive_desched.journal.segments import Line, lines, segments

Skipped = Callable[[Path, Line], None]


def _say_nothing(path: Path, line: Line) -> None:
    """Take no notice of a skipped line."""


def read(directory: Path, skipped: Skipped = _say_nothing) -> Iterator[AnyEvent]:
    """Yield every event in the order written.

    Lines that are damaged go to `skipped`. A last line without its end is still being written, or
    torn: it is no record, and is not reported.
    """
    for segment in segments(directory):
        for line in lines(segment):
            found = event(line.mark.type, line.raw[:-1]) if line.mark is not None else None
            if found is not None:
                yield found
            elif line.raw.endswith(b"\n"):
                skipped(segment.path, line)
