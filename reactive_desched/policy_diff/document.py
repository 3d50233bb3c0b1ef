"""Writes the comparison down as a document, of which Markdown and HTML are made."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from reactive_desched.audit.report.document import (
    CODE,
    COUNT,
    Bar,
    Chart,
    Column,
    Figure,
    ReportDocument,
    ReportSection,
    Table,
)
from reactive_desched.policy_diff.comparison import describe_counts
from reactive_desched.policy_diff.report import BlockedPods, ComparedPolicy, MovedPod, PolicyDiff
from reactive_desched.text.ages import format_duration
from reactive_desched.text.counts import NO_FIGURE, and_more, format_count, share
from reactive_desched.text.times import minute
from reactive_desched.text.workloads import name_of_key

__all__ = ["write_diff"]

_HOURS_IN_CHART: Final = 24 * 7
_TICKS: Final = 5


def write_diff(diff: PolicyDiff, version: str, rows: int) -> ReportDocument:
    """Return the comparison in words; each table has so many rows at most, 0 for all."""
    recorded = diff.recorded
    cluster = f" of cluster {recorded.cluster}" if recorded.cluster else ""
    length = (
        format_duration(recorded.seconds)
        if recorded.seconds >= 0
        else "the clock was set back meanwhile"
    )
    return ReportDocument(
        title="What this policy edit would have changed",
        period=(
            f"{minute(recorded.since)} to {minute(recorded.until)} UTC ({length}), by the recording"
            f" {recorded.path}{cluster}{_versions(diff)}"
        ),
        scope=describe_counts(diff),
        warnings=diff.warnings,
        figures=tuple(_figures(diff)),
        sections=tuple(_sections(diff, rows or 10**9)),
        footer=f"Made by reactive-desched {version}, policy diff. All times are UTC.",
    )


def _versions(diff: PolicyDiff) -> str:
    """Say which versions of the program decided, where there were two."""
    old, new = diff.old.version, diff.new.version
    return "" if old == new else f"; version {old} decided for the old policy, {new} for the new"


def _figures(diff: PolicyDiff) -> Iterator[Figure]:
    old, new = diff.old, diff.new
    yield _figure("Evictions", old.evictions, new.evictions)
    yield _figure("Most in a minute", old.peak.evictions, new.peak.evictions)
    yield Figure(
        "Pods not Ready for a move",
        format_duration(new.not_ready_seconds),
        f"in all; with the old policy {format_duration(old.not_ready_seconds)}",
    )
    yield _figure("Replacements not Ready at once", old.most_not_ready, new.most_not_ready)
    yield _figure("Evictions that would not have helped", old.futile, new.futile)


def _figure(label: str, old: int, new: int) -> Figure:
    return Figure(label, f"{new:,}", f"{_change(old, new)}; with the old policy {old:,}")


def _change(old: int, new: int) -> str:
    return "as many" if old == new else f"{new - old:+,}"


def _sections(diff: PolicyDiff, rows: int) -> Iterator[ReportSection]:
    yield _only("Pods that only the new policy would have moved", diff.only_new, "old", rows)
    yield _only("Pods that only the old policy would have moved", diff.only_old, "new", rows)
    yield ReportSection(
        "Evictions",
        tuple(_peaks(diff)),
        charts=tuple(_charts(diff)),
        tables=tuple(_count_tables(diff, rows)),
    )
    yield _held(diff, rows)
    yield ReportSection(
        "What is assumed", (*_trust(diff), *(f"{each}" for each in diff.assumptions))
    )


def _only(heading: str, moved: Sequence[MovedPod], other: str, rows: int) -> ReportSection:
    if not moved:
        return ReportSection(heading, ("None.",))
    columns = (
        Column("Time"),
        Column("Pod", CODE),
        Column("Node", CODE),
        Column("Why"),
        Column(f"With the {other} policy"),
    )
    shown = tuple(
        (
            minute(each.time),
            f"{each.namespace}/{each.pod}",
            each.node,
            f"{each.plugin}: {each.finding}",
            each.other,
        )
        for each in moved[:rows]
    )
    return ReportSection(
        heading,
        (),
        tables=(Table(format_count(len(moved), "pod"), columns, shown, rest=_rest(moved, rows)),),
    )


def _rest(every: Sequence[object], rows: int) -> str:
    left = len(every) - rows
    return f"{and_more(left)}; --limit 0 shows all" if left > 0 else ""


def _peaks(diff: PolicyDiff) -> Iterator[str]:
    for name, policy in (("old", diff.old), ("new", diff.new)):
        if policy.peak.at is not None:
            most = format_count(policy.peak.evictions, "eviction")
            yield f"At most {most} in a minute with the {name} policy, from {policy.peak.at} on."


def _charts(diff: PolicyDiff) -> Iterator[Chart]:
    hours = _hours(diff)
    if len(hours) < 2:  # noqa: PLR2004 -- one bar is no chart
        return
    bars = tuple(
        Bar(minute(hour), (diff.old.by_hour.get(hour, 0), diff.new.by_hour.get(hour, 0)))
        for hour in hours
    )
    step = max(1, (len(hours) - 1) // (_TICKS - 1))
    yield Chart(
        "Evictions by hour",
        f"Evictions of each hour with the old and with the new policy, {len(hours)} hours",
        ("old policy", "new policy"),
        bars,
        tuple(minute(hour)[5:] for hour in hours[::step]),
    )


def _hours(diff: PolicyDiff) -> list[str]:
    """Return the beginnings of all hours, of a long time the last week's."""
    first = datetime.fromisoformat(diff.recorded.since).replace(minute=0, second=0, microsecond=0)
    last = datetime.fromisoformat(diff.recorded.until)
    count = int((last - first) / timedelta(hours=1)) + 1
    begins = (first + timedelta(hours=number) for number in range(count))
    every = [f"{begin:%Y-%m-%dT%H:%M:%SZ}" for begin in begins]
    return every[-_HOURS_IN_CHART:]


def _count_tables(diff: PolicyDiff, rows: int) -> Iterator[Table]:
    yield _counts("By plugin", "Plugin", diff, lambda each: each.by_plugin, rows)
    yield _counts("By namespace", "Namespace", diff, lambda each: each.by_namespace, rows)
    yield _counts("By workload", "Workload", diff, lambda each: each.by_workload, rows)
    if len({*diff.old.by_hour, *diff.new.by_hour}) > 1:
        yield _counts("By hour", "Hour", diff, lambda each: each.by_hour, rows, by_time=True)


def _counts(
    caption: str,
    noun: str,
    diff: PolicyDiff,
    of: Callable[[ComparedPolicy], Mapping[str, int]],
    rows: int,
    *,
    by_time: bool = False,
) -> Table:
    old, new = of(diff.old), of(diff.new)
    names = list({**new, **old})
    if by_time:
        names.sort()
    else:
        names.sort(
            key=lambda name: (
                -abs(new.get(name, 0) - old.get(name, 0)),
                -max(new.get(name, 0), old.get(name, 0)),
                name,
            )
        )
    columns = (
        Column(noun, CODE),
        Column("Old", COUNT),
        Column("New", COUNT),
        Column("More", COUNT),
    )
    return Table(
        caption,
        columns,
        tuple(
            (
                name_of_key(name),
                f"{old.get(name, 0):,}",
                f"{new.get(name, 0):,}",
                _difference(old.get(name, 0), new.get(name, 0)),
            )
            for name in islice(names, rows)
        ),
        rest=_rest(names, rows),
        is_long=by_time,
    )


def _difference(old: int, new: int) -> str:
    return NO_FIGURE if old == new else f"{new - old:+,}"


def _held(diff: PolicyDiff, rows: int) -> ReportSection:
    old = {(each.gate, each.reason): each for each in diff.old.blocked}
    new = {(each.gate, each.reason): each for each in diff.new.blocked}
    keys = sorted(
        {*old, *new},
        key=lambda key: (
            not (new.get(key) or old[key]).is_limit,
            -(new[key].pods if key in new else 0),
            key,
        ),
    )
    limited = {key for key in keys if (new.get(key) or old[key]).is_limit}
    columns = (
        Column("What blocked pods", CODE),
        Column("Old", COUNT),
        Column("New", COUNT),
        Column("Never moved", COUNT),
        Column("Setting", CODE),
    )
    table = Table(
        "Pods that something blocked, for a moment or for good",
        columns,
        tuple(_held_row(key, old.get(key), new.get(key)) for key in keys[:rows]),
        rest=_rest(keys, rows),
    )
    found = (
        f"Limits would have blocked pods for {format_count(len(limited), 'reason')}."
        if limited
        else "No limit would have blocked a pod."
    )
    return ReportSection(
        "What limits and protections would have blocked", (found,), tables=(table,) if keys else ()
    )


def _held_row(
    key: tuple[str, str], old: BlockedPods | None, new: BlockedPods | None
) -> tuple[str, ...]:
    either = new or old
    assert either is not None, "one of both has it"
    return (
        "/".join(key),
        f"{old.pods if old else 0:,}",
        f"{new.pods if new else 0:,}",
        f"{new.never_evicted if new else 0:,}",
        either.setting,
    )


def _trust(diff: PolicyDiff) -> Iterator[str]:
    """Say how far the old policy's evictions are those that were recorded."""
    recorded = diff.recorded
    if recorded.named is None:
        if recorded.evictions:
            made = format_count(recorded.evictions, "eviction")
            yield f"The recorded controller made {made}, by a policy that is neither of both."
        return
    if recorded.evictions:
        yield (
            f"The recorded controller made {format_count(recorded.evictions, 'eviction')} by the"
            f" old policy; this calculation names {recorded.named:,} of them"
            f" ({share(recorded.named, recorded.evictions)}), and {diff.old.evictions:,} in all."
        )
