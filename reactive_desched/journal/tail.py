"""How everyone who follows the journal reads it: near its end from memory, else from the files."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from errno import ENOENT
from itertools import islice
from pathlib import Path
from typing import Final

import anyio
from anyio import CapacityLimiter, to_thread

from reactive_desched.errors import RecordsGone
from reactive_desched.journal.follower import AT_ONCE, Follower
from reactive_desched.journal.records import Entry
from reactive_desched.journal.segments import segments

KEPT_RECORDS: Final = 4096
KEPT_BYTES: Final = 8 << 20
"""So many records, and so many bytes of them, are kept in memory; older ones are in the files."""

MOST_BYTES: Final = 1 << 20
"""One reading gives so many bytes of records, and one record more at most."""

OPEN_FILES: Final = 16
"""So many readers of files keep their file open between two readings."""


class Tail:
    """The records that are durable, for any number of followers; each remembers its own place."""

    def __init__(self, directory: Path, source: str, oldest: int, last: int) -> None:
        self.source = source
        self.oldest = oldest
        self.last = last
        self._recent = _Recent()
        self._files = _Files(directory)
        self._news = anyio.Event()
        self._threads = CapacityLimiter(4)

    def published(self, new: Sequence[Entry]) -> None:
        """Take in records that have just become durable."""
        self._recent.add(new)
        self.last = new[-1].seq
        self._news.set()
        self._news = anyio.Event()

    def removed_before(self, seq: int) -> None:
        """Take in that this is now the oldest record there is."""
        self.oldest = seq

    async def after(self, seq: int, most: int = 500) -> list[Entry]:
        """Return the records behind this place, none if there is none yet, in order.

        At most `most` of them, and MOST_BYTES. Raises RecordsGone when the next one was removed,
        or when the place lies beyond the last: then it is a place in another journal. Raises
        OSError where files cannot be read.
        """
        if seq >= self.last:
            if seq > self.last:
                raise RecordsGone(f"there is no record {seq} yet: that was another journal", 0)
            return []
        if (recent := self._recent.after(seq, most)) is not None:
            return recent
        if seq + 1 < self.oldest:
            raise RecordsGone(f"record {seq + 1} was removed", self.oldest)
        last = self.last
        return await to_thread.run_sync(
            lambda: self._files.after(seq, most, last), limiter=self._threads
        )

    async def beyond(self, seq: int) -> None:
        """Return when there is a record behind this place."""
        while self.last <= seq:
            await self._news.wait()


class _Recent:
    """The newest records; beyond its bounds the oldest of them are dropped."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._bytes = 0

    def add(self, new: Sequence[Entry]) -> None:
        """Append records."""
        self._entries += new
        self._bytes += sum(len(entry.raw) for entry in new)
        if len(self._entries) > 2 * KEPT_RECORDS or self._bytes > 2 * KEPT_BYTES:
            self._trim()

    def after(self, seq: int, most: int) -> list[Entry] | None:
        """Return the records behind a place; None when that is further back than this reaches."""
        if not self._entries or seq + 1 < self._entries[0].seq:
            return None
        at = seq + 1 - self._entries[0].seq
        return list(_bounded(self._entries[at : at + most]))

    def _trim(self) -> None:
        """Drop half at a time, so that dropping costs nothing per record."""
        drop = len(self._entries) - KEPT_RECORDS
        self._bytes -= sum(len(entry.raw) for entry in self._entries[: max(0, drop)])
        while self._bytes > KEPT_BYTES:
            drop = max(0, drop)
            self._bytes -= len(self._entries[drop].raw)
            drop += 1
        del self._entries[: max(0, drop)]


class _Files:
    """The records in the files; whoever reads on in order finds the file still open."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._open: dict[int, Iterator[Entry]] = {}

    def after(self, seq: int, most: int, last: int) -> list[Entry]:
        """Return records behind a place and up to `last`; blocks."""
        reader = self._open.pop(seq, None) or self._reader(seq)
        found: list[Entry] = []
        for entry in _bounded(islice(reader, most)):
            if entry.seq != seq + 1 + len(found):
                return found or self._missing(seq, entry)
            found.append(entry)
            if entry.seq >= last:
                return found
        if not found:
            self._prove_there()
            raise RecordsGone(f"record {seq + 1} cannot be read", last + 1)
        # Nearer to the end, what is read ahead may be a write that then failed.
        if found[-1].seq + AT_ONCE < last:
            self._keep(found[-1].seq, reader)
        return found

    def _prove_there(self) -> None:
        """Raise OSError when there is no file at all: then a volume is away, and may come back."""
        if not segments(self._directory):
            raise FileNotFoundError(ENOENT, "the journal's files are away", str(self._directory))

    def _missing(self, seq: int, found: Entry) -> list[Entry]:
        raise RecordsGone(f"record {seq + 1} cannot be read", found.seq)

    def _keep(self, seq: int, reader: Iterator[Entry]) -> None:
        while len(self._open) >= OPEN_FILES:
            self._open.pop(next(iter(self._open)), None)
        self._open[seq] = reader

    def _reader(self, seq: int) -> Iterator[Entry]:
        """Yield everything behind a place that can be read, from one file to the next."""
        with closing(Follower(self._directory, seq, lambda *_: None)) as follower:
            yield from follower.new()


def _bounded(found: Iterable[Entry]) -> Iterator[Entry]:
    size = 0
    for entry in found:
        yield entry
        size += len(entry.raw)
        if size >= MOST_BYTES:
            return
