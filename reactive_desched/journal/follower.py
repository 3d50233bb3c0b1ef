"""Follows a journal's files while they are written: each record comes once, and only whole."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from reactive_desched.journal.reader import SegmentReader
from reactive_desched.journal.records import JournalRecord, recorded_at
from reactive_desched.journal.segments import READ_ERRORS, list_segments, read_records

READ_LINES: Final = 100
"""So many lines are read at once: a reader that stops in between has read no more ahead."""


class NewestRecords(NamedTuple):
    """The newest records that were wanted, in order, and the last sequence there is of any."""

    records: list[JournalRecord]
    last_seq: int


class JournalFollower:
    """Reads the records after a position, across segments that are begun, compressed or removed.

    `on_gap` gets the first and last sequence of records that could not be read. One file is
    open at a time. Every method blocks, and raises OSError when the journal cannot be read.
    """

    def __init__(self, directory: Path, seq: int, on_gap: Callable[[int, int], None]) -> None:
        self.seq = seq
        self._directory = directory
        self._on_gap = on_gap
        self._reader = SegmentReader(directory)
        self._position = 0, 0
        self._last_line = b""

    def read_new(self) -> Iterator[JournalRecord]:
        """Yield the records that are there by now and were not given yet."""
        self._position = self._resume_position()
        while (batch := self._reader.read(*self._position, READ_LINES)) is not None:
            for entry in batch.records():
                if entry.seq > self.seq:
                    if entry.seq > self.seq + 1:
                        self._on_gap(self.seq + 1, entry.seq - 1)
                    self.seq = entry.seq
                    yield entry
            self._position = batch.next_position
            self._last_line = b"" if batch.damaged else batch.lines[-1]

    def close(self) -> None:
        """Close the file; the next read opens it again."""
        self._reader.close()

    def _resume_position(self) -> tuple[int, int]:
        """Return the position reached, or else the start of the segment with the next record.

        So it is at first, and when the line before our place was cut off: its write had failed.
        """
        if self._last_line:
            segment, offset = self._position
            portion = self._reader.read(segment, offset - len(self._last_line), 1)
            if portion is not None and portion.lines == [self._last_line]:
                return self._position
        firsts = (one.first_seq for one in list_segments(self._directory))
        return max((first for first in firsts if first <= self.seq + 1), default=0), 0


def newest_records(
    directory: Path, limit: int, matches: Callable[[JournalRecord], bool]
) -> NewestRecords:
    """Return the newest records that are wanted, at most so many, reading back from the end."""
    found: list[JournalRecord] = []
    last = 0
    for one in reversed(list_segments(directory)):
        matching: deque[JournalRecord] = deque(maxlen=max(0, limit - len(found)))
        with suppress(*READ_ERRORS):
            for entry in read_records(one):
                last = max(last, entry.seq)
                if matches(entry):
                    matching.append(entry)
        found = [*matching, *found]
        if len(found) >= limit and last:
            break
    return NewestRecords(found, last)


def seq_before(directory: Path, moment: datetime) -> int:
    """Return the sequence behind which records were written at this moment or later."""
    files = list_segments(directory)
    last_before = files[0].first_seq - 1 if files else 0
    for one in reversed(files):
        with suppress(*READ_ERRORS):
            for entry in read_records(one):
                written = recorded_at(entry.raw)
                if written is None or written >= moment:
                    break
                last_before = max(last_before, entry.seq)
        if last_before >= one.first_seq:
            break
    return last_before
