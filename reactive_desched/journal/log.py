"""The synchronous half of the journal: chained lines in files, whole or not at all."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from reactive_desched.journal.disk import Disk
from reactive_desched.journal.records import GENESIS, Body, Entry, digest, line
from reactive_desched.journal.recovery import Recovery
from reactive_desched.journal.segments import segment
from reactive_desched.journal.signing.checkpointer import Context, Seals


class Rotation(Struct, frozen=True):
    """When another file begins: at this size, or this long after the last one began."""

    max_bytes: int
    max_age_s: float


class Written(NamedTuple):
    """What one commit wrote: all its records, and where those begin that were asked for.

    `unrecorded` is what the checkpoints among them told of verdicts left out.
    """

    entries: list[Entry]
    first: int
    unrecorded: int


Told = Callable[[int | None], Context]
"""What a checkpoint tells behind a batch that begins at this sequence; before it, if None."""


class Log:
    """Appends lines to the last of a directory's files and begins a new one when it is full.

    Each file begins with a checkpoint over everything before it. Every method blocks; one caller
    at a time. After an OSError nothing counts as written; what it left behind is cut off before
    anything else is written. `clock` is the time of day.
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
        self._must_repair = self._must_rotate = False
        self._untold: list[Entry] = []
        self._unrecorded_told = 0

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

    def commit(self, bodies: Sequence[Body], told: Told, *, seal: bool = False) -> Written:
        """Write the events durably, in one write, and what is due besides.

        A new file's heading comes before them, a checkpoint after them. A file may outgrow its
        limit by one commit.
        """
        if self._must_repair:
            self.repair()
        if self._is_full():
            self._begin_segment(told(None))
        first = self._next_seq
        entries, prev = self._chained(bodies)
        unsealed, size = self._unsealed + len(entries), self.last + len(entries)
        if seals := self._seals.is_due(unsealed) or (seal and unsealed > 0):
            context = told(first)
            body = self._sealing(size, prev, context)
            entries.append(Entry(size + 1, line(body, prev, self._recorded(), size + 1)))
        self._write(entries)
        if seals:
            self._sealed(size, prev, context)
        self._unsealed = 0 if seals else unsealed
        return self._written(entries, first)

    def repair(self) -> None:
        """Cut off whatever a failed write left behind what is known to be written."""
        self._must_repair = True
        self.close()
        self._descriptor = self._disk.reopen(self._path, self._size)
        self._must_repair = False

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
        too_old = abs(age_s) >= self._rotation.max_age_s  # the clock may have been set back
        return self._must_rotate or too_old or self._size >= self._rotation.max_bytes

    def _sealing(self, size: int, root: str, told: Context) -> Body:
        """Return a checkpoint that tells what none has told before."""
        left = told._replace(unrecorded=told.unrecorded - self._unrecorded_told)
        return self._seals.body(self.source, size, root, left)

    def _sealed(self, size: int, root: str, told: Context) -> None:
        self._seals.sealed(size, root)
        self._unrecorded_told = told.unrecorded

    def _written(self, entries: Sequence[Entry], first: int) -> Written:
        """Return what was written since this was last asked, by a commit that failed too."""
        written = Written([*self._untold, *entries], first, self._unrecorded_told)
        self._untold, self._unrecorded_told = [], 0
        return written

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
        assert self._descriptor is not None, "it is open unless it must be repaired first"
        data = _joined(entries)
        self._must_repair = True
        self._disk.append(self._descriptor, data)
        self._disk.prove_place(self._descriptor, self._path)
        self._must_repair = False
        self._size += len(data)
        self._went_on(entries[-1])

    def _went_on(self, last: Entry) -> None:
        self._next_seq, self._prev = last.seq + 1, digest(last.raw)

    def _begin_segment(self, told: Context) -> None:
        """Replace the file; on failure the old one stays, and nothing is added to it any more.

        What a failure left of the new file would else stand in the way of what the old one got.
        """
        self._must_rotate = True
        body = self._sealing(self.last, self._prev, told)
        heading = Entry(self._next_seq, line(body, self._prev, self._recorded(), self._next_seq))
        path, data = segment(self._directory, heading.seq).path, _joined([heading])
        descriptor = self._disk.create(path)
        try:
            self._disk.append(descriptor, data)
        except OSError:
            self._disk.close(descriptor)
            raise
        self.close()
        self._sealed(self.last, self._prev, told)
        self._path, self._descriptor, self._size = path, descriptor, len(data)
        self._began, self.first_seq, self._unsealed = self._clock(), heading.seq, 0
        self._must_rotate = False
        self._went_on(heading)
        self._untold.append(heading)


def _joined(entries: Iterable[Entry]) -> bytes:
    return b"".join([piece for entry in entries for piece in (entry.raw, b"\n")])
