"""The sections of a report, each with what was found in a sentence or two."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeVar

from reactive_desched.audit.report.counting import READY_BOUNDS_S
from reactive_desched.audit.report.document import (
    CODE,
    COUNT,
    Bar,
    Chart,
    Column,
    ReportSection,
    Table,
)
from reactive_desched.audit.report.report import (
    GroupRow,
    HourCount,
    OpenRequests,
    PeriodReport,
    ReasonRow,
    Rows,
)
from reactive_desched.model.disruptions import CAUSES
from reactive_desched.text.ages import format_ms
from reactive_desched.text.counts import NO_FIGURE, agree, format_count, share
from reactive_desched.text.times import minute
from reactive_desched.text.workloads import name_of_key

_HOURS: Final = 24
_MS_IN_S: Final = 1000
_MOST_PERCENT: Final = 50
_Row = TypeVar("_Row")


class Sections:
    """Writes the sections; a dry run evicts nothing, and every sentence says so."""

    def __init__(self, report: PeriodReport) -> None:
        self._report = report
        self._is_dry = report.totals.is_dry_run
        self._moved = report.totals.moved
        self._evictions = "evictions of the dry run" if self._is_dry else "evictions"

    def write(self) -> Iterator[ReportSection]:
        """Yield the sections, of a period without records the one about the record."""
        if self._report.record.about_pods:
            yield self._over_time()
            yield self._groups("By plugin", "plugin", self._report.plugins)
            yield self._groups("By namespace", "namespace", self._report.namespaces)
            yield self._groups("Most moved workloads", "workload", self._report.workloads)
            yield self._ready()
            yield self._moves()
            yield self._refusals()
            yield self._limits()
            yield self._requests()
            if self._report.disruptions.rows:
                yield self._disruptions()
        else:
            of = "of the pods that were asked for" if self._report.selection else "of any pod"
            nothing = f"There is no finding, no decision and no eviction {of} in this period."
            yield ReportSection("Nothing in this period", (nothing,))
            if self._report.brakes.rows:
                yield self._limits()
        yield self._record()

    def _over_time(self) -> ReportSection:
        report = self._report
        finding = "No pod was evicted in this period."
        if self._moved:
            busiest = max(report.over_time, key=self._count_of)
            hour = max(report.hours_of_day, key=self._count_of)
            finding = (
                f"{self._pods_evicted()}{self._per_day()}. The busiest"
                f" {_bar_span(report.bar_hours)} began at {minute(busiest.start)}, with"
                f" {self._count_of(busiest):,}; over all days, most came between {hour.start} and"
                f" {hour.start[:2]}:59, with {self._count_of(hour):,}."
            )
        return ReportSection(
            "Evictions over time",
            (finding,),
            (self._time_chart(), self._day_chart()),
            (self._day_table(), self._time_table()),
        )

    def _time_chart(self) -> Chart:
        report = self._report
        span = _bar_span(report.bar_hours)
        return self._chart(
            f"Evictions per {span}",
            f"One bar for each {span} of the period, in UTC",
            report.over_time,
        )

    def _day_chart(self) -> Chart:
        hours = self._report.hours_of_day
        description = "One bar for each hour of the day, in UTC, over all days of the period"
        return self._chart("Evictions by hour of the day", description, hours)

    def _chart(self, title: str, description: str, counted: Sequence[HourCount]) -> Chart:
        has_both = self._has_both
        series = ("evicted", "dry run") if has_both else ("dry run" if self._is_dry else "evicted",)
        bars = tuple(
            Bar(
                minute(each.start),
                (each.evicted, each.dry_run) if has_both else (self._count_of(each),),
            )
            for each in counted
        )
        highest = max((sum(bar.values) for bar in bars), default=0)
        ends = (bars[0].label, bars[len(bars) // 2].label, bars[-1].label) if bars else ()
        ticks = tuple(dict.fromkeys(ends))  # of few bars some are the same
        return Chart(title, f"{description}. The highest is {highest:,}.", series, bars, ticks)

    def _day_table(self) -> Table:
        rows = [(each.start, *self._counts_of(each)) for each in self._report.hours_of_day]
        return Table(
            "Evictions by hour of the day (UTC)",
            (Column("Hour"), *self._count_columns()),
            tuple(rows),
            tuple(each.evicted + each.dry_run for each in self._report.hours_of_day),
            is_long=True,
        )

    def _time_table(self) -> Table:
        report = self._report
        if report.bar_hours > 1:
            rows = [(minute(each.start), *self._counts_of(each)) for each in report.over_time]
            return Table(
                f"Evictions per {_bar_span(report.bar_hours)} (UTC)",
                (Column("From"), *self._count_columns()),
                tuple(rows),
                tuple(each.evicted + each.dry_run for each in report.over_time),
                is_long=True,
            )
        days: dict[str, list[str]] = {}
        for each in report.over_time:
            hours = days.setdefault(each.start[:10], [""] * _HOURS)
            hours[int(each.start[11:13])] = f"{each.evicted + each.dry_run:,}"
        return Table(
            "Evictions by day and hour (UTC); empty cells are outside of the period",
            (Column("Day"), *(Column(f"{hour:02}", COUNT) for hour in range(_HOURS))),
            tuple((day, *hours) for day, hours in days.items()),
            is_long=True,
        )

    def _groups(self, heading: str, noun: str, groups: Rows[GroupRow]) -> ReportSection:
        columns = [Column(noun.capitalize(), CODE), Column("Findings", COUNT)]
        columns += self._count_columns()
        columns += [Column("Not evicted", COUNT), Column("Helped", COUNT)]
        columns += [Column("Did not help", COUNT)]
        has_last = noun == "workload"
        columns += [Column("Last eviction (UTC)")] if has_last else []
        listed = _with_pooled(groups)
        rows = [
            (
                name_of_key(each.name) or f"(further {noun}s, counted together)",
                f"{each.findings:,}",
                *self._counts_of(each),
                f"{each.not_evicted + each.unknown:,}",
                f"{each.helped:,}",
                f"{each.futile:,}",
                *([minute(each.last) if each.last else NO_FIGURE] if has_last else []),
            )
            for each in listed
        ]
        bars = tuple(self._count_of(each) for each in listed)
        rest = _rest(groups, noun, self._evictions)
        table = Table(f"{noun.capitalize()}s by evictions", tuple(columns),
                      tuple(rows), bars, rest)  # fmt: skip
        return ReportSection(heading, (self._most(noun, groups),), (), (table,))

    def _most(self, noun: str, groups: Rows[GroupRow]) -> str:
        """Say how few make up most of the evictions."""
        if not self._moved:
            return f"No {noun} had an eviction."
        first, taken, number = groups.rows[0].name, 0, 0
        for each in groups.rows:
            if taken * 100 >= _MOST_PERCENT * self._moved:
                break
            taken += self._count_of(each)
            number += 1
        if taken == self._moved and number == 1:
            return f"All {self._evictions} were of the {noun} {first}."
        of_all = f"{share(taken, self._moved)} of the {self._evictions}"
        if number == 1:
            return f"One {noun}, {first}, accounts for {of_all}."
        return f"{number} {noun}s account for {of_all}."

    def _ready(self) -> ReportSection:
        ready = self._report.ready
        labels = [_bound_label(bound) for bound, _ in ready.by_bound]
        rows = tuple(
            (label, f"{count:,}", share(count, ready.count))
            for label, (_, count) in zip(labels, ready.by_bound, strict=True)
        )
        if not ready.count:
            finding = "No replacement became Ready in this period."
        else:
            finding = (
                f"Of {format_count(ready.count, 'replacement')} that became Ready, half were so"
                f" within {format_ms(ready.median_ms)} of the eviction, nine in ten within"
                f" {format_ms(ready.p90_ms)}, and the slowest after {format_ms(ready.longest_ms)}."
            )
        bars = tuple(
            Bar(label, (count,)) for label, (_, count) in zip(labels, ready.by_bound, strict=True)
        )
        chart = Chart(
            "Replacements by time until Ready",
            "One bar for each span of time from the accepted eviction until the replacement was"
            f" Ready. The highest is {max(count for _, count in ready.by_bound):,}.",
            ("replacements",),
            bars,
            tuple(labels),
        )
        table = Table(
            "Replacements by time until Ready",
            (Column("Ready after"), Column("Replacements", COUNT), Column("Share", COUNT)),
            rows,
            is_long=True,
        )
        charts = (chart,) if ready.count else ()
        return ReportSection("Time until replacements were Ready", (finding,), charts,
                       (table,) if ready.count else ())  # fmt: skip

    def _moves(self) -> ReportSection:
        moves = self._report.moves
        judged = moves.helped + moves.futile
        findings = []
        if judged:
            findings.append(
                f"{share(moves.helped, judged)} of the moves that could be judged helped:"
                f" {moves.helped:,} did, {moves.futile:,} did not. A move helps when the"
                " replacement is Ready and the finding does not hold for it."
            )
        else:
            findings.append("No move of this period could be judged.")
        if moves.not_judged:
            findings.append(
                f"{format_count(moves.not_judged, 'move')} could not be judged, for example because"
                " no replacement was needed or the controller was restarted."
            )
        if moves.unfollowed:
            evictions = format_count(moves.unfollowed, "eviction")
            findings.append(f"{evictions} had no follow-up by the end of the period.")
        total = sum(moves.results.values())
        ordered = sorted(moves.results.items(), key=lambda each: (-each[1], each[0]))
        table = Table(
            "What became of the places of evicted pods",
            (
                Column("Result", CODE),
                Column("Meaning"),
                Column("Moves", COUNT),
                Column("Share", COUNT),
            ),
            tuple(
                (result, MOVE_MEANINGS.get(result, ""), f"{count:,}", share(count, total))
                for result, count in ordered
            ),
            tuple(count for _, count in ordered),
        )
        return ReportSection("Moves that helped", tuple(findings), (), (table,) if total else ())

    def _refusals(self) -> ReportSection:
        report, refusals = self._report, self._report.refusals
        decisions, blocked = report.totals.decisions, report.totals.blocked
        if not blocked:
            finding = "No recorded decision was against an eviction."
        else:
            first = refusals.rows[0]
            finding = (
                f"{first.reason} is the reason of {share(first.count, blocked)} of"
                f" {format_count(blocked, 'recorded decision')} not to evict:"
                f" {decisions['defer']:,} deferred the eviction to a time,"
                f" {decisions['refuse']:,} refused it until a change. A decision is"
                " recorded when its gate or reason changes, not at each evaluation."
            )
        listed = _with_pooled(refusals)
        table = Table(
            "Decisions not to evict, by reason",
            (
                *(Column("Reason", CODE), Column("Gate", CODE), Column("Decision")),
                *(Column("Setting that would change it", CODE), Column("Decisions", COUNT)),
            ),
            tuple(
                (each.reason or "(further reasons, counted together)", each.owner, each.kind,
                 each.setting, f"{each.count:,}")
                for each in listed
            ),
            tuple(each.count for each in listed),
            _rest(refusals, "reason", "decisions"),
        )  # fmt: skip
        return ReportSection(
            "Why pods were not evicted", (finding,), (), (table,) if blocked else ()
        )

    def _limits(self) -> ReportSection:
        limits, brakes = self._report.limits, self._report.brakes
        tables = []
        if not limits:
            finding = "No limit and no brake stood in the way of an eviction."
        else:
            first = limits[0]
            waited = (
                f"; half of those waited up to {format_ms(first.median_wait_ms)}, the longest"
                f" {format_ms(first.longest_wait_ms)}" if first.evicted else ""
            )  # fmt: skip
            finding = (
                f"{first.gate} stood in the way of {format_count(first.findings, 'finding')}, of"
                f" which {first.evicted:,} passed every gate later{waited}."
            )
            tables.append(
                Table(
                    "What limits and brakes deferred or refused",
                    (
                        *(Column("Gate", CODE), Column("Findings", COUNT)),
                        *(Column("Decisions", COUNT), Column("Passed later", COUNT)),
                        *(Column("Half waited up to", COUNT), Column("Longest wait", COUNT)),
                    ),
                    tuple(
                        (
                            *(each.gate, f"{each.findings:,}", f"{each.decisions:,}"),
                            f"{each.evicted:,}",
                            *(format_ms(each.median_wait_ms), format_ms(each.longest_wait_ms)),
                        )
                        for each in limits
                    ),
                    tuple(each.findings for each in limits),
                )
            )
        if brakes.rows:
            tables.append(self._brake_table())
        return ReportSection("What the limits deferred", (finding,), (), tuple(tables))

    def _brake_table(self) -> Table:
        brakes = self._report.brakes
        return Table(
            "Brakes and pauses that began or ended in this period",
            (
                *(Column("Brake", CODE), Column("Scope", CODE), Column("Times", COUNT)),
                *(Column("Engaged for", COUNT), Column("At the end"), Column("Last reason")),
            ),
            tuple(
                (
                    *(each.brake, each.scope, f"{each.times:,}", format_ms(each.engaged_ms)),
                    "engaged" if each.is_engaged else "released",
                    f"{each.message} (by {each.by})" if each.by else each.message,
                )
                for each in brakes.rows
            ),
            (),
            _rest(brakes, "brake", "engagements"),
        )

    def _requests(self) -> ReportSection:
        report, opened = self._report, self._report.open_requests
        totals, outcomes = report.totals, report.outcomes
        ended = sum(totals.results.values())
        ways = (
            (totals.evicted, "evicted the pod"),
            (totals.dry_run, "were of a dry run"),
            (totals.not_evicted, "did not evict it"),
            (totals.unknown, "have an unknown effect"),
        )
        ends = ", ".join(f"{count:,} {way}" for count, way in ways if count)
        finding = (
            f"{format_count(totals.requested, 'eviction', 'was', 'were')} requested in this"
            f" period, and {ended:,} ended{f': {ends}' if ends else ''}."
        )
        findings = [finding]
        if opened.count:
            findings.append(
                f"{format_count(opened.count, 'request')} had no outcome by the end of the period."
            )
        tables = []
        if ended:
            tables.append(_outcome_table(outcomes, ended))
        if corrected := report.record.corrected:
            findings.append(
                f"{format_count(corrected, 'outcome', 'was', 'were')} corrected by what the pod"
                " showed later, and the corrected ones count here."
            )
        if opened.listed:
            tables.append(_open_request_table(opened))
        return ReportSection("Eviction requests", tuple(findings), (), tuple(tables))

    def _disruptions(self) -> ReportSection:
        disruptions = self._report.disruptions
        listed = _with_pooled(disruptions)
        total = sum(each.count for each in listed) + disruptions.others_count
        finding = f"{format_count(total, 'pod', 'was', 'were')} ended by something else."
        table = Table(
            "What else ended pods",
            (Column("Cause", CODE), Column("That is"), Column("Pods", COUNT)),
            tuple(
                (
                    each.cause or "(further causes, counted together)",
                    CAUSES.get(each.cause, ""),
                    f"{each.count:,}",
                )
                for each in listed
            ),
            tuple(each.count for each in listed),
            _rest(disruptions, "cause", "pods"),
        )
        return ReportSection("What others did", (finding,), (), (table,))

    def _record(self) -> ReportSection:
        report, record = self._report, self._report.record
        if record.first_sequence is None:
            finding = "The journal has no record of this period."
        else:
            finding = (
                f"{format_count(record.counted, 'record', 'was', 'were')} counted, of the numbers"
                f" {record.first_sequence:,} to {record.last_sequence:,}; audit verify checks that"
                " they are unaltered."
            )
        facts = []
        if record.journal_ends:
            facts.append(("Last record of the journal", f"{minute(record.journal_ends)} UTC"))
        if record.journal_begins:
            facts.append(("First record of the journal", f"{minute(record.journal_begins)} UTC"))
        facts.append(("Missing or damaged in this period", f"{record.missing:,}"))
        facts.append(("Decisions left out above the rate", f"{record.unrecorded_decisions:,}"))
        if left_out := record.unrecorded_disruptions:
            facts.append(("Pods ended by others, left out above the rate", f"{left_out:,}"))
        facts.append(("Changes of epoch", f"{record.epochs:,}"))
        tables = [Table("The journal", (Column("Fact"), Column("Value")), tuple(facts))]
        if report.policies:
            more = report.policies_loaded - len(report.policies)
            tables.append(
                Table(
                    "Policies that came into force in this period",
                    (Column("Since (UTC)"), Column("Revision", CODE), Column("Mode", CODE),
                     Column("Files", CODE), Column("Version", CODE)),
                    tuple((minute(each.time), each.revision, each.mode, each.source, each.version)
                          for each in report.policies),
                    (),
                    f"and {format_count(more, 'earlier one')}" if more else "",
                )
            )  # fmt: skip
        return ReportSection("The record", (finding,), (), tuple(tables))

    # --- counts in words ---

    @property
    def _has_both(self) -> bool:
        return bool(self._report.totals.evicted and self._report.totals.dry_run)

    def _count_of(self, each: GroupRow | HourCount) -> int:
        return each.dry_run if self._is_dry else each.evicted

    def _counts_of(self, each: GroupRow | HourCount) -> tuple[str, ...]:
        if self._has_both:
            return f"{each.evicted:,}", f"{each.dry_run:,}"
        return (f"{self._count_of(each):,}",)

    def _count_columns(self) -> tuple[Column, ...]:
        if self._has_both:
            return Column("Evicted", COUNT), Column("Dry run", COUNT)
        return (Column("Would be evicted" if self._is_dry else "Evicted", COUNT),)

    def _pods_evicted(self) -> str:
        pods = format_count(self._moved, "pod")
        were = "would have been" if self._is_dry else agree(self._moved, "was", "were")
        return f"{pods} {were} evicted"

    def _per_day(self) -> str:
        report = self._report
        begin = max(report.since, report.record.journal_begins)
        length = datetime.fromisoformat(report.until) - datetime.fromisoformat(begin)
        days = length / timedelta(days=1)
        return f", {self._moved / days:,.1f} a day" if days >= 1 else ""


MOVE_MEANINGS: Final = {
    "moved": "the replacement is Ready on another node",
    "returned": "the replacement is Ready on the node that the evicted pod left",
    "not_ready": "the replacement was bound, and not Ready in time",
    "unscheduled": "the replacement was not bound in time",
    "not_replaced": "no replacement was created in time",
    "owner_gone": "the owner was deleted, or wants fewer pods",
    "not_followed": "the controller was not running or followed too many others, or the pod stayed",
}


def _bound_label(bound_s: int | None) -> str:
    if bound_s is None:
        return f"over {format_ms(READY_BOUNDS_S[-1] * _MS_IN_S)}"
    return f"up to {format_ms(bound_s * _MS_IN_S)}"


def _outcome_table(outcomes: Rows[ReasonRow], ended: int) -> Table:
    listed = _with_pooled(outcomes)
    columns = (Column("Result", CODE), Column("Reason", CODE), Column("Requests", COUNT))
    return Table(
        "Outcomes of eviction requests",
        (*columns, Column("Share", COUNT)),
        tuple(
            (
                each.owner or "(further results, counted together)",
                each.reason,
                f"{each.count:,}",
                share(each.count, ended),
            )
            for each in listed
        ),
        tuple(each.count for each in listed),
        _rest(outcomes, "outcome", "requests"),
    )


def _open_request_table(opened: OpenRequests) -> Table:
    more = opened.count - len(opened.listed)
    columns = (Column("Pod", CODE), Column("Node", CODE), Column("Plugin", CODE))
    return Table(
        "Requests without an outcome",
        (*columns, Column("Requested (UTC)")),
        tuple((each.pod, each.node, each.plugin, minute(each.time)) for each in opened.listed),
        (),
        f"and {format_count(more, 'earlier one')}" if more else "",
    )


def _with_pooled(rows: Rows[_Row]) -> tuple[_Row, ...]:
    return rows.rows if rows.pooled is None else (*rows.rows, rows.pooled)


def _rest(rows: Rows[_Row], noun: str, of_what: str) -> str:
    if not rows.others:
        return ""
    return f"and {format_count(rows.others, f'other {noun}')}, with {rows.others_count:,} {of_what}"


def _bar_span(hours: int) -> str:
    """Return the length of a bar, such as day."""
    if hours == 1:
        return "hour"
    if hours < _HOURS:
        return f"{hours} hours"
    days, weeks = hours // _HOURS, hours // (7 * _HOURS)
    if days == 1:
        return "day"
    return "week" if weeks == 1 else f"{weeks} weeks"
