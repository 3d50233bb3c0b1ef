"""The synchronous half of the journal: chained lines in files, whole or not at all."""

import errno
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from reactive_desched.journal.disk import Disk
from reactive_desched.journal.records import GENESIS, Body, Entry, digest, line
from reactive_desched.journal.recovery import Recovery
from reactive_desched.journal.seals import Context, Seals
from reactive_desched.journal.segments import segment


class Rotation(Struct, frozen=True):
    """When another file begins: at this size, or this long after the last one began."""

    max_bytes: int
    max_age_s: float


class Written(NamedTuple):
    """What one commit wrote: all its records, and where those begin that were asked for.

    `sealed` says whether there is a checkpoint among them.
    """

    entries: list[Entry]
    first: int
    sealed: bool


class Log:
    """Appends lines to the last of a directory's files and begins a new one when it is full.

    Each file begins with a checkpoint over everything before it. Every method blocks; one caller
    at a time. After an OSError nothing counts as written, and `repair` must succeed before the
    next `commit`. `clock` is the time of day.
    """

    def __init__(
        self,
        directory: Path,
        *,
        disk: Disk,
        rotation: Rotation,
        seals: Seals,
        clock: Callable[[], datetime],
    ) -> None:
        self.source = ""
        self.first_seq = 1
        self._directory = directory
        self._disk = disk
        self._rotation = rotation
        self._seals = seals
        self._clock = clock
        self._path = directory
        self._descriptor: int | None = None
        self._size = 0
        self._began = clock()
        self._next_seq = 1
        self._prev = GENESIS
        self._unsealed = 0
        self._untold: list[Entry] = []

    def resume(self, found: Recovery, source: str) -> None:
        """Go on where the last writer ended; a journal without a line begins with its heading."""
        self.source = source
        self._next_seq, self._prev = found.next_seq, found.prev
        self._unsealed = found.unsealed
        if found.last is not None and found.size > 0:
            self._path, self._size = found.last.path, found.size
            self.first_seq = found.last.first_seq
            self._began = found.began or self._began
            self.repair()
        else:
            self._begin_segment(Context(found.oldest_open))
            self._untold.clear()  # nobody follows yet

    @property
    def last(self) -> int:
        """The sequence of the last record written."""
        return self._next_seq - 1

    def seal_is_due(self) -> bool:
        """Say whether an empty commit would write a checkpoint."""
        return self._seals.is_due(self._unsealed)

    def commit(self, bodies: Sequence[Body], context: Context, *, seal: bool = False) -> Written:
        """Write the events durably, in one write, and what is due besides.

        A new file's heading comes before them, a checkpoint after them. A file may outgrow its
        limit by one commit.
        """
        if self._is_full():
            self._begin_segment(context)
        first = self._next_seq
        entries, prev = self._chained(bodies)
        unsealed, size = self._unsealed + len(entries), self.last + len(entries)
        seals = self._seals.is_due(unsealed) or (seal and unsealed > 0)
        if seals:
            body = self._seals.body(self.source, size, prev, context)
            entries.append(Entry(size + 1, line(body, prev, self._recorded(), size + 1)))
        self._write(entries)
        if seals:
            self._seals.sealed(size, prev)
        self._unsealed = 0 if seals else unsealed
        told, self._untold = [*self._untold, *entries], []
        return Written(told, first, seals or len(told) > len(entries))

    def repair(self) -> None:
        """Cut off whatever a failed write left behind what is known to be written."""
        self.close()
        self._descriptor = self._disk.reopen(self._path, self._size)

    def heal(self) -> None:
        """Repair after a fault, provided there is room for more than the next record."""
        self._disk.prove_room(self._directory)
        self.repair()

    def close(self) -> None:
        """Close the file; nothing is buffered."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            with suppress(OSError):  # all that counted as written is synced already
                self._disk.close(descriptor)

    def _is_full(self) -> bool:
        age_s = (self._clock() - self._began).total_seconds()
        return self._size >= self._rotation.max_bytes or age_s >= self._rotation.max_age_s

    def _chained(self, bodies: Iterable[Body]) -> tuple[list[Entry], str]:
        recorded, seq, prev = self._recorded(), self._next_seq, self._prev
        entries = []
        for body in bodies:
            raw = line(body, prev, recorded, seq)
            entries.append(Entry(seq, raw))
            seq, prev = seq + 1, digest(raw)
        return entries, prev

    def _recorded(self) -> str:
        return self._clock().strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def _write(self, entries: Sequence[Entry]) -> None:
        if not entries:
            return
        if self._descriptor is None:  # the last repair failed, and we are to end
            raise FileNotFoundError(errno.ENOENT, "the journal's file is gone", str(self._path))
        data = _joined(entries)
        self._disk.append(self._descriptor, data)
        self._disk.prove_place(self._descriptor, self._path)
        self._size += len(data)
        self._went_on(entries[-1])

    def _went_on(self, last: Entry) -> None:
        self._next_seq, self._prev = last.seq + 1, digest(last.raw)

    def _begin_segment(self, context: Context) -> None:
        """Replace the file; on failure the old one stays, still full, so this is tried again."""
        body = self._seals.body(self.source, self.last, self._prev, context)
        heading = Entry(self._next_seq, line(body, self._prev, self._recorded(), self._next_seq))
        path, data = segment(self._directory, heading.seq).path, _joined([heading])
        descriptor = self._disk.create(path)
        try:
            self._disk.append(descriptor, data)
        except OSError:
            self._disk.close(descriptor)
            raise
        self.close()
        self._seals.sealed(self.last, self._prev)
        self._path, self._descriptor, self._size = path, descriptor, len(data)
        self._began, self.first_seq, self._unsealed = self._clock(), heading.seq, 0
        self._went_on(heading)
        self._untold.append(heading)


def _joined(entries: Iterable[Entry]) -> bytes:
    return b"".join([piece for entry in entries for piece in (entry.raw, b"\n")])
