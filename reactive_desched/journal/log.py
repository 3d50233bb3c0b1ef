"""The synchronous half of the journal: chained lines in files, whole or not at all."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct

from reactive_desched.journal.disk import Disk, FileId
from reactive_desched.journal.records import (
    GENESIS,
    EncodedEvent,
    JournalRecord,
    digest,
    format_line,
)
from reactive_desched.journal.recovery import Recovery
from reactive_desched.journal.segments import segment_at
from reactive_desched.journal.signing.checkpointer import (
    CheckpointContext,
    Checkpointer,
    Unrecorded,
)


class Rotation(Struct, frozen=True):
    """The size, and the age of its first record, at which a segment is closed."""

    max_bytes: int
    max_age_s: float


class CommitResult(NamedTuple):
    """The records that one commit wrote, and where the lines that were asked for begin.

    `unrecorded_reported` counts what was left out, as the checkpoints among them say, and
    `synced_in_s` is how long the synced write took.
    """

    records: list[JournalRecord]
    first_seq: int
    unrecorded_reported: Unrecorded
    synced_in_s: float


_MICROSECONDS: Final = len("2026-01-01T00:00:00.000000")

ContextProvider = Callable[[int | None], CheckpointContext]
"""The context of a checkpoint behind the batch that begins at this sequence; before it, if None."""


class SegmentWriter:
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
        checkpointer: Checkpointer,
        clock: Callable[[], datetime],
    ) -> None:
        self.source = ""
        self.first_seq = 1
        self._directory = directory
        self._disk = disk
        self._rotation = rotation
        self._checkpointer = checkpointer
        self._clock = clock
        self._path = directory
        self._descriptor: int | None = None
        self._file_id: FileId = (0, 0)
        self._size = 0
        self._started = clock()
        self._next_seq = 1
        self._prev = GENESIS
        self._records_since_checkpoint = 0
        self._must_repair = self._must_rotate = False
        self._unpublished: list[JournalRecord] = []
        self._unrecorded_reported = Unrecorded()
        self._synced_in_s = 0.0

    def resume(self, recovery: Recovery, source: str) -> None:
        """Go on where the last writer ended; a journal without a line begins with its heading."""
        self.source = source
        self._next_seq, self._prev = recovery.next_seq, recovery.prev
        self._records_since_checkpoint = recovery.records_since_checkpoint
        if recovery.last_segment is not None and recovery.last_segment_bytes > 0:
            self._path, self._size = recovery.last_segment.path, recovery.last_segment_bytes
            self.first_seq = recovery.last_segment.first_seq
            self._started = recovery.segment_started or self._started
            self.repair()
        else:
            self._begin_segment(CheckpointContext(recovery.oldest_open_seq))
            self._unpublished.clear()  # no reader follows yet

    @property
    def last_seq(self) -> int:
        """The sequence of the last record written."""
        return self._next_seq - 1

    def checkpoint_due(self) -> bool:
        """Say whether an empty commit would write a checkpoint."""
        return self._checkpointer.is_due(self._records_since_checkpoint)

    def commit(
        self,
        events: Sequence[EncodedEvent],
        context_for: ContextProvider,
        *,
        force_checkpoint: bool = False,
    ) -> CommitResult:
        """Write the events durably, in one write, with the checkpoint or new segment that is due.

        A new file's heading comes before them, a checkpoint after them. A file may outgrow its
        limit by one commit.
        """
        if self._must_repair:
            self.repair()
        now = self._clock()
        if self._is_full(now):
            self._begin_segment(context_for(None))
            now = self._clock()
        first = self._next_seq
        entries, root = self._chain_records(events, _recorded_time(now))
        since_checkpoint, size = (
            self._records_since_checkpoint + len(entries),
            self.last_seq + len(entries),
        )
        if checkpoint_is_due := self._checkpointer.is_due(since_checkpoint) or (
            force_checkpoint and since_checkpoint > 0
        ):
            context = context_for(first)
            body = self._encode_checkpoint(size, root, context)
            raw = format_line(body, root, _recorded_time(now), size + 1)
            entries.append(JournalRecord(size + 1, raw))
        self._write(entries, digest(raw) if checkpoint_is_due else root)
        if checkpoint_is_due:
            self._checkpoint_written(size, root, context)
        self._records_since_checkpoint = 0 if checkpoint_is_due else since_checkpoint
        return self._take_result(entries, first)

    def repair(self) -> None:
        """Truncate the segment to the last record that is known to be written."""
        self._must_repair = True
        self.close()
        self._descriptor = self._disk.reopen(self._path, self._size)
        self._file_id = self._disk.file_id(self._descriptor)
        self._must_repair = False

    def check_space_and_repair(self) -> None:
        """Repair after a fault, provided there is room for more than the next record."""
        self._disk.check_free_space(self._directory)
        self.repair()

    def close(self) -> None:
        """Close the file; nothing is buffered."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            with suppress(OSError):  # all that counted as written is synced already
                self._disk.close(descriptor)

    def _is_full(self, now: datetime) -> bool:
        age_s = (now - self._started).total_seconds()
        too_old = abs(age_s) >= self._rotation.max_age_s  # the clock may have been set back
        return self._must_rotate or too_old or self._size >= self._rotation.max_bytes

    def _encode_checkpoint(self, size: int, root: str, context: CheckpointContext) -> EncodedEvent:
        """Return a checkpoint over all records so far."""
        unreported = context._replace(
            unrecorded=context.unrecorded.minus(self._unrecorded_reported)
        )
        return self._checkpointer.encode_checkpoint(self.source, size, root, unreported)

    def _checkpoint_written(self, size: int, root: str, context: CheckpointContext) -> None:
        self._checkpointer.checkpointed(size, root)
        self._unrecorded_reported = context.unrecorded

    def _take_result(self, entries: Sequence[JournalRecord], first: int) -> CommitResult:
        """Return what was written since this was last asked, by a commit that failed too."""
        written = CommitResult(
            [*self._unpublished, *entries], first, self._unrecorded_reported, self._synced_in_s
        )
        self._unpublished, self._unrecorded_reported = [], Unrecorded()
        return written

    def _chain_records(
        self, events: Iterable[EncodedEvent], recorded: str
    ) -> tuple[list[JournalRecord], str]:
        seq, prev = self._next_seq, self._prev
        entries = []
        for body in events:
            raw = format_line(body, prev, recorded, seq)
            entries.append(JournalRecord(seq, raw))
            seq, prev = seq + 1, digest(raw)
        return entries, prev

    def _write(self, entries: Sequence[JournalRecord], last_digest: str) -> None:
        if not entries:
            return
        assert self._descriptor is not None, "it is open unless it must be repaired first"
        data = _join_lines(entries)
        self._must_repair = True
        began_at = self._disk.now()
        self._disk.append(self._descriptor, data)
        self._disk.check_same_file(self._file_id, self._path)
        self._synced_in_s = self._disk.now() - began_at
        self._must_repair = False
        self._size += len(data)
        self._next_seq, self._prev = entries[-1].seq + 1, last_digest

    def _begin_segment(self, context: CheckpointContext) -> None:
        """Replace the file; on failure the old one stays, and nothing is added to it any more.

        What a failure left of the new file would else stand in the way of what the old one got.
        """
        self._must_rotate = True
        if self._descriptor is not None:  # else it would go on in a folder that was made again
            self._disk.check_same_file(self._file_id, self._path)
        body = self._encode_checkpoint(self.last_seq, self._prev, context)
        recorded = _recorded_time(self._clock())
        first_record = JournalRecord(
            self._next_seq, format_line(body, self._prev, recorded, self._next_seq)
        )
        path, data = segment_at(self._directory, first_record.seq).path, _join_lines([first_record])
        descriptor = self._disk.create(path)
        try:
            file_id = self._disk.file_id(descriptor)
            self._disk.append(descriptor, data)
        except OSError:
            self._disk.close(descriptor)
            raise
        self.close()
        self._checkpoint_written(self.last_seq, self._prev, context)
        self._path, self._descriptor, self._size = path, descriptor, len(data)
        self._file_id = file_id
        self._started, self.first_seq, self._records_since_checkpoint = (
            self._clock(),
            first_record.seq,
            0,
        )
        self._must_rotate = False
        self._next_seq, self._prev = first_record.seq + 1, digest(first_record.raw)
        self._unpublished.append(first_record)


def _recorded_time(now: datetime) -> str:
    return f"{now.isoformat(timespec='microseconds')[:_MICROSECONDS]}Z"


def _join_lines(entries: Iterable[JournalRecord]) -> bytes:
    return b"".join([piece for entry in entries for piece in (entry.raw, b"\n")])
