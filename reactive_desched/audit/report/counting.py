"""Counts a period of the journal record by record, in memory that does not grow with it."""

from bisect import bisect_left
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable
from sys import intern
from typing import Final, Generic, TypeVar

import msgspec
from msgspec import Struct

from reactive_desched.api.event import (
    BRAKE_ENGAGED,
    BRAKE_RELEASED,
    CHECKPOINT,
    DECISION_DEFER,
    DECISION_EVICT,
    DECISION_REFUSE,
    DISRUPTION_OBSERVED,
    EPOCH_BEGAN,
    EVICTION_CORRECTED,
    EVICTION_FOLLOWED_UP,
    EVICTION_OUTCOME_TYPES,
    EVICTION_REQUESTED,
    FINDING_MADE,
    JOURNAL_RESUMED,
    POLICY_LOADED,
    BrakeEngaged,
    BrakeReleased,
    Checkpoint,
    EpochBegan,
    JournalResumed,
    PolicyLoaded,
)
from reactive_desched.audit.rows import micros
from reactive_desched.journal.events import decode_event
from reactive_desched.journal.records import AnyEvent, JournalRecord
from reactive_desched.journal.summary import (
    DataSummary,
    EventFilter,
    EventSummary,
    OutcomeSummary,
)
from reactive_desched.model.moves import MoveEnd
from reactive_desched.model.outcomes import (
    DRY_RUN,
    EVICTED,
    POD_GONE,
    POD_STILL_RUNNING,
    UNKNOWN,
)
from reactive_desched.primitives.decode_errors import DECODE_ERRORS
from reactive_desched.text.times import format_timestamp

MAX_GROUPS: Final = 50_000
"""So many workloads, or namespaces, are counted apart; further ones are counted together."""

MAX_OPEN: Final = 50_000
"""So many requests, evictions and waiting findings are followed to their end at one time."""

MAX_LISTED: Final = 20
"""Of policies, epochs and open requests so many are listed, the last ones; all are counted."""

HOUR_US: Final = 3_600_000_000

LIMIT_GATES: Final = frozenset(
    {
        *("DisruptionBudget", "EvictionLimit", "EvictionRateLimit", "MaxMoving", "PluginLimit"),
        *("NamedBudget", "PendingBrake", "Schedule", "StormBrake", "ZoneBrake"),
    }
)
"""The gates that limit how much is evicted, whichever pod it is."""

CONTROLLER_TYPES: Final = (
    *(BRAKE_ENGAGED, BRAKE_RELEASED, CHECKPOINT, EPOCH_BEGAN, JOURNAL_RESUMED, POLICY_LOADED),
)
"""The types of what is counted that is about no pod."""

READY_BOUNDS_S: Final = (2, 5, 10, 30, 60, 120, 300, 600)
"""Replacements are grouped by the seconds until they were Ready: up to each of these, and more."""

_READY_BOUNDS_MS: Final = tuple(bound * 1000 for bound in READY_BOUNDS_S)
_SIGNIFICANT: Final = 1000
_US_IN_MS: Final = 1000
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class _FollowUpSummary(Struct, frozen=True, gc=False, rename="camel"):
    result: str = ""
    finding_holds: bool | None = None
    ready_ms: int | None = None


class _CountedData(DataSummary, frozen=True, gc=False, rename="camel"):
    follow_up: _FollowUpSummary = _FollowUpSummary()
    corrects: str = ""


class _CountedEvent(EventSummary, frozen=True, gc=False):
    data: _CountedData = _CountedData()


_decoder: Final = msgspec.json.Decoder(_CountedEvent)


class GroupCount(Struct):
    """The counts of one plugin, namespace or workload; `last_us` is when its last eviction was."""

    findings: int = 0
    evicted: int = 0
    dry_run: int = 0
    unknown: int = 0
    not_evicted: int = 0
    helped: int = 0
    futile: int = 0
    not_judged: int = 0
    last_us: int = 0


class Tally(Struct):
    """A count."""

    count: int = 0


class Durations:
    """Milliseconds that something took, each kept to three digits, so that few differ.

    `longest_ms` and the counts up to each of READY_BOUNDS_S, the last of what is longer, are exact.
    """

    def __init__(self) -> None:
        self.longest_ms: int | None = None
        self.by_bound = [0] * (len(READY_BOUNDS_S) + 1)
        self._rounded: Counter[int] = Counter()

    def add(self, ms: int) -> None:
        """Count another one."""
        self._rounded[_three_digits(ms)] += 1
        self.by_bound[bisect_left(_READY_BOUNDS_MS, ms)] += 1
        self.longest_ms = ms if self.longest_ms is None else max(self.longest_ms, ms)

    @property
    def count(self) -> int:
        """Return how many there are."""
        return self._rounded.total()

    def quantile(self, percent: int) -> int | None:
        """Return the least time that so many percent of all do not exceed; None without any."""
        total, seen = self.count, 0
        for ms in sorted(self._rounded):
            seen += self._rounded[ms]
            if seen * 100 >= percent * total:
                return ms
        return None


def _three_digits(ms: int) -> int:
    unit = 1
    while ms >= _SIGNIFICANT * unit:
        unit *= 10
    return (ms + unit // 2) // unit * unit


class LimitCount(Struct):
    """Findings that one gate deferred or refused, and how long those waited that were evicted."""

    decisions: int = 0
    findings: int = 0
    evicted: int = 0
    waits: Durations = msgspec.field(default_factory=Durations)


class BrakeCount(Struct):
    """One brake of one scope; `engaged_us` is when it engaged, None while it is released."""

    times: int = 0
    total_us: int = 0
    engaged_us: int | None = None
    message: str = ""
    by: str = ""


class OpenRequest(Struct, frozen=True):
    """An eviction that was requested."""

    pod: str
    node: str
    plugin: str
    time: str


class Grouped(Generic[_Key, _Value]):
    """Values by key, made when first asked for; those of keys beyond MAX_GROUPS are one value."""

    def __init__(self, make: Callable[[], _Value]) -> None:
        self.by_key: dict[_Key, _Value] = {}
        self.pooled: _Value | None = None
        self._make = make

    def of(self, key: _Key) -> _Value:
        """Return the value of a key."""
        found = self.by_key.get(key)
        if found is not None:
            return found
        if len(self.by_key) < MAX_GROUPS:
            found = self.by_key[key] = self._make()
            return found
        if self.pooled is None:
            self.pooled = self._make()
        return self.pooled


class Following(Generic[_Key, _Value]):
    """Evictions that have begun and not ended; of more than MAX_OPEN the oldest are counted."""

    def __init__(self) -> None:
        self.open: OrderedDict[_Key, _Value] = OrderedDict()
        self.dropped = 0

    def begin(self, key: _Key, value: _Value) -> None:
        """Follow another one."""
        self.open[key] = value
        if len(self.open) > MAX_OPEN:
            self.open.popitem(last=False)
            self.dropped += 1

    def end(self, key: _Key) -> _Value | None:
        """Follow this one no longer; None where it is not followed."""
        return self.open.pop(key, None)

    @property
    def count(self) -> int:
        """Return how many have not ended; those that were dropped may have."""
        return len(self.open) + self.dropped


class PeriodCounts:
    """The counts of the records of a period; times are microseconds since 1970."""

    def __init__(self) -> None:
        self.records = 0
        self.about_pods = 0
        self.findings = 0
        self.decisions: Counter[str] = Counter()
        self.refusals: Grouped[tuple[str, str, str], Tally] = Grouped(Tally)
        self.limits: dict[str, LimitCount] = {}
        self.requested = 0
        self.requests: Following[str, OpenRequest] = Following()
        self.outcomes: Grouped[tuple[str, str], Tally] = Grouped(Tally)
        self.results: Counter[str] = Counter()
        self.hours: dict[int, list[int]] = {}
        self.plugins: Grouped[str, GroupCount] = Grouped(GroupCount)
        self.namespaces: Grouped[str, GroupCount] = Grouped(GroupCount)
        self.workloads: Grouped[str, GroupCount] = Grouped(GroupCount)
        self.followed = GroupCount()
        self.moves: Counter[str] = Counter()
        self.unfollowed: Following[str, None] = Following()
        self.ready = Durations()
        self.brakes: Grouped[tuple[str, str], BrakeCount] = Grouped(BrakeCount)
        self.policies: deque[tuple[str, PolicyLoaded]] = deque(maxlen=MAX_LISTED)
        self.policies_loaded = 0
        self.epochs: deque[tuple[str, EpochBegan]] = deque(maxlen=MAX_LISTED)
        self.epochs_begun = 0
        self.unrecorded = 0
        self.disruptions: Grouped[str, Tally] = Grouped(Tally)
        self.unrecorded_disruptions = 0
        self.corrected = 0
        self._correctable: Following[str, tuple[str, str]] = Following()
        self.disk_faults = 0
        self.disk_fault_ms = 0
        self.untraced_waits = 0
        self._waiting: Following[str, tuple[tuple[str, int], ...]] = Following()
        self._of_pods: dict[str, Callable[[_CountedEvent], None]] = {
            FINDING_MADE: self._count_finding,
            DECISION_EVICT: self._count_agreed,
            DECISION_DEFER: self._count_blocked,
            DECISION_REFUSE: self._count_blocked,
            EVICTION_REQUESTED: self._count_request,
            **dict.fromkeys(EVICTION_OUTCOME_TYPES, self._count_outcome),
            EVICTION_CORRECTED: self._count_correction,
            EVICTION_FOLLOWED_UP: self._count_follow_up,
            DISRUPTION_OBSERVED: self._count_disruption,
        }
        self._of_controller: dict[str, Callable[[AnyEvent], None]] = {
            BRAKE_ENGAGED: self._count_brake,
            BRAKE_RELEASED: self._count_brake,
            CHECKPOINT: self._count_checkpoint,
            EPOCH_BEGAN: self._count_epoch,
            JOURNAL_RESUMED: self._count_resumed,
            POLICY_LOADED: self._count_policy,
        }

    def count_all(self, records: Iterable[JournalRecord], event_filter: EventFilter) -> None:
        """Count the records that match the filter."""
        is_wanted = None if event_filter.is_empty else event_filter.matches
        for record in records:
            try:
                event = _decoder.decode(record.raw)
            except DECODE_ERRORS:
                continue
            if is_wanted is not None and not is_wanted(event):
                continue
            self.records += 1
            if (count := self._of_pods.get(event.type)) is not None:
                self.about_pods += 1
                count(event)
            elif (count_own := self._of_controller.get(event.type)) is not None:
                found = decode_event(event.type, record.raw)
                if found is not None:
                    count_own(found)
        self.untraced_waits = self._waiting.dropped

    def _groups(self, event: _CountedEvent) -> tuple[GroupCount, ...]:
        who = event.data.who
        return (
            self.plugins.of(event.data.why.plugin),
            self.namespaces.of(who.namespace),
            self.workloads.of(who.workload),
        )

    def _count_finding(self, event: _CountedEvent) -> None:
        self.findings += 1
        for group in self._groups(event):
            group.findings += 1

    def _count_agreed(self, event: _CountedEvent) -> None:
        self.decisions["evict"] += 1
        if (waited := self._waiting.end(event.correlationid)) is not None:
            now = micros(event.time)
            for gate, since in waited:
                limit = self.limits[gate]
                limit.evicted += 1
                limit.waits.add(max(0, now - since) // _US_IN_MS)

    def _count_blocked(self, event: _CountedEvent) -> None:
        decision = event.data.decision
        kind = "defer" if event.type == DECISION_DEFER else "refuse"
        self.decisions[kind] += 1
        self.refusals.of((kind, decision.gate, decision.reason)).count += 1
        if (gate := decision.gate) in LIMIT_GATES:
            limit = self.limits.setdefault(gate, LimitCount())
            limit.decisions += 1
            waiting = self._waiting.open.get(event.correlationid, ())
            if all(gate != other for other, _ in waiting):
                now = micros(event.time)
                self._waiting.begin(event.correlationid, (*waiting, (intern(gate), now)))
                limit.findings += 1

    def _count_request(self, event: _CountedEvent) -> None:
        self.requested += 1
        who, plugin = event.data.who, event.data.why.plugin
        pod = f"{who.namespace}/{who.name}"
        self.requests.begin(event.id, OpenRequest(pod, who.node, plugin, event.time))

    def _count_outcome(self, event: _CountedEvent) -> None:
        outcome = event.data.outcome
        result = outcome.result
        self.requests.end(event.causationid)
        if outcome.reason in _CORRECTABLE:
            self._correctable.begin(event.id, (result, outcome.reason))
        self._count_result(event, 1)
        if result in (EVICTED, UNKNOWN):
            self.unfollowed.begin(event.id, None)

    def _count_result(self, event: _CountedEvent, step: int) -> None:
        """Count the outcome of an event in, or out where another one takes its place."""
        result, reason = event.data.outcome.result, event.data.outcome.reason
        self.results[result] += step
        self.outcomes.of((result, reason)).count += step
        field = _FIELD_OF_RESULT.get(result, "not_evicted")
        time = micros(event.time) if field in _FIELDS_BY_HOUR else 0
        for group in self._groups(event):
            setattr(group, field, getattr(group, field) + step)
            group.last_us = max(group.last_us, time)
        if field in _FIELDS_BY_HOUR:
            hour = self.hours.setdefault(time // HOUR_US, [0, 0])
            hour[_FIELDS_BY_HOUR.index(field)] += step

    def _count_correction(self, event: _CountedEvent) -> None:
        """Count the true outcome in place of the one that it corrects, if that is of the period."""
        self.corrected += 1
        if (before := self._correctable.end(event.data.corrects)) is not None:
            data = msgspec.structs.replace(event.data, outcome=OutcomeSummary(*before))
            self._count_result(msgspec.structs.replace(event, data=data), -1)
            if before[0] not in (EVICTED, UNKNOWN):
                self.unfollowed.begin(event.data.corrects, None)
        self._count_result(event, 1)

    def _count_disruption(self, event: _CountedEvent) -> None:
        self.disruptions.of(event.data.cause).count += 1

    def _count_follow_up(self, event: _CountedEvent) -> None:
        said = event.data.follow_up
        self.unfollowed.end(event.causationid)
        self.moves[said.result] += 1
        if said.ready_ms is not None:
            self.ready.add(max(0, said.ready_ms))
        end = MoveEnd(said.result, finding_holds=said.finding_holds)
        field = "helped" if end.helped else "futile" if end.is_futile else "not_judged"
        for group in (self.followed, *self._groups(event)):
            setattr(group, field, getattr(group, field) + 1)

    def _count_brake(self, event: AnyEvent) -> None:
        data: BrakeEngaged | BrakeReleased = event.data
        brake = self.brakes.of((data.brake, data.scope))
        now = micros(event.time.isoformat())
        if isinstance(data, BrakeEngaged):
            brake.times += 1
            brake.engaged_us, brake.message, brake.by = now, data.message, data.by
        elif brake.engaged_us is not None:
            brake.total_us += max(0, now - brake.engaged_us)
            brake.engaged_us = None

    def _count_checkpoint(self, event: AnyEvent) -> None:
        data: Checkpoint = event.data
        self.unrecorded += data.unrecorded
        self.unrecorded_disruptions += data.unrecorded_disruptions

    def _count_epoch(self, event: AnyEvent) -> None:
        self.epochs_begun += 1
        self.epochs.append((event.sequence, event.data))

    def _count_resumed(self, event: AnyEvent) -> None:
        data: JournalResumed = event.data
        self.disk_faults += 1
        self.disk_fault_ms += data.down_ms

    def _count_policy(self, event: AnyEvent) -> None:
        self.policies_loaded += 1
        self.policies.append((format_timestamp(event.time), event.data))


_CORRECTABLE: Final = (POD_GONE.code, POD_STILL_RUNNING.code)
"""The reasons of outcomes that a later record may correct."""
_FIELD_OF_RESULT: Final = {EVICTED: "evicted", DRY_RUN: "dry_run", UNKNOWN: "unknown"}
_FIELDS_BY_HOUR: Final = ("evicted", "dry_run")
