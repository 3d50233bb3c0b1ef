"""Finds the decision a person means: by its id or the start of it, or by its pod."""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from reactive_desched.audit import lookup
from reactive_desched.audit.catalogue import Catalogue, Place
from reactive_desched.audit.lookup import Wanted
from reactive_desched.errors import ConfigError
from reactive_desched.journal.summary import Filter, Summary, summary

SHORTEST: Final = 4
"""A beginning of an id must have so many characters."""

_MOST_NAMED: Final = 10
_MOST_READ: Final = 1000


class Meant(Struct, frozen=True):
    """The records that tell of one decision; or the one record that belongs to none."""

    places: tuple[Place, ...]
    correlation: str = ""


def meant(catalogue: Catalogue, name: str) -> Meant | None:
    """Return what is meant: a case, the case of an event, or the latest of a pod.

    None when nothing is called so. Raises ConfigError when several things are.
    """
    return (
        _case(catalogue, name)
        or _of_event(catalogue, catalogue.gather(lambda index: lookup.with_id(index, name)), name)
        or _of_pod(catalogue, name)
        or _like(catalogue, name)
    )


def _case(catalogue: Catalogue, correlation: str) -> Meant | None:
    places = catalogue.gather(lambda index: lookup.of_case(index, correlation))
    return Meant(tuple(places), correlation) if places else None


def _of_event(catalogue: Catalogue, places: list[Place], name: str) -> Meant | None:
    """Return the case that an event with this id belongs to."""
    for place, found in _read(catalogue, places):
        if found.id == name:
            return _whole(catalogue, place, found)
    return None


def _of_pod(catalogue: Catalogue, name: str) -> Meant | None:
    """Return the latest case of a pod."""
    wanted = Wanted(filter=Filter(pods=(name,)))
    found = _read(catalogue, catalogue.find(wanted, most=1))
    return next((_whole(catalogue, *each) for each in found), None)


def _like(catalogue: Catalogue, prefix: str) -> Meant | None:
    """Return the only case, else the only pod's latest, else the only event's, that begins so."""
    if len(prefix) < SHORTEST:
        return None
    if case := _only(prefix, "case", _cases(catalogue, prefix)):
        return _case(catalogue, case)
    if pod := _only(prefix, "pod", _pods(catalogue, prefix)):
        return _of_pod(catalogue, pod)
    places = catalogue.gather(lambda index: lookup.with_id_like(index, prefix, most=_MOST_READ))
    read = [each for each in _read(catalogue, places) if each[1].id.startswith(prefix)]
    cases = {_whole(catalogue, *each) for each in read[:_MOST_NAMED]}
    if len(cases) > 1:
        raise _ambiguous(prefix, "event", sorted(found.id for _, found in read))
    return cases.pop() if cases else None


def _whole(catalogue: Catalogue, place: Place, found: Summary) -> Meant:
    """Return all records of this one's case."""
    if found.data.who.uid and (case := _case(catalogue, found.correlationid)):
        return case
    return Meant((place,))


def _read(catalogue: Catalogue, places: list[Place]) -> Iterator[tuple[Place, Summary]]:
    for place in places:
        for entry in catalogue.fetch((place,)):
            if (found := summary(entry.raw)) is not None:
                yield place, found


def _cases(catalogue: Catalogue, prefix: str) -> set[str]:
    return {
        case
        for index in catalogue.indexes
        for case in lookup.cases_like(index, prefix, most=_MOST_NAMED + 1)
    }


def _pods(catalogue: Catalogue, prefix: str) -> set[str]:
    return {
        uid
        for index in catalogue.indexes
        for uid in lookup.pods_like(index, prefix, most=_MOST_NAMED + 1)
    }


def _only(prefix: str, what: str, found: set[str]) -> str | None:
    """Return the only one, if there is one; raise ConfigError for several."""
    if len(found) > 1:
        raise _ambiguous(prefix, what, sorted(found))
    return next(iter(found), None)


def _ambiguous(prefix: str, what: str, found: list[str]) -> ConfigError:
    named = ", ".join(found[:_MOST_NAMED]) + (", …" if len(found) > _MOST_NAMED else "")
    return ConfigError(f"{prefix!r} can be more than one {what}: write more of it; {named}")
