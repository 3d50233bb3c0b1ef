"""A report as people read it: who would go and why, who may stay and why, what was looked at."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from msgspec import Struct

from reactive_desched.plan.columns import aligned
from reactive_desched.plan.files import STDIN
from reactive_desched.plan.report import Bystander, Counts, LookedAt, Report, Verdict

__all__ = ["Look", "lines"]

MOST_ROWS: Final = 10
"""Rows of each part of the summary unless it is wide; the others are counted in one line."""


class Look(Struct, frozen=True):
    """How to write: a `width` folds lines, and `wide` has more columns and every row."""

    width: int | None = None
    colours: bool = False
    wide: bool = False

    def heading(self, text: str) -> str:
        """Make a line stand out."""
        return self._painted("1", text)

    def alarm(self, text: str) -> str:
        """Make a line stand out that should give pause."""
        return self._painted("1;31", text)

    def _painted(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colours else text


def lines(report: Report, look: Look) -> Iterator[str]:
    """Yield the report line by line."""
    for part in _parts(report, look):
        written = list(part)
        if written:
            yield from written
            yield ""
    yield from _looked_at(report.looked_at, look)


def _parts(report: Report, look: Look) -> Iterator[Iterable[str]]:
    yield [look.heading(_headline(report))]
    yield from _evictions(report, look)
    yield _by_gate(report, look)
    if report.others is not None:
        yield _refusals(report, look)
        yield _others(report.others, look)
    yield _summary(report, look)


def _headline(report: Report) -> str:
    leaving = report.summary.total.evict
    if report.skipped is not None:
        return f"Nothing would be evicted: {report.skipped}."
    if not leaving:
        return f"Nothing would be evicted ({_pods(report.looked_at.pods)} looked at)."
    return f"{leaving} of {_pods(report.looked_at.pods)} would be evicted, in this order:"


def _evictions(report: Report, look: Look) -> Iterator[Iterable[str]]:
    """Yield a table for each turn of a plugin."""
    leaving = [verdict for verdict in report.decisions if verdict.action == "Evict"]
    for (profile, plugin), turn in groupby(leaving, lambda each: (each.profile, each.plugin)):
        rows = [_columns(look, str(each.pod), each.node, each.owner, each.reason) for each in turn]
        yield _table(f"{plugin} (profile {profile})", "REASON", rows, look)


def _by_gate(report: Report, look: Look) -> Iterator[str]:
    """Count what is refused by gate, with the reason it gives most."""
    held = [verdict for verdict in report.decisions if verdict.gate is not None]
    if not held:
        return
    which = " (--all tells which)" if report.others is None else ""
    yield look.heading(f"{_findings(len(held))} held back{which}:")
    by_gate = Counter(verdict.gate or "" for verdict in held)
    rows = [["GATE", "COUNT", "MOSTLY BECAUSE"]]
    rows += [[gate, str(n), _usual(held, gate)] for gate, n in sorted(by_gate.items(), key=_most)]
    yield from aligned(rows, width=look.width)


def _usual(held: Iterable[Verdict], gate: str) -> str:
    reasons = Counter(each.objections[0].reason for each in held if each.gate == gate)
    return min(reasons.items(), key=_most)[0]


def _refusals(report: Report, look: Look) -> Iterator[str]:
    held = [verdict for verdict in report.decisions if verdict.gate is not None]
    rows = [
        _columns(look, str(each.pod), each.node, each.owner, f"{each.plugin}: {_against(each)}")
        for each in held
    ]
    yield from _table("each of them:", "PLUGIN: WHY NOT", rows, look)


def _against(verdict: Verdict) -> str:
    return "; ".join(objection.reason for objection in verdict.objections)


def _others(others: Sequence[Bystander], look: Look) -> Iterator[str]:
    rows = [_columns(look, str(each.pod), each.node, each.owner, each.reason) for each in others]
    yield from _table(f"{_pods(len(others))} with nothing to decide:", "WHY", rows, look)


def _table(title: str, last: str, rows: list[list[str]], look: Look) -> Iterator[str]:
    if not rows:
        return
    yield look.heading(title)
    yield from aligned([_columns(look, "POD", "NODE", "OWNER", last), *rows], width=look.width)


def _columns(look: Look, pod: str, node: str, owner: str | None, last: str) -> list[str]:
    return [pod, node or "-", *([owner or "-"] if look.wide else []), last]


def _summary(report: Report, look: Look) -> Iterator[str]:
    """Count decisions per plugin, node and namespace, the most evictions first."""
    summary = report.summary
    if summary.total == Counts():
        return
    rows = [["SUMMARY", "EVICT", "REFUSE", "DEFER"], _row("all", summary.total)]
    rows += _counted("plugin", summary.by_plugin, look)
    rows += _counted("node", summary.by_node, look)
    rows += _counted("namespace", summary.by_namespace, look)
    if not summary.total.defer:
        rows = [row[:3] for row in rows]
    first, *others = aligned(rows, numbers=True, indent="")
    yield look.heading(first)
    yield from others


def _counted(what: str, counts: Mapping[str, Counts], look: Look) -> Iterator[list[str]]:
    ranked = sorted(counts.items(), key=lambda each: (-each[1].evict, -each[1].refuse, each[0]))
    shown = ranked if look.wide else ranked[:MOST_ROWS]
    for name, count in shown:
        yield _row(f"{what} {name}", count)
    if len(ranked) > len(shown):
        rest = [count for _, count in ranked[len(shown) :]]
        sums = Counts(*(sum(column) for column in zip(*map(_numbers, rest), strict=True)))
        yield _row(f"{len(rest)} more, see -o wide", sums)


def _row(name: str, counts: Counts) -> list[str]:
    return [name, *map(str, _numbers(counts))]


def _numbers(counts: Counts) -> tuple[int, int, int]:
    return counts.evict, counts.refuse, counts.defer


def _looked_at(seen: LookedAt, look: Look) -> Iterator[str]:
    """Say what all of it rests on, and what is missing."""
    rows = [
        [
            "looked at",
            f"{seen.nodes.total} nodes, {seen.nodes.counting} of them ready and selected",
        ],
        ["", _objects({"pods": seen.pods, **seen.objects})],
        ["in", f"the cluster at {seen.server}" if seen.server else _names(seen.files)],
        ["as of", f"{seen.now}, node fit as {seen.node_fit}"],
        ["policy", f"{seen.policy.file}, revision {seen.policy.revision}"],
    ]
    if seen.ignored:
        rows.append(["not needed", _objects(seen.ignored)])
    if seen.repeated:
        rows.append(["repeated", f"{seen.repeated}; the newest of each counts"])
    yield from aligned(rows, width=look.width, indent="")
    if not seen.whole:
        yield from _missing(seen, look)


def _missing(seen: LookedAt, look: Look) -> Iterator[str]:
    yield look.alarm("NOT WHOLE: objects are missing here, so the cluster may answer otherwise")
    rows = [[f"{each.kind} {each.name}", each.reason] for each in seen.unread]
    if (more := seen.unread_count - len(rows)) > 0:
        rows.append([f"and {more} more", ""])
    yield from aligned(rows, width=look.width)


def _objects(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


def _names(files: Iterable[str]) -> str:
    return ", ".join("standard input" if name == STDIN else name for name in files)


def _pods(count: int) -> str:
    return f"{count} pod{'' if count == 1 else 's'}"


def _findings(count: int) -> str:
    return f"{count} finding{'' if count == 1 else 's'}"


def _most(counted: tuple[str, int]) -> tuple[int, str]:
    return -counted[1], counted[0]
