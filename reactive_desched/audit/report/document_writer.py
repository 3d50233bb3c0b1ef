"""Writes a report down as a document, which every form of it shows."""

from collections.abc import Iterator
from datetime import datetime

from reactive_desched.api.event import format_missing
from reactive_desched.audit.report.document import Figure, ReportDocument
from reactive_desched.audit.report.report import PeriodReport
from reactive_desched.audit.report.sections import Sections
from reactive_desched.text.ages import format_duration, format_ms
from reactive_desched.text.counts import format_count, share, times
from reactive_desched.text.times import minute


def write_document(report: PeriodReport) -> ReportDocument:
    """Return the report in words."""
    length = datetime.fromisoformat(report.until) - datetime.fromisoformat(report.since)
    days = format_duration(length.total_seconds())
    given = report.selection.items()
    chosen = "; ".join(f"{name}: {', '.join(words)}" for name, words in given)
    source = f" from {report.source}" if report.source else ""
    return ReportDocument(
        title=f"Evictions of cluster {report.cluster}" if report.cluster else "Evictions",
        period=f"{minute(report.since)} to {minute(report.until)} UTC ({days})",
        scope=f"Only {chosen}." if chosen else "",
        warnings=tuple(_warnings(report)),
        figures=tuple(_figures(report)),
        sections=tuple(Sections(report).write()),
        footer=f"Made by reactive-desched {report.version}{source}. All times are UTC.",
    )


def _warnings(report: PeriodReport) -> Iterator[str]:
    """Say what is missing in the record."""
    yield from _damage(report)
    yield from _beginning(report)
    yield from _left_out(report)


def _damage(report: PeriodReport) -> Iterator[str]:
    record = report.record
    if record.missing:
        yield (
            f"{format_count(record.missing, 'record', 'is', 'are')} damaged or gone between the"
            " first and the last record of this period; what they held is not counted."
        )
    if record.damaged_lines:
        lines = format_count(record.damaged_lines, "damaged line")
        yield f"The whole journal has {lines}; audit verify names the first."
    if record.unreadable:
        unreadable = format_count(record.unreadable, "record", "was", "were")
        yield f"{unreadable} removed or damaged while this report was made."
    for first, last in record.lost:
        yield f"The journal lost its end in this period: {format_missing(first, last)}."


def _beginning(report: PeriodReport) -> Iterator[str]:
    record = report.record
    if record.journal_begins > report.since:
        begins = f"The journal begins at {minute(record.journal_begins)} UTC"
        if (first := record.journal_begins_at) is not None and first > 1:
            yield f"{begins} with record {first:,}: earlier ones were removed and are not counted."
        else:
            yield f"{begins}: of the time before nothing is known."


def _left_out(report: PeriodReport) -> Iterator[str]:
    record = report.record
    if record.unrecorded_decisions:
        decisions = format_count(record.unrecorded_decisions, "decision")
        yield (
            f"{decisions} not to evict came faster than the journal records them: only their number"
            " is known, and they are in no table below. Every eviction is recorded."
        )
    if record.disk_faults:
        lasted = format_duration(record.disk_fault_ms / 1000)
        yield (
            f"The journal could not be written {times(record.disk_faults)}, for {lasted} in all;"
            " nothing was evicted meanwhile."
        )
    if record.is_at_most:
        yield (
            "More was under way at one time than a report follows: how many requests and evictions"
            " have no end is an upper bound, and some waits are not counted."
        )


def _figures(report: PeriodReport) -> Iterator[Figure]:
    totals, moves, ready = report.totals, report.moves, report.ready
    if totals.is_dry_run:
        yield Figure("Would have been evicted", f"{totals.moved:,}", "in a dry run")
    else:
        dry = f"; {totals.dry_run:,} more in dry runs" if totals.dry_run else ""
        yield Figure("Pods evicted", f"{totals.moved:,}", f"of {totals.requested:,} requests{dry}")
    judged = moves.helped + moves.futile
    note = f"{moves.helped:,} of {judged:,} that were judged" if judged else "none was judged"
    yield Figure("Moves that helped", share(moves.helped, judged), note)
    nine = f"nine in ten within {format_ms(ready.p90_ms)}" if ready.count else "none became Ready"
    yield Figure("Half of replacements Ready in", format_ms(ready.median_ms), nine)
    findings = f"on {format_count(totals.findings, 'finding')}"
    yield Figure("Decisions not to evict", f"{totals.blocked:,}", findings)
