"""Makes a report of a journal: counts the records of a period, sorts them and cuts tables."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

import msgspec

from reactive_desched._version import __version__
from reactive_desched.api.reason_codes import SETTINGS
from reactive_desched.audit.catalogue import IndexCatalogue
from reactive_desched.audit.lookup import RecordQuery
from reactive_desched.audit.report.counting import (
    CONTROLLER_TYPES,
    HOUR_US,
    MAX_LISTED,
    READY_BOUNDS_S,
    BrakeCount,
    GroupCount,
    Grouped,
    PeriodCounts,
    Tally,
)
from reactive_desched.audit.report.report import (
    BrakeRow,
    CauseRow,
    GroupRow,
    HourCount,
    LimitRow,
    MoveCounts,
    OpenRequests,
    PeriodReport,
    PolicyRow,
    ReadyTimes,
    ReasonRow,
    RecordFacts,
    Rows,
    Totals,
)
from reactive_desched.audit.rows import micros
from reactive_desched.audit.status import JournalStatus, journal_status
from reactive_desched.journal.summary import EventFilter
from reactive_desched.model.outcomes import DRY_RUN, EVICTED, UNKNOWN
from reactive_desched.text.times import format_timestamp

MAX_BARS: Final = 200
"""So many bars at most show the evictions over time; a longer period has longer bars."""

_BAR_HOURS: Final = (1, 2, 3, 6, 12, 24, 7 * 24)
_DAY_HOURS: Final = 24
_Row = TypeVar("_Row")


def make_report(
    catalogue: IndexCatalogue, query: RecordQuery, limit: int, now: datetime
) -> PeriodReport:
    """Return the report on the wanted records; tables have at most `limit` rows, 0: all.

    `query` has both of its bounds.
    """
    assert query.since is not None
    assert query.until is not None
    period = RecordQuery(since=query.since, until=query.until)
    counts = PeriodCounts()
    if query.filter.is_empty:
        counts.count_all(catalogue.iter_matching(period), query.filter)
    else:  # what is about no pod concerns all pods
        counts.count_all(catalogue.iter_matching(query), query.filter)
        own = EventFilter(types=CONTROLLER_TYPES)
        own_query = RecordQuery(filter=own, since=query.since, until=query.until)
        counts.count_all(catalogue.iter_matching(own_query), own)
    status = journal_status(catalogue, now)
    begin = max(query.since, micros(status.first.time) if status.first else query.since)
    bar_hours, over_time = _over_time(counts, min(begin, query.until), query.until)
    return PeriodReport(
        cluster=status.policy.cluster if status.policy else "",
        source=status.source,
        since=_moment(query.since),
        until=_moment(query.until),
        selection=_selection(query.filter),
        version=__version__,
        totals=_totals(counts),
        bar_hours=bar_hours,
        over_time=over_time,
        hours_of_day=_hours_of_day(counts),
        plugins=_group_rows(counts.plugins, limit),
        namespaces=_group_rows(counts.namespaces, limit),
        workloads=_group_rows(counts.workloads, limit),
        ready=_ready_times(counts),
        moves=_move_counts(counts),
        refusals=_refusals(counts, limit),
        outcomes=_outcomes(counts, limit),
        limits=_limit_rows(counts),
        brakes=_brakes(counts, limit),
        disruptions=_disruptions(counts, limit),
        open_requests=_open_requests(counts),
        policies_loaded=counts.policies_loaded,
        policies=tuple(
            PolicyRow(time, data.revision, data.mode, data.source, data.version)
            for time, data in counts.policies
        ),
        record=_record_facts(catalogue, period, counts, status),
    )


def as_json(report: PeriodReport) -> str:
    """Return it as one object."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"


def _moment(time_us: int) -> str:
    return format_timestamp(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_us))


def _selection(event_filter: EventFilter) -> dict[str, list[str]]:
    words = ((name, getattr(event_filter, name)) for name in EventFilter.__struct_fields__)
    return {name: list(given) for name, given in words if given}


def _totals(counts: PeriodCounts) -> Totals:
    results = counts.results
    leaving = {name: results[name] for name in (EVICTED, DRY_RUN, UNKNOWN)}
    return Totals(
        findings=counts.findings,
        decisions={name: counts.decisions[name] for name in ("evict", "defer", "refuse")},
        requested=counts.requested,
        results={name: count for name, count in sorted(results.items()) if count},
        evicted=leaving[EVICTED],
        dry_run=leaving[DRY_RUN],
        unknown=leaving[UNKNOWN],
        not_evicted=results.total() - sum(leaving.values()),
    )


def _over_time(
    counts: PeriodCounts, begin_us: int, end_us: int
) -> tuple[int, tuple[HourCount, ...]]:
    """Return how many hours a bar has, and the bars from the first hour to the last."""
    first, last = begin_us // HOUR_US, max(begin_us, end_us - 1) // HOUR_US
    first = min(first, *counts.hours) if counts.hours else first  # the clock was set back
    hours = last - first + 1
    size = next((each for each in _BAR_HOURS if hours <= each * MAX_BARS), 0)
    if not size:  # of years: whole weeks
        size = _BAR_HOURS[-1] * -(-hours // (_BAR_HOURS[-1] * MAX_BARS))
    first -= first % min(size, _DAY_HOURS)
    bars = [[0, 0] for _ in range((last - first) // size + 1)]
    for hour, counted in counts.hours.items():
        bar = bars[min(max(hour - first, 0) // size, len(bars) - 1)]
        bar[0] += counted[0]
        bar[1] += counted[1]
    return size, tuple(
        HourCount(_moment((first + number * size) * HOUR_US), *counted)
        for number, counted in enumerate(bars)
    )


def _hours_of_day(counts: PeriodCounts) -> tuple[HourCount, ...]:
    sums = [[0, 0] for _ in range(_DAY_HOURS)]
    for hour, counted in counts.hours.items():
        sums[hour % _DAY_HOURS][0] += counted[0]
        sums[hour % _DAY_HOURS][1] += counted[1]
    return tuple(HourCount(f"{hour:02}:00", *counted) for hour, counted in enumerate(sums))


def _cut(
    rows: Sequence[_Row], limit: int, count: Callable[[_Row], int], pooled: _Row | None
) -> Rows[_Row]:
    shown = tuple(rows[:limit] if limit else rows)
    others = rows[len(shown) :]
    return Rows(shown, len(others), sum(map(count, others)), pooled)


def _moved(row: GroupRow) -> int:
    return row.evicted + row.dry_run


def _group_rows(groups: Grouped[str, GroupCount], limit: int) -> Rows[GroupRow]:
    rows = [_group_row(name, found) for name, found in groups.by_key.items()]
    rows.sort(key=lambda row: (-_moved(row), -row.findings, row.name))
    pooled = None if groups.pooled is None else _group_row("", groups.pooled)
    return _cut(rows, limit, _moved, pooled)


def _group_row(name: str, found: GroupCount) -> GroupRow:
    return GroupRow(
        name=name,
        findings=found.findings,
        evicted=found.evicted,
        dry_run=found.dry_run,
        unknown=found.unknown,
        not_evicted=found.not_evicted,
        helped=found.helped,
        futile=found.futile,
        not_judged=found.not_judged,
        last=_moment(found.last_us) if found.last_us else "",
    )


def _ready_times(counts: PeriodCounts) -> ReadyTimes:
    times = counts.ready
    by_bound = zip((*READY_BOUNDS_S, None), times.by_bound, strict=True)
    return ReadyTimes(
        times.count, times.quantile(50), times.quantile(90), times.longest_ms, tuple(by_bound)
    )


def _move_counts(counts: PeriodCounts) -> MoveCounts:
    followed = counts.followed
    return MoveCounts(
        dict(sorted(counts.moves.items())),
        followed.helped,
        followed.futile,
        followed.not_judged,
        counts.unfollowed.count,
    )


def _count_of(row: ReasonRow) -> int:
    return row.count


def _refusals(counts: PeriodCounts, limit: int) -> Rows[ReasonRow]:
    rows = [
        ReasonRow(kind, gate, reason, found.count, SETTINGS.get(reason, ""))
        for (kind, gate, reason), found in counts.refusals.by_key.items()
    ]
    return _reason_rows(rows, limit, counts.refusals.pooled)


def _outcomes(counts: PeriodCounts, limit: int) -> Rows[ReasonRow]:
    rows = [
        ReasonRow("outcome", result, reason, found.count, "")
        for (result, reason), found in counts.outcomes.by_key.items()
        if found.count  # each may have been corrected
    ]
    return _reason_rows(rows, limit, counts.outcomes.pooled)


def _reason_rows(rows: list[ReasonRow], limit: int, pooled: Tally | None) -> Rows[ReasonRow]:
    rows.sort(key=lambda row: (-row.count, row.owner, row.reason, row.kind))
    others = None if pooled is None else ReasonRow("", "", "", pooled.count, "")
    return _cut(rows, limit, _count_of, others)


def _limit_rows(counts: PeriodCounts) -> tuple[LimitRow, ...]:
    rows = [
        LimitRow(
            gate,
            found.decisions,
            found.findings,
            found.evicted,
            found.waits.quantile(50),
            found.waits.longest_ms,
        )
        for gate, found in counts.limits.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.findings, row.gate)))


def _times_of(row: BrakeRow) -> int:
    return row.times


def _brakes(counts: PeriodCounts, limit: int) -> Rows[BrakeRow]:
    rows = [
        _brake_row(brake, scope, found) for (brake, scope), found in counts.brakes.by_key.items()
    ]
    rows.sort(key=lambda row: (-row.times, row.brake, row.scope))
    pooled = counts.brakes.pooled
    return _cut(rows, limit, _times_of, None if pooled is None else _brake_row("", "", pooled))


def _brake_row(brake: str, scope: str, found: BrakeCount) -> BrakeRow:
    is_engaged = found.engaged_us is not None
    total_ms = found.total_us // 1000
    return BrakeRow(brake, scope, found.times, total_ms, is_engaged, found.by, found.message)


def _disruptions(counts: PeriodCounts, limit: int) -> Rows[CauseRow]:
    by_key, pooled = counts.disruptions.by_key, counts.disruptions.pooled
    rows = [CauseRow(cause, tally.count) for cause, tally in by_key.items()]
    rows.sort(key=lambda row: (-row.count, row.cause))
    rest = None if pooled is None else CauseRow("", pooled.count)
    return _cut(rows, limit, lambda row: row.count, rest)


def _open_requests(counts: PeriodCounts) -> OpenRequests:
    found = list(counts.requests.open.values())
    return OpenRequests(counts.requests.count, tuple(found[-MAX_LISTED:]))


def _record_facts(
    catalogue: IndexCatalogue, period: RecordQuery, counts: PeriodCounts, status: JournalStatus
) -> RecordFacts:
    ends = catalogue.ends(period)
    first, last = ends if ends is not None else (None, None)
    missing = 0
    if first is not None and last is not None:  # rows of the index are numbered without gaps
        missing = max(0, last.seq - first.seq - (last.n - first.n))
    begins, journal_ends = status.first, status.last
    followings = (counts.requests, counts.unfollowed)
    lost = [(data.first_missing, data.last_missing) for _, data in counts.epochs]
    return RecordFacts(
        counted=counts.records,
        about_pods=counts.about_pods,
        first_sequence=None if first is None else first.seq,
        last_sequence=None if last is None else last.seq,
        missing=missing,
        damaged_lines=status.damaged_lines,
        unreadable=catalogue.missing,
        journal_begins=begins.time if begins else "",
        journal_begins_at=begins.sequence if begins else None,
        journal_ends=journal_ends.time if journal_ends else "",
        unrecorded_decisions=counts.unrecorded,
        unrecorded_disruptions=counts.unrecorded_disruptions,
        corrected=counts.corrected,
        disk_faults=counts.disk_faults,
        disk_fault_ms=counts.disk_fault_ms,
        epochs=counts.epochs_begun,
        lost=tuple((a, b) for a, b in lost if a is not None and b is not None),
        is_at_most=any(each.dropped for each in followings) or counts.untraced_waits > 0,
    )
