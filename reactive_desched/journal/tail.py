"""Reads the journal for its followers: near its end from memory, else from the segments."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from errno import ENOENT
from itertools import islice
from pathlib import Path
from typing import Final

from anyio import CapacityLimiter, to_thread

from reactive_desched.errors import RecordsExpired
from reactive_desched.journal.follower import READ_LINES, JournalFollower
from reactive_desched.journal.records import JournalRecord
from reactive_desched.journal.segments import list_segments
from reactive_desched.primitives.wakeup import Wakeup

MEMORY_RECORDS: Final = 1024
MEMORY_BYTES: Final = 2 << 20
"""So many records, and so many bytes of them, are kept in memory, and up to twice that before they
are dropped; older ones are in the files. A follower that keeps up is behind by a few."""

MAX_READ_BYTES: Final = 1 << 20
"""One reading gives so many bytes of records, and one record more at most."""

OPEN_FILES: Final = 16
"""So many readers of files keep their file open between two readings."""


class LiveTail:
    """The records that are durable, for any number of followers; each remembers its own place."""

    def __init__(self, directory: Path, source: str, oldest_seq: int, last_seq: int) -> None:
        self.source = source
        self.oldest_seq = oldest_seq
        self.last_seq = last_seq
        self._recent = _RecentRecords()
        self._files = _FileReaders(directory)
        self._changed = Wakeup()
        self._threads = CapacityLimiter(4)

    def publish(self, records: Sequence[JournalRecord]) -> None:
        """Add records that have just become durable."""
        self._recent.add(records)
        self.last_seq = records[-1].seq
        self._changed.notify()

    def set_oldest(self, seq: int) -> None:
        """Record that this is now the oldest record there is."""
        self.oldest_seq = seq

    def removed_after(self, seq: int) -> int:
        """Count the records after `seq` that can never be read again."""
        return 0 if self._recent.reaches(seq) else max(0, self.oldest_seq - 1 - seq)

    async def read_after(self, seq: int, limit: int = 500) -> list[JournalRecord]:
        """Return the records behind this place, none if there is none yet, in order.

        At most `limit` of them, and of MAX_READ_BYTES. Raises RecordsExpired when the next one was
        removed, or when the place lies beyond the last: then it is a place in another journal.
        Raises OSError where files cannot be read.
        """
        if seq >= self.last_seq:
            if seq > self.last_seq:
                raise RecordsExpired(f"there is no record {seq} yet: that was another journal", 0)
            return []
        if (recent := self._recent.read_after(seq, limit)) is not None:
            return recent
        if seq + 1 < self.oldest_seq:
            raise RecordsExpired(f"record {seq + 1} was removed", self.oldest_seq)
        last = self.last_seq
        return await to_thread.run_sync(
            lambda: self._files.read_after(seq, limit, last), limiter=self._threads
        )

    async def wait_past(self, seq: int) -> None:
        """Return when there is a record behind this place."""
        while self.last_seq <= seq:
            await self._changed.wait()


class _RecentRecords:
    """The newest records; beyond its bounds the oldest of them are dropped."""

    def __init__(self) -> None:
        self._records: list[JournalRecord] = []
        self._bytes = 0

    def add(self, records: Sequence[JournalRecord]) -> None:
        """Append records."""
        self._records += records
        self._bytes += sum(len(entry.raw) for entry in records)
        if len(self._records) > 2 * MEMORY_RECORDS or self._bytes > 2 * MEMORY_BYTES:
            self._trim()

    def reaches(self, seq: int) -> bool:
        """Say whether the record after `seq`, and each later one, is in memory."""
        return bool(self._records) and seq + 1 >= self._records[0].seq

    def read_after(self, seq: int, limit: int) -> list[JournalRecord] | None:
        """Return the records behind a place; None when that is further back than this reaches."""
        if not self.reaches(seq):
            return None
        start = seq + 1 - self._records[0].seq
        return list(_limit_bytes(self._records[start : start + limit]))

    def _trim(self) -> None:
        """Drop half at a time, so that dropping costs nothing per record."""
        drop = len(self._records) - MEMORY_RECORDS
        self._bytes -= sum(len(entry.raw) for entry in self._records[: max(0, drop)])
        while self._bytes > MEMORY_BYTES:
            drop = max(0, drop)
            self._bytes -= len(self._records[drop].raw)
            drop += 1
        del self._records[: max(0, drop)]


class _FileReaders:
    """The records in the files; a reader that continues in order finds the file still open."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._readers: dict[int, Iterator[JournalRecord]] = {}

    def read_after(self, seq: int, limit: int, last_seq: int) -> list[JournalRecord]:
        """Return records behind a place and up to `last`; blocks."""
        reader = self._readers.pop(seq, None) or self._open_reader(seq)
        found: list[JournalRecord] = []
        for entry in _limit_bytes(islice(reader, limit)):
            if entry.seq != seq + 1 + len(found):
                return found or self._raise_missing(seq, entry)
            found.append(entry)
            if entry.seq >= last_seq:
                return found
        if not found:
            self._check_files_exist()
            raise RecordsExpired(f"record {seq + 1} cannot be read", last_seq + 1)
        # Nearer to the end, what is read ahead may be a write that then failed.
        if found[-1].seq + READ_LINES < last_seq:
            self._cache_reader(found[-1].seq, reader)
        return found

    def _check_files_exist(self) -> None:
        """Raise OSError when there is no file at all: then a volume is away, and may come back."""
        if not list_segments(self._directory):
            raise FileNotFoundError(ENOENT, "the journal's files are away", str(self._directory))

    def _raise_missing(self, seq: int, next_record: JournalRecord) -> list[JournalRecord]:
        raise RecordsExpired(f"record {seq + 1} cannot be read", next_record.seq)

    def _cache_reader(self, seq: int, reader: Iterator[JournalRecord]) -> None:
        while len(self._readers) >= OPEN_FILES:
            self._readers.pop(next(iter(self._readers)), None)
        self._readers[seq] = reader

    def _open_reader(self, seq: int) -> Iterator[JournalRecord]:
        """Yield everything behind a place that can be read, from one file to the next."""
        with closing(JournalFollower(self._directory, seq, lambda *_: None)) as follower:
            yield from follower.read_new()


def _limit_bytes(records: Iterable[JournalRecord]) -> Iterator[JournalRecord]:
    size = 0
    for entry in records:
        yield entry
        size += len(entry.raw)
        if size >= MAX_READ_BYTES:
            return
