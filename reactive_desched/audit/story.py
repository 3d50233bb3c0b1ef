"""The story of one decision, gathered from the journal: from what changed to what came of it."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct

from reactive_desched.api.event import (
    BRAKE_ENGAGED,
    BRAKE_RELEASED,
    CHECKPOINT,
    EPOCH_BEGAN,
    JOURNAL_LOST,
    JOURNAL_RESUMED,
    LEADER_CHANGED,
    POLICY_LOADED,
    POLICY_REJECTED,
    PolicyLoaded,
)
from reactive_desched.audit import lookup
from reactive_desched.audit.catalogue import IndexCatalogue, RecordLocation
from reactive_desched.audit.event_lines import cluster_of
from reactive_desched.audit.id_resolver import ResolvedDecision
from reactive_desched.audit.policy_loads import FileText, LoadRecord, PolicyLoads
from reactive_desched.journal.cluster import recorded_title
from reactive_desched.journal.events import decode_event
from reactive_desched.journal.records import AnyEvent, JournalRecord, parse_header
from reactive_desched.model.brakes import CLUSTER

MAX_EVENTS: Final = 200
"""Of a longer story the middle is left out, and counted."""

_CONTEXT_TYPES: Final = (
    *(POLICY_LOADED, POLICY_REJECTED, LEADER_CHANGED),
    *(JOURNAL_RESUMED, JOURNAL_LOST, EPOCH_BEGAN),
    *(BRAKE_ENGAGED, BRAKE_RELEASED),
)


class StoryEvent(NamedTuple):
    """An event with its place in the journal; `is_own` says that it belongs to the case."""

    seq: int
    event: AnyEvent
    is_of_case: bool


class Story(Struct, frozen=True, kw_only=True):
    """All records of a case, in the order of the journal.

    `omitted` events are missing after the first half of `events`. `policy` is the last policy
    that was loaded before, `checkpoint` the first checkpoint after; None where there is none.
    `cluster` is what people call the cluster then, with its uid; `texts` are the files of the
    policy, where its record is what was asked for.
    """

    events: tuple[StoryEvent, ...]
    omitted: int = 0
    policy: StoryEvent | None = None
    checkpoint: StoryEvent | None = None
    cluster: str = ""
    texts: tuple[FileText, ...] = ()

    @property
    def case_events(self) -> list[StoryEvent]:
        """The events of the case alone."""
        return [item for item in self.events if item.is_of_case]


def build_story(catalogue: IndexCatalogue, decision: ResolvedDecision) -> Story:
    """Return the story of what was meant."""
    shown, omitted = _omit_middle(decision.locations)
    case_events = _read_events(catalogue.fetch(shown), is_own=True)
    first, last = decision.locations[0].span.n, decision.locations[-1].span.n
    context_events = _context_events(catalogue, first, last) if decision.correlation else []
    policy = _nearest_event(catalogue, POLICY_LOADED, before=first)
    return Story(
        events=tuple(sorted([*case_events, *context_events], key=lambda item: item.seq)),
        omitted=omitted,
        policy=policy,
        cluster=_cluster(catalogue.directory, case_events, policy),
        texts=tuple(_texts(catalogue, case_events)),
        checkpoint=_nearest_event(catalogue, CHECKPOINT, after=last),
    )


def _texts(catalogue: IndexCatalogue, case_events: Sequence[StoryEvent]) -> Iterator[FileText]:
    for item in case_events[:1]:
        if isinstance(item.event.data, PolicyLoaded):
            yield from PolicyLoads(catalogue).texts(LoadRecord(item.seq, item.event))


def _cluster(directory: Path, case_events: Sequence[StoryEvent], policy: StoryEvent | None) -> str:
    """Return the cluster by the policy's record, or as it was called when the journal began."""
    loaded = policy.event.data if policy is not None else None
    if isinstance(loaded, PolicyLoaded) and loaded.cluster:
        title = recorded_title(directory, loaded.cluster, loaded.cluster_uid, loaded.context)
        has_name = loaded.cluster_uid not in ("", title)
        return f"{title} (uid {loaded.cluster_uid})" if has_name else title
    return cluster_of(case_events[0].event.source) if case_events else ""


def _omit_middle(locations: Sequence[RecordLocation]) -> tuple[Sequence[RecordLocation], int]:
    if len(locations) <= MAX_EVENTS:
        return locations, 0
    half = MAX_EVENTS // 2
    return [*locations[:half], *locations[-half:]], len(locations) - 2 * half


def _read_events(entries: Iterable[JournalRecord], *, is_own: bool) -> list[StoryEvent]:
    items = []
    for entry in entries:
        seen = parse_header(entry.raw)
        found = decode_event(seen.type, entry.raw) if seen else None
        if found is not None:
            items.append(StoryEvent(entry.seq, found, is_own))
    return items


def _context_events(catalogue: IndexCatalogue, first: int, last: int) -> list[StoryEvent]:
    """Return what else happened that a reader of the story should know.

    Of brakes those of the whole cluster: what another one holds has a decision in its own story.
    """
    locations = catalogue.find_all(
        lambda index: lookup.find_types(
            index, _CONTEXT_TYPES, after=first, before=last, limit=MAX_EVENTS
        )
    )
    found = _read_events(catalogue.fetch(locations), is_own=False)
    return [each for each in found if getattr(each.event.data, "scope", CLUSTER) == CLUSTER]


def _nearest_event(
    catalogue: IndexCatalogue, type_: str, *, before: int | None = None, after: int | None = None
) -> StoryEvent | None:
    """Return the nearest record of a type on one side."""
    if before is not None:
        locations = catalogue.find_all(
            lambda index: lookup.find_types(index, (type_,), before=before, newest=True)
        )[-1:]
    else:
        locations = catalogue.find_all(
            lambda index: lookup.find_types(index, (type_,), after=after or 0)
        )
    found = _read_events(catalogue.fetch(locations[:1]), is_own=False)
    return found[0] if found else None
