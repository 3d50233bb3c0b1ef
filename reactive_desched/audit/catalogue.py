"""Searches the audit index of a journal, or two in a row, and reads the lines found."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import IO, Final, NamedTuple

from reactive_desched.audit import lookup
from reactive_desched.audit.index import AuditIndex
from reactive_desched.audit.lookup import RecordQuery, RecordSpan
from reactive_desched.journal.records import JournalRecord, parse_header
from reactive_desched.journal.segments import READ_ERRORS, Segment, list_segments
from reactive_desched.journal.summary import parse_summary

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


class RecordLocation(NamedTuple):
    """A record's place: which of the indexes holds it, and where its line is."""

    index_number: int
    span: RecordSpan


class IndexCatalogue:
    """One index, or one that stays as it is and another of what came after; oldest first."""

    def __init__(self, directory: Path, path: Path | None, *indexes: AuditIndex) -> None:
        """Search these; `path` is the file of the first, if it has one of its own."""
        self.directory = directory
        self.path = path
        self.indexes = indexes
        self._fetcher = LineFetcher(directory)

    def close(self) -> None:
        """Close every file."""
        self._fetcher.close()
        for index in self.indexes:
            index.close()

    @property
    def missing(self) -> int:
        """Return how many records could not be fetched although the index has them."""
        return self._fetcher.missing

    @property
    def damaged(self) -> int:
        """Return how many damaged lines there are; a file that ends in the middle counts as one."""
        return sum(one.damaged + one.broken for index in self.indexes for one in index.segments)

    @property
    def first_seq(self) -> int:
        """The sequence of the first record, 0 when there is none."""
        spans = self.find_all(lookup.find_first)
        return spans[0].span.seq if spans else 0

    @property
    def last_seq(self) -> int:
        """The sequence of the last record, 0 when there is none."""
        return self.indexes[-1].cursor.seq

    def find(self, query: RecordQuery, *, limit: int | None = None) -> list[RecordLocation]:
        """Return where the wanted records are, in order; of more than `limit`, the newest."""
        found: list[RecordLocation] = []
        for number in reversed(range(len(self.indexes))):
            remaining = None if limit is None else limit - len(found)
            spans = lookup.find_newest(self.indexes[number], query, limit=remaining)
            found += [RecordLocation(number, spot) for spot in spans]
        return found[::-1]

    def ends(self, query: RecordQuery) -> tuple[RecordSpan, RecordSpan] | None:
        """Return where the first and the last of the wanted records are; None without any."""
        firsts = [lookup.find_oldest(index, query) for index in self.indexes]
        lasts = [lookup.find_newest(index, query, limit=1) for index in self.indexes]
        first = next((found for found in firsts if found is not None), None)
        last = next((found[0] for found in reversed(lasts) if found), None)
        return None if first is None or last is None else (first, last)

    def iter_matching(self, query: RecordQuery) -> Iterator[JournalRecord]:
        """Yield the wanted records in order, however many there are."""
        for index in self.indexes:
            yield from self._fetcher.read(index, lookup.iter_matching(index, query))

    def find_all(self, find: Callable[[AuditIndex], Iterable[RecordSpan]]) -> list[RecordLocation]:
        """Return what is looked up in every index, the older first."""
        return [
            RecordLocation(number, spot)
            for number, one in enumerate(self.indexes)
            for spot in find(one)
        ]

    def fetch(self, locations: Iterable[RecordLocation]) -> Iterator[JournalRecord]:
        """Yield the records themselves; those that are gone are left out and counted."""
        for number, some in groupby(locations, attrgetter("index_number")):
            yield from self._fetcher.read(
                self.indexes[number], (location.span for location in some)
            )


class SearchResult(NamedTuple):
    """The records that were found, oldest first; `more` says that there are older ones."""

    records: list[JournalRecord]
    has_more: bool


def search(catalogue: IndexCatalogue, query: RecordQuery, limit: int) -> SearchResult:
    """Return the newest records that are wanted, at most so many; all with limit 0."""
    locations = catalogue.find(query, limit=limit + 1 if limit else None)
    more = bool(limit) and len(locations) > limit
    return SearchResult(list(filter_records(catalogue.fetch(locations[more:]), query)), more)


def filter_records(entries: Iterable[JournalRecord], query: RecordQuery) -> Iterator[JournalRecord]:
    """Yield the records that match the query by their own text: the index may be outdated."""
    for entry in entries:
        found = parse_summary(entry.raw)
        if found is not None and query.filter.matches(found):
            yield entry


def as_json(entries: Iterable[JournalRecord]) -> str:
    """Return the records as an array, each as it is in the journal, on a line of its own."""
    lines = ",\n".join(entry.raw.decode() for entry in entries)
    return f"[\n{lines}\n]\n" if lines else "[]\n"
