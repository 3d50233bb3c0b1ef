"""Finds records, and gives their lines as they stand in the journal."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from reactive_desched.audit.catalogue import IndexCatalogue
from reactive_desched.audit.lookup import RecordQuery
from reactive_desched.journal.records import JournalRecord
from reactive_desched.journal.summary import parse_summary


class SearchResult(NamedTuple):
    """What was found, oldest first; `more` says that there are older ones."""

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
    """Return the records as an array, each as it stands in the journal, on a line of its own."""
    lines = ",\n".join(entry.raw.decode() for entry in entries)
    return f"[\n{lines}\n]\n" if lines else "[]\n"
