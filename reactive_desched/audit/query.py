"""Finds records, and gives their lines as they stand in the journal."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from reactive_desched.audit.catalogue import Catalogue
from reactive_desched.audit.lookup import Wanted
from reactive_desched.journal.records import Entry
from reactive_desched.journal.summary import summary


class Found(NamedTuple):
    """What was found, oldest first; `more` says that there are older ones."""

    entries: list[Entry]
    more: bool


def search(catalogue: Catalogue, wanted: Wanted, limit: int) -> Found:
    """Return the newest records that are wanted, at most so many; all with limit 0."""
    places = catalogue.find(wanted, most=limit + 1 if limit else None)
    more = bool(limit) and len(places) > limit
    return Found(list(sure(catalogue.fetch(places[more:]), wanted)), more)


def sure(entries: Iterable[Entry], wanted: Wanted) -> Iterator[Entry]:
    """Let through what is wanted indeed: the journal has the last word, not its index."""
    for entry in entries:
        found = summary(entry.raw)
        if found is not None and wanted.filter.wants(found):
            yield entry


def as_json(entries: Iterable[Entry]) -> str:
    """Return the records as an array, each as it stands in the journal, on a line of its own."""
    lines = ",\n".join(entry.raw.decode() for entry in entries)
    return f"[\n{lines}\n]\n" if lines else "[]\n"
