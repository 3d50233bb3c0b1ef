"""Finds the decision a person means: by its id or the start of it, or by its pod."""

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.audit import lookup
from reactive_desched.audit.catalogue import IndexCatalogue, RecordLocation
from reactive_desched.audit.lookup import RecordQuery
from reactive_desched.audit.policy_loads import PolicyLoads
from reactive_desched.errors import ConfigError
from reactive_desched.journal.summary import EventFilter, EventSummary, is_pattern, parse_summary

MIN_PREFIX_CHARS: Final = 4
"""A beginning of an id must have so many characters."""

_REVISION: Final = re.compile("[0-9a-f]{12}")
_MAX_NUMBER_CHARS: Final = 11
_MIN_NUMERIC_ID_CHARS: Final = 8
_MAX_NAMED: Final = 10
_MAX_READ: Final = 1000


class ResolvedDecision(Struct, frozen=True):
    """The records of one case; or the one record that belongs to no case.

    It `is_one_of_several` where a pattern, the start of a name or an owner stood for it.
    `other_loads` are records that loaded other files under the same revision of a policy.
    """

    locations: tuple[RecordLocation, ...]
    correlation: str = ""
    is_one_of_several: bool = False
    other_loads: tuple[int, ...] = ()


def resolve_decision(catalogue: IndexCatalogue, name: str) -> ResolvedDecision | None:
    """Return what is meant: a case, an event or record, a policy, or a pod's or owner's latest.

    None when nothing has this name. Raises ConfigError when several records have it.
    """
    return (
        _by_case(catalogue, name)
        or _by_event(catalogue, catalogue.find_all(lambda index: lookup.find_id(index, name)), name)
        or _by_pod(catalogue, name)
        or _by_policy(catalogue, name)
        or _by_record(catalogue, name)
        or _by_beginning(catalogue, name)
    )


def is_record_number(name: str) -> bool:
    """Say whether a name is that of a record: its number in the journal."""
    return len(name) <= _MAX_NUMBER_CHARS and name.isascii() and name.isdigit()


def about_name(catalogue: IndexCatalogue, query: RecordQuery, name: str) -> RecordQuery:
    """Return the query about the pods that a name stands for, whatever else it asks for.

    The first that the journal has: pods of this name, else those of an owner of this name, else
    pods, else owners, whose name begins so. A pattern is taken for pods first, then for owners.
    """
    names = (name,) if is_pattern(name) else (name, f"{name}*")
    for each in names:
        for filtered in (EventFilter(pods=(each,)), EventFilter(owners=(each,))):
            if catalogue.find(RecordQuery(filter=filtered), limit=1):
                field = "pods" if filtered.pods else "owners"
                given = getattr(query.filter, field)
                if given and given != (each,):
                    raise ConfigError(
                        f"{name!r} stands for --{field.removesuffix('s')} {each!r}: leave one of "
                        "the two out"
                    )
                return replace(query, filter=replace(query.filter, **{field: (each,)}))
    return replace(query, filter=replace(query.filter, pods=(name,)))


def _by_case(catalogue: IndexCatalogue, correlation: str) -> ResolvedDecision | None:
    locations = catalogue.find_all(lambda index: lookup.find_case(index, correlation))
    return ResolvedDecision(tuple(locations), correlation) if locations else None


def _by_event(
    catalogue: IndexCatalogue, locations: list[RecordLocation], name: str
) -> ResolvedDecision | None:
    """Return the case that an event with this id belongs to."""
    for location, found in _read_summaries(catalogue, locations):
        if found.id == name:
            return _whole_case(catalogue, location, found)
    return None


def _by_pod(catalogue: IndexCatalogue, name: str) -> ResolvedDecision | None:
    """Return the latest case of a pod of just this name."""
    if is_pattern(name):
        return None
    query = RecordQuery(filter=EventFilter(pods=(name,)))
    found = _read_summaries(catalogue, catalogue.find(query, limit=1))
    return next((_whole_case(catalogue, *each) for each in found), None)


def _latest_about(catalogue: IndexCatalogue, name: str) -> ResolvedDecision | None:
    """Return the latest case of the pods that an owner, a pattern or the start of a name means."""
    if not name:
        return None
    query = about_name(catalogue, RecordQuery(), name)
    found = _read_summaries(catalogue, catalogue.find(query, limit=1))
    decision = next((_whole_case(catalogue, *each) for each in found), None)
    return None if decision is None else replace(decision, is_one_of_several=True)


def _by_policy(catalogue: IndexCatalogue, revision: str) -> ResolvedDecision | None:
    """Return the latest load of this revision; it is one of several if their files differ."""
    if not _REVISION.fullmatch(revision):
        return None
    loads = PolicyLoads(catalogue).variants(revision)
    if not loads:
        return None
    locations = _locations_of(catalogue, loads[-1].seq)
    return ResolvedDecision(tuple(locations), other_loads=tuple(each.seq for each in loads[:-1]))


def _by_record(catalogue: IndexCatalogue, number: str) -> ResolvedDecision | None:
    """Return the record with this number, or the case that it belongs to."""
    if not is_record_number(number):
        return None
    found = _read_summaries(catalogue, _locations_of(catalogue, int(number)))
    return next((_whole_case(catalogue, *each) for each in found), None)


def _locations_of(catalogue: IndexCatalogue, seq: int) -> list[RecordLocation]:
    return catalogue.find_all(lambda index: lookup.find_sequence(index, seq))


def _by_beginning(catalogue: IndexCatalogue, name: str) -> ResolvedDecision | None:
    """Return what begins so; a number stands for no name, and a short one for no id."""
    if is_record_number(name):
        is_id = len(name) >= _MIN_NUMERIC_ID_CHARS
        return _by_prefix(catalogue, name) if is_id else None
    return _by_prefix(catalogue, name) or _latest_about(catalogue, name)


def _by_prefix(catalogue: IndexCatalogue, prefix: str) -> ResolvedDecision | None:
    """Return the only case, else the only pod's latest, else the only event's, that begins so."""
    if len(prefix) < MIN_PREFIX_CHARS:
        return None
    if case := _single(prefix, "case", _case_ids(catalogue, prefix)):
        return _by_case(catalogue, case)
    if pod := _single(prefix, "pod", _pod_uids(catalogue, prefix)):
        return _by_pod(catalogue, pod)
    locations = catalogue.find_all(
        lambda index: lookup.find_id_prefix(index, prefix, limit=_MAX_READ)
    )
    read = [each for each in _read_summaries(catalogue, locations) if each[1].id.startswith(prefix)]
    cases = {_whole_case(catalogue, *each) for each in read[:_MAX_NAMED]}
    if len(cases) > 1:
        raise _ambiguous(prefix, "event", sorted(found.id for _, found in read))
    return cases.pop() if cases else None


def _whole_case(
    catalogue: IndexCatalogue, location: RecordLocation, found: EventSummary
) -> ResolvedDecision:
    """Return all records of this one's case."""
    if found.data.who.uid and (case := _by_case(catalogue, found.correlationid)):
        return case
    return ResolvedDecision((location,))


def _read_summaries(
    catalogue: IndexCatalogue, locations: list[RecordLocation]
) -> Iterator[tuple[RecordLocation, EventSummary]]:
    for location in locations:
        for entry in catalogue.fetch((location,)):
            if (found := parse_summary(entry.raw)) is not None:
                yield location, found


def _case_ids(catalogue: IndexCatalogue, prefix: str) -> set[str]:
    return {
        case
        for index in catalogue.indexes
        for case in lookup.case_ids_with_prefix(index, prefix, limit=_MAX_NAMED + 1)
    }


def _pod_uids(catalogue: IndexCatalogue, prefix: str) -> set[str]:
    return {
        uid
        for index in catalogue.indexes
        for uid in lookup.pod_uids_with_prefix(index, prefix, limit=_MAX_NAMED + 1)
    }


def _single(prefix: str, kind: str, found: set[str]) -> str | None:
    """Return the only one, if there is one; raise ConfigError for several."""
    if len(found) > 1:
        raise _ambiguous(prefix, kind, sorted(found))
    return next(iter(found), None)


def _ambiguous(prefix: str, kind: str, found: list[str]) -> ConfigError:
    named = ", ".join(found[:_MAX_NAMED]) + (", …" if len(found) > _MAX_NAMED else "")
    return ConfigError(f"{prefix!r} can be more than one {kind}: write more of it; {named}")
