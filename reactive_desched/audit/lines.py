"""Fetches records' lines from where the index says they stand."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Final

from reactive_desched.audit.index import AuditIndex
from reactive_desched.audit.lookup import RecordSpan
from reactive_desched.journal.records import JournalRecord, parse_header
from reactive_desched.journal.segments import READ_ERRORS, Segment, list_segments

_ATTEMPTS: Final = 3


class LineFetcher:
    """Reads lines of one journal; one file is open at a time.

    `missing` counts the records that are not any more where they stood: removed by retention, or
    damaged, since the index took them in.
    """

    def __init__(self, directory: Path) -> None:
        self.missing = 0
        self._directory = directory
        self._files: dict[int, Segment] = {}
        self._open: tuple[int, IO[bytes]] | None = None

    def close(self) -> None:
        """Close the file; the next read opens it again."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def read(self, index: AuditIndex, spans: Iterable[RecordSpan]) -> Iterator[JournalRecord]:
        """Yield the records at these places, best in order; those that are gone are left out."""
        indexed = index.segments
        firsts = [one.first for one in indexed]
        for span in spans:
            first_seq = indexed[bisect_right(firsts, span.n) - 1].first_seq
            raw = self._read_line(first_seq, span)
            found = parse_header(raw)
            if found is None or found.seq != span.seq:
                self.missing += 1
            else:
                yield JournalRecord(span.seq, raw)

    def _read_line(self, first_seq: int, span: RecordSpan) -> bytes:
        for _ in range(_ATTEMPTS):
            try:
                file = self._file(first_seq)
                if file is None:
                    return b""
                file.seek(span.start)
                return file.read(span.length)
            except FileNotFoundError:  # removed since the folder was listed
                self._files = {}
            except READ_ERRORS:
                self.close()
                return b""
        return b""

    def _file(self, first_seq: int) -> IO[bytes] | None:
        """Return the open file of a segment; None when there is none."""
        if self._open is not None and self._open[0] == first_seq:
            return self._open[1]
        self.close()
        if first_seq not in self._files:
            self._files = {one.first_seq: one for one in list_segments(self._directory)}
        if (one := self._files.get(first_seq)) is None:
            return None
        file = one.open()
        self._open = first_seq, file
        return file
