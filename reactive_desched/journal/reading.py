"""Reading a journal from outside, while it is being written or long after."""

from collections.abc import Callable, Iterator
from pathlib import Path

from reactive_desched.journal.events import decode_event
from reactive_desched.journal.records import AnyEvent
from reactive_desched.journal.segments import JournalLine, list_segments, read_lines

OnSkipped = Callable[[Path, JournalLine], None]


def _ignore_skipped(path: Path, line: JournalLine) -> None:
    """Take no notice of a skipped line."""


def read_events(directory: Path, on_skipped: OnSkipped = _ignore_skipped) -> Iterator[AnyEvent]:
    """Yield every event in the order written.

    Lines that are damaged go to `on_skipped`. A last line without its end is still being written,
    or torn: it is not a record, and is not reported.
    """
    for segment in list_segments(directory):
        for line in read_lines(segment):
            found = (
                decode_event(line.header.type, line.raw[:-1]) if line.header is not None else None
            )
            if found is not None:
                yield found
            elif line.raw.endswith(b"\n"):
                on_skipped(segment.path, line)
