"""Reads a journal for the audit, and says in words which part of it cannot be read."""

from collections.abc import Iterator
from contextlib import contextmanager
from os import SEEK_END

from reactive_desched.errors import JournalError
from reactive_desched.journal import reader
from reactive_desched.journal.reader import LineBatch
from reactive_desched.journal.records import MAX_RECORD_BYTES
from reactive_desched.journal.segments import Segment, list_segments


class AuditReader(reader.SegmentReader):
    """The journal's reader; it raises JournalError for what it cannot read."""

    def segments(self) -> list[Segment]:
        """Return the segments there are now, oldest first; raises JournalError."""
        with self._as_journal_error():
            return list_segments(self._directory)

    def read(self, first_seq: int, offset: int, limit: int) -> LineBatch | None:
        """Return at most so many lines from there on; None when there is nothing more yet."""
        with self._as_journal_error():
            return super().read(first_seq, offset, limit)

    @contextmanager
    def _as_journal_error(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            where, what = error.filename or self._directory, error.strerror or error
            raise JournalError(f"{where}: cannot read the journal here: {what}") from error


def torn_bytes(last: Segment) -> int:
    """Return how much of the last segment is a line without its end: torn, or being written."""
    if last.is_compressed:
        return 0
    with last.open() as file:
        size = file.seek(0, SEEK_END)
        file.seek(max(0, size - MAX_RECORD_BYTES))
        return len(file.read().rpartition(b"\n")[2])
