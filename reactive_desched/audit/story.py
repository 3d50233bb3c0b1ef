"""The story of one decision, gathered from the journal: from what changed to what came of it."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from reactive_desched.api.event import (
    CHECKPOINT,
    JOURNAL_LOST,
    JOURNAL_RESUMED,
    LEADER_CHANGED,
    POLICY_LOADED,
    POLICY_REJECTED,
)
from reactive_desched.audit import lookup
from reactive_desched.audit.catalogue import Catalogue, Place
from reactive_desched.audit.id_resolver import Meant
from reactive_desched.journal.events import event
from reactive_desched.journal.records import AnyEvent, Entry, mark

MOST_TOLD: Final = 200
"""Of a longer story the middle is left out, and counted."""

_MEANWHILE: Final = (POLICY_LOADED, POLICY_REJECTED, LEADER_CHANGED, JOURNAL_RESUMED, JOURNAL_LOST)


class Told(NamedTuple):
    """An event with its place in the journal; `is_own` says that it belongs to the case."""

    seq: int
    event: AnyEvent
    is_own: bool


class Story(Struct, frozen=True, kw_only=True):
    """What is known of a case, in the order of the journal.

    `left_out` events are missing after the first half of `events`. `policy` is the last policy
    that was loaded before, `sealed` the first checkpoint after; None where there is none.
    """

    events: tuple[Told, ...]
    left_out: int = 0
    policy: Told | None = None
    sealed: Told | None = None

    @property
    def own(self) -> list[Told]:
        """The events of the case alone."""
        return [told for told in self.events if told.is_own]


def gather(catalogue: Catalogue, found: Meant) -> Story:
    """Return the story of what was meant."""
    shown, left_out = _bounded(found.places)
    own = _told(catalogue.fetch(shown), is_own=True)
    first, last = found.places[0].spot.n, found.places[-1].spot.n
    meanwhile = _meanwhile(catalogue, first, last) if found.correlation else []
    return Story(
        events=tuple(sorted([*own, *meanwhile], key=lambda told: told.seq)),
        left_out=left_out,
        policy=_nearest(catalogue, POLICY_LOADED, before=first),
        sealed=_nearest(catalogue, CHECKPOINT, after=last),
    )


def _bounded(places: Sequence[Place]) -> tuple[Sequence[Place], int]:
    if len(places) <= MOST_TOLD:
        return places, 0
    half = MOST_TOLD // 2
    return [*places[:half], *places[-half:]], len(places) - 2 * half


def _told(entries: Iterable[Entry], *, is_own: bool) -> list[Told]:
    told = []
    for entry in entries:
        seen = mark(entry.raw)
        found = event(seen.type, entry.raw) if seen else None
        if found is not None:
            told.append(Told(entry.seq, found, is_own))
    return told


def _meanwhile(catalogue: Catalogue, first: int, last: int) -> list[Told]:
    """Return what else happened that a reader of the story should know."""
    places = catalogue.gather(
        lambda index: lookup.of_type(index, _MEANWHILE, after=first, before=last, most=MOST_TOLD)
    )
    return _told(catalogue.fetch(places), is_own=False)


def _nearest(
    catalogue: Catalogue, type_: str, *, before: int | None = None, after: int | None = None
) -> Told | None:
    """Return the nearest record of a type on one side."""
    if before is not None:
        places = catalogue.gather(
            lambda index: lookup.of_type(index, (type_,), before=before, newest=True)
        )[-1:]
    else:
        places = catalogue.gather(lambda index: lookup.of_type(index, (type_,), after=after or 0))
    found = _told(catalogue.fetch(places[:1]), is_own=False)
    return found[0] if found else None
