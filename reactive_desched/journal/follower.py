"""Reads a journal's folder from outside while it is written: each record once, and only whole."""

import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import IO, Final, NamedTuple

from reactive_desched.journal.records import Entry, mark, recorded_at
from reactive_desched.journal.segments import UNREADABLE, Segment, entries, segments

BLOCK_BYTES: Final = 1 << 20
"""So much is read at once; a line cannot be longer."""

_TRIES: Final = 3


class Newest(NamedTuple):
    """The newest records that were wanted, in order, and the last sequence there is of any."""

    entries: list[Entry]
    last: int


class Follower:
    """Gives what comes behind a place, across files that are begun, compressed or removed.

    `missed` is told the first and last sequence of records that could not be read. One file is
    open at a time. Every method blocks, and raises OSError when the folder cannot be read.
    """

    def __init__(self, directory: Path, seq: int, missed: Callable[[int, int], None]) -> None:
        self.seq = seq
        self._directory = directory
        self._missed = missed
        self._segment: Segment | None = None
        self._file: IO[bytes] | None = None
        self._offset = 0
        self._finished = -1

    def new(self) -> Iterator[Entry]:
        """Yield the records that are there by now and were not given yet."""
        while True:
            if self._file is None and not self._open():
                return
            is_newest = not self._is_closed()  # asked first: a closed file has nothing to come
            yield from self._whole_records()
            if is_newest:
                return
            self.close()

    def close(self) -> None:
        """Close the file; whoever goes on begins with the next one."""
        if self._file is not None and self._segment is not None:
            self._file.close()
            self._file, self._finished = None, self._segment.first_seq

    def _open(self) -> bool:
        for _ in range(_TRIES):  # between looking and opening a file may have been compressed
            chosen = self._choose()
            if chosen is None:
                return False
            with suppress(FileNotFoundError):
                self._file, self._segment, self._offset = chosen.open(), chosen, 0
                return True
        return False

    def _choose(self) -> Segment | None:
        """Return the file that holds the next record, or where the next readable one may be."""
        rest = [one for one in segments(self._directory) if one.first_seq > self._finished]
        behind = [one for one in rest if one.first_seq <= self.seq + 1]
        return behind[-1] if behind else next(iter(rest), None)

    def _is_closed(self) -> bool:
        begun = -1 if self._segment is None else self._segment.first_seq
        return any(one.first_seq > begun for one in segments(self._directory))

    def _whole_records(self) -> Iterator[Entry]:
        for raw in self._lines():
            found = mark(raw)
            if found is None or found.seq <= self.seq:
                continue
            if found.seq > self.seq + 1:
                self._missed(self.seq + 1, found.seq - 1)
            self.seq = found.seq
            yield Entry(found.seq, raw)

    def _lines(self) -> Iterator[bytes]:
        file, segment = self._file, self._segment
        assert file is not None, "it was opened"
        assert segment is not None, "it was opened"
        if not segment.is_compressed:
            yield from self._plain_lines(file.fileno())
            return
        with suppress(*UNREADABLE):  # what cannot be read shows as records that are missing
            yield from (line[:-1] for line in file if line.endswith(b"\n"))

    def _plain_lines(self, descriptor: int) -> Iterator[bytes]:
        """Yield whole lines; the beginning of one is read again when there is more of it."""
        if os.fstat(descriptor).st_size < self._offset:
            self._offset = 0  # what a failed write left was cut off: see what stands there now
        while block := os.pread(descriptor, BLOCK_BYTES, self._offset):
            end = block.rfind(b"\n") + 1
            if not end and len(block) < BLOCK_BYTES:
                return
            self._offset += end or len(block)
            yield from block[:end].split(b"\n")[:-1]


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
