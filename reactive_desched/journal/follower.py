"""Follows a journal's files while they are written: each record comes once, and only whole."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from reactive_desched.journal.reader import Reader
from reactive_desched.journal.records import Entry, recorded_at
from reactive_desched.journal.segments import UNREADABLE, entries, segments

AT_ONCE: Final = 100
"""So many lines are read at once: of whoever stops in between, no more are read ahead."""


class Newest(NamedTuple):
    """The newest records that were wanted, in order, and the last sequence there is of any."""

    entries: list[Entry]
    last: int


class Follower:
    """Gives what comes behind a place, across files that are begun, compressed or removed.

    `missed` is told the first and last sequence of records that could not be read. One file is
    open at a time. Every method blocks, and raises OSError when the journal cannot be read.
    """

    def __init__(self, directory: Path, seq: int, missed: Callable[[int, int], None]) -> None:
        self.seq = seq
        self._directory = directory
        self._missed = missed
        self._reader = Reader(directory)
        self._place = 0, 0
        self._before = b""

    def new(self) -> Iterator[Entry]:
        """Yield the records that are there by now and were not given yet."""
        self._place = self._start()
        while (portion := self._reader.read(*self._place, AT_ONCE)) is not None:
            for entry in portion.entries():
                if entry.seq > self.seq:
                    if entry.seq > self.seq + 1:
                        self._missed(self.seq + 1, entry.seq - 1)
                    self.seq = entry.seq
                    yield entry
            self._place = portion.behind
            self._before = b"" if portion.broken else portion.lines[-1]

    def close(self) -> None:
        """Close the file; following goes on all the same."""
        self._reader.close()

    def _start(self) -> tuple[int, int]:
        """Return where we were, or else where the file begins that holds the next record.

        So it is at first, and when the line before our place was cut off: its write had failed.
        """
        if self._before:
            segment, offset = self._place
            portion = self._reader.read(segment, offset - len(self._before), 1)
            if portion is not None and portion.lines == [self._before]:
                return self._place
        firsts = (one.first_seq for one in segments(self._directory))
        return max((first for first in firsts if first <= self.seq + 1), default=0), 0


def newest(directory: Path, most: int, wants: Callable[[Entry], bool]) -> Newest:
    """Return the newest records that are wanted, at most so many, reading back from the end."""
    found: list[Entry] = []
    last = 0
    for one in reversed(segments(directory)):
        some: deque[Entry] = deque(maxlen=max(0, most - len(found)))
        with suppress(*UNREADABLE):
            for entry in entries(one):
                last = max(last, entry.seq)
                if wants(entry):
                    some.append(entry)
        found = [*some, *found]
        if len(found) >= most and last:
            break
    return Newest(found, last)


def seq_before(directory: Path, moment: datetime) -> int:
    """Return the sequence behind which records were written at this moment or later."""
    files = segments(directory)
    at = files[0].first_seq - 1 if files else 0
    for one in reversed(files):
        with suppress(*UNREADABLE):
            for entry in entries(one):
                written = recorded_at(entry.raw)
                if written is None or written >= moment:
                    break
                at = max(at, entry.seq)
        if at >= one.first_seq:
            break
    return at
