"""Lists records: a row of words for each, or their lines as they stand in the journal."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from reactive_desched.api.event import PodData
from reactive_desched.audit import wording
from reactive_desched.audit.catalogue import Catalogue
from reactive_desched.audit.lookup import Wanted
from reactive_desched.journal.events import event
from reactive_desched.journal.records import AnyEvent, Entry
from reactive_desched.journal.summary import short, summary

CASE_CHARACTERS: Final = 10
"""So much of a case's id stands in a list: `audit show` takes it."""

_HEADINGS: Final = ("TIME (UTC)", "EVENT", "POD", "NODE", "PLUGIN", "CASE", "WHAT")


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


def table(entries: Iterable[Entry]) -> list[tuple[str, ...]]:
    """Return the headings and a row for each record; those that say nothing known are left out."""
    found = (_event(entry) for entry in entries)
    return [_HEADINGS, *(_row(each) for each in found if each is not None)]


def _event(entry: Entry) -> AnyEvent | None:
    seen = summary(entry.raw)
    return None if seen is None else event(seen.type, entry.raw)


def _row(found: AnyEvent) -> tuple[str, ...]:
    time, kind, data = wording.clock(found.time), short(found.type), found.data
    if not isinstance(data, PodData):
        return time, kind, "-", "-", "-", "-", wording.told(found)
    who = data.who
    pod = wording.plain(f"{who.namespace}/{who.name}")
    case = wording.plain(found.correlationid[:CASE_CHARACTERS])
    about = wording.plain(who.node), wording.plain(data.why.plugin), case
    return time, kind, pod, *about, wording.told(found)


def as_json(entries: Iterable[Entry]) -> str:
    """Return the records as an array, each as it stands in the journal, on a line of its own."""
    lines = ",\n".join(entry.raw.decode() for entry in entries)
    return f"[\n{lines}\n]\n" if lines else "[]\n"
