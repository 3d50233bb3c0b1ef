"""The synchronous half of the journal: numbered lines in files, whole or not at all."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from reactive_desched.journal.disk import Disk
from reactive_desched.journal.records import FORMAT, SegmentRecord, encode, line
from reactive_desched.journal.recovery import Recovery
from reactive_desched.journal.segments import segment


class Log:
    """Appends lines to the last of a directory's files and begins a new one when it is full.

    Every method blocks; one caller at a time. After an OSError nothing counts as written, and
    `repair` must succeed before the next `commit`.
    """

    def __init__(
        self,
        directory: Path,
        *,
        disk: Disk,
        max_segment_bytes: int,
        clock: Callable[[], datetime],
    ) -> None:
        self._directory = directory
        self._disk = disk
        self._max_segment_bytes = max_segment_bytes
        self._clock = clock
        self._path = directory
        self._descriptor: int | None = None
        self._size = 0
        self._next_seq = 1

    def resume(self, found: Recovery) -> None:
        """Go on where the last writer ended; a journal without a line begins with its heading."""
        self._next_seq = found.next_seq
        if found.last is not None and found.size > 0:
            self._path, self._size = found.last.path, found.size
            self.repair()
        else:
            self._begin_segment(next((intent.seq for intent in found.open.values()), None))

    def commit(self, bodies: Sequence[bytes], oldest_open: int | None) -> int:
        """Write the encoded records durably, in one write; return the seq of the first.

        A file may outgrow its limit by one commit.
        """
        if self._size >= self._max_segment_bytes:
            self._begin_segment(oldest_open)
        assert self._descriptor is not None, "repair succeeded"
        first = self._next_seq
        data = b"".join(line(seq, body) for seq, body in enumerate(bodies, first))
        self._disk.append(self._descriptor, data)
        self._size += len(data)
        self._next_seq += len(bodies)
        return first

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

    def _begin_segment(self, oldest_open: int | None) -> None:
        """Replace the file; on failure the old one stays, still full, so this is tried again."""
        path = segment(self._directory, self._next_seq).path
        heading = SegmentRecord(time=self._clock(), format=FORMAT, oldest_open=oldest_open)
        data = line(self._next_seq, encode(heading))
        descriptor = self._disk.create(path)
        try:
            self._disk.append(descriptor, data)
        except OSError:
            self._disk.close(descriptor)
            raise
        self.close()
        self._path, self._descriptor, self._size = path, descriptor, len(data)
        self._next_seq += 1
