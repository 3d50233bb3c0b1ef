"""The report as text: evicted pods, other pods with their reasons, and the input."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from reactive_desched.plan.files import STDIN
from reactive_desched.plan.report import (
    DecisionCounts,
    PlanInputs,
    PlannedDecision,
    PlanReport,
    PolicyRef,
    RunPreview,
    UnaffectedPod,
)
from reactive_desched.text.ages import format_age
from reactive_desched.text.counts import and_more, format_count
from reactive_desched.text.layout import TextLayout, align
from reactive_desched.text.terminal import BOLD, RED
from reactive_desched.text.workloads import name_of_key

__all__ = ["TextStyle", "gate_table", "inputs_lines", "lines"]

MAX_EMPTIED: Final = 10

MAX_ROOMS: Final = 10
"""So many pods for which room is made are named; the JSON has all."""
MAX_ROWS: Final = 10
"""Rows of each part of the summary unless it is wide; the others are counted in one line."""


class TextStyle(TextLayout, frozen=True):
    """The layout of text for a plan; `wide` has more columns and every row."""

    wide: bool = False

    def heading(self, text: str) -> str:
        """Highlight a line as a heading."""
        return self.styled(BOLD, text)

    def alarm(self, text: str) -> str:
        """Highlight a line as an alarm."""
        return self.styled(f"{BOLD};{RED}", text)


def lines(report: PlanReport, style: TextStyle) -> Iterator[str]:
    """Yield the report line by line; of pods that do not exist nothing else is said."""
    inputs = report.looked_at
    if report.names_no_pod:
        yield style.heading(_headline(report))
        yield from align(
            [["in", _source(inputs)], ["as of", inputs.now]], width=style.width, indent=""
        )
        if not inputs.whole:
            yield from _incomplete_warning(inputs, style)
        return
    for part in _parts(report, style):
        written = list(part)
        if written:
            yield from written
            yield ""
    yield from inputs_lines(inputs, style, report.preview)


def _parts(report: PlanReport, style: TextStyle) -> Iterator[Iterable[str]]:
    yield [style.heading(_headline(report)), *report.obstacles]
    yield from (_eviction_tables if report.preview is None else _timed_table)(report, style)
    hint, what, rest = "", "finding", report.decisions
    if not report.only and report.others is None:
        hint = " (--all lists them)"
        if report.preview is not None and (waiting := list(filter(_waits, rest))):
            yield _waiting_table(waiting, style)
            what, rest = "more finding", tuple(each for each in rest if not _waits(each))
    yield gate_table(rest, style, hint, what)
    if report.others is not None or report.only:
        yield _blocked_table(report, style)
    if report.others is not None:
        yield _unaffected_table(report.others, style)
    yield _summary(report, style)


def _headline(report: PlanReport) -> str:
    leaving = report.summary.total.evict
    actor, looked_at = report.mode.actor, _pods_looked_at(report)
    if report.only and not report.matching_pods:
        return f"There are no pods{_words(report)}."
    if report.skipped is not None:
        return f"Nothing would be evicted by {actor}: {report.skipped}."
    if not leaving:
        return f"Nothing would be evicted by {actor} ({looked_at} looked at)."
    within = "" if report.preview is None else _within(report.preview)
    return f"{leaving} of {looked_at} would be evicted by {actor}{within}, in this order:"


def _pods_looked_at(report: PlanReport) -> str:
    if not report.only:
        return format_count(report.looked_at.pods, "pod")
    return f"{format_count(report.matching_pods, 'pod')}{_words(report)}"


def _words(report: PlanReport) -> str:
    """Repeat the filters as the command line has them."""
    flags = (f"--{field.removesuffix('s')} {','.join(w)}" for field, w in report.only.items())
    return f" with {' '.join(flags)}"


def _within(preview: RunPreview) -> str:
    return f" within {format_age(preview.horizon_seconds)}"


def _eviction_tables(report: PlanReport, style: TextStyle) -> Iterator[Iterable[str]]:
    """Yield a table for each turn of a plugin."""
    leaving = [decision for decision in report.decisions if decision.action == "Evict"]
    for (profile, plugin), turn in groupby(leaving, lambda each: (each.profile, each.plugin)):
        rows = [
            _columns(style, str(each.pod), each.node, each.owner, each.finding) for each in turn
        ]
        yield _table(f"{plugin} (profile {profile})", "FINDING", rows, style)


def _timed_table(report: PlanReport, style: TextStyle) -> Iterator[Iterable[str]]:
    """Yield one table with the time of each eviction, and where its replacement is taken to run."""
    rows = [
        [
            _moment(each.in_seconds or 0.0),
            str(each.pod),
            each.node,
            each.replacement_node or "-",
            *([owner_column(each.owner, str(each.pod)), _delays(each)] if style.wide else []),
            f"{each.plugin}: {each.finding}",
        ]
        for each in report.decisions
        if each.action == "Evict"
    ]
    if rows:
        more = ["OWNER", "HELD BEFORE BY"] if style.wide else []
        header = ["IN", "POD", "NODE", "TO", *more, "PLUGIN: FINDING"]
        yield align([header, *rows], width=style.width)


def _moment(seconds: float) -> str:
    return "now" if seconds < 1 else format_age(seconds)


def _delays(decision: PlannedDecision) -> str:
    return ", ".join(each.reason for each in decision.delayed_by) or "-"


def _waiting_table(waiting: Sequence[PlannedDecision], style: TextStyle) -> Iterator[str]:
    """Show what each pod waits for that is not evicted at the end, by its first finding."""
    pods = list({each.pod: each for each in reversed(waiting)}.values())[::-1]
    shown = pods if style.wide else pods[:MAX_ROWS]
    rows = [_columns(style, str(each.pod), each.node, each.owner, _wait(each)) for each in shown]
    count = format_count(len(pods), "pod", "still waits", "still wait")
    yield style.heading(f"{count} at the end:")
    yield from align([_columns(style, "POD", "NODE", "OWNER", "FOR"), *rows], width=style.width)
    if len(pods) > len(shown):
        yield f"  {and_more(len(pods) - len(shown))}: see -o wide"


def _waits(decision: PlannedDecision) -> bool:
    return decision.gate is not None and decision.may_go_later


def _wait(decision: PlannedDecision) -> str:
    return f"{decision.reason}: {decision.rejections[0].message}"


def gate_table(
    decisions: Iterable[PlannedDecision],
    style: TextStyle,
    hint: str = "",
    what: str = "finding",
) -> Iterator[str]:
    """Count blocked findings by gate and reason, with the most common message."""
    blocked = [decision for decision in decisions if decision.gate is not None]
    if not blocked:
        return
    yield style.heading(f"{format_count(len(blocked), what)} blocked by a gate{hint}:")
    messages: dict[tuple[str, str], Counter[str]] = {}
    for decision in blocked:
        first = decision.rejections[0]
        messages.setdefault((first.gate, first.reason), Counter())[first.message] += 1
    rows = [["GATE", "REASON", "COUNT", "MOST COMMON MESSAGE"]]
    rows += [
        [gate, reason, str(counts.total()), min(counts.items(), key=_by_count_then_name)[0]]
        for (gate, reason), counts in sorted(
            messages.items(), key=lambda each: (-each[1].total(), each[0])
        )
    ]
    yield from align(rows, width=style.width)


def _blocked_table(report: PlanReport, style: TextStyle) -> Iterator[str]:
    blocked = [decision for decision in report.decisions if decision.gate is not None]
    rows = [
        _columns(
            style,
            str(each.pod),
            each.node,
            each.owner,
            f"{each.plugin}: {_rejection_messages(each)}",
        )
        for each in blocked
    ]
    yield from _table("each of them:", "PLUGIN: REASONS", rows, style)


def _rejection_messages(decision: PlannedDecision) -> str:
    return "; ".join(f"{each.reason}: {each.message}" for each in decision.rejections)


def _unaffected_table(unaffected: Sequence[UnaffectedPod], style: TextStyle) -> Iterator[str]:
    rows = [
        _columns(style, str(each.pod), each.node, each.owner, f"{each.reason}: {each.message}")
        for each in unaffected
    ]
    yield from _table(
        f"{format_count(len(unaffected), 'pod')} without a decision:", "REASON", rows, style
    )


def _table(title: str, last: str, rows: list[list[str]], style: TextStyle) -> Iterator[str]:
    if not rows:
        return
    yield style.heading(title)
    yield from align([_columns(style, "POD", "NODE", "OWNER", last), *rows], width=style.width)


def _columns(style: TextStyle, pod: str, node: str, owner: str | None, last: str) -> list[str]:
    return [pod, node or "-", *([owner_column(owner, pod)] if style.wide else []), last]


def owner_column(owner: str | None, pod: str) -> str:
    """Name the owner of a pod, which is written NAMESPACE/NAME."""
    return name_of_key(owner, pod.partition("/")[0]) if owner else "-"


def _summary(report: PlanReport, style: TextStyle) -> Iterator[str]:
    """Count decisions per plugin, node and namespace, the most evictions first."""
    summary = report.summary
    if summary.total == DecisionCounts():
        return
    rows = [["SUMMARY", "EVICT", "REFUSE", "DEFER"], _row("all", summary.total)]
    rows += _count_rows("plugin", summary.by_plugin, style)
    rows += _count_rows("node", summary.by_node, style)
    rows += _count_rows("namespace", summary.by_namespace, style)
    if not summary.total.defer:
        rows = [row[:3] for row in rows]
    first, *rest = align(rows, numbers=True, indent="")
    yield style.heading(first)
    yield from rest


def _count_rows(
    what: str, counts: Mapping[str, DecisionCounts], style: TextStyle
) -> Iterator[list[str]]:
    ranked = sorted(counts.items(), key=lambda each: (-each[1].evict, -each[1].refuse, each[0]))
    shown = ranked if style.wide else ranked[:MAX_ROWS]
    for name, count in shown:
        yield _row(f"{what} {name}", count)
    if len(ranked) > len(shown):
        rest = [count for _, count in ranked[len(shown) :]]
        sums = DecisionCounts(*(sum(column) for column in zip(*map(_numbers, rest), strict=True)))
        yield _row(f"{and_more(len(rest))}: see -o wide", sums)


def _row(name: str, counts: DecisionCounts) -> list[str]:
    return [name, *map(str, _numbers(counts))]


def _numbers(counts: DecisionCounts) -> tuple[int, int, int]:
    return counts.evict, counts.refuse, counts.defer


def _policy_text(policy: PolicyRef) -> str:
    text = f"{policy.file}, revision {policy.revision}"
    return text if policy.settings is None else f"{text}; with the settings of {policy.settings}"


def inputs_lines(
    inputs: PlanInputs, style: TextStyle, preview: RunPreview | None = None
) -> Iterator[str]:
    """Yield the lines about the input: which objects were read, and which are missing."""
    rows = [
        [
            "looked at",
            f"{inputs.nodes.total} nodes, {inputs.nodes.counting} of them ready and selected",
        ],
        ["", _objects({"pods": inputs.pods, **inputs.objects})],
        ["in", _source(inputs)],
        ["as of", f"{inputs.now}, node fit as {inputs.node_fit}"],
        *([["last change", f"{inputs.last_change}, before that"]] if inputs.last_change else ()),
        ["policy", _policy_text(inputs.policy)],
    ]
    if preview is not None:
        rows += _preview_rows(preview)
    if inputs.ignored:
        rows.append(["not needed", _objects(inputs.ignored)])
    if inputs.repeated:
        rows.append(["repeated", f"{inputs.repeated}; the newest of each counts"])
    yield from align(rows, width=style.width, indent="")
    if not inputs.whole:
        yield from _incomplete_warning(inputs, style)


def _source(inputs: PlanInputs) -> str:
    if inputs.recording:
        return f"the recording {inputs.recording}"
    return f"the cluster at {inputs.server}" if inputs.server else _names(inputs.files)


def _preview_rows(preview: RunPreview) -> Iterator[list[str]]:
    """Say what a preview of the controller assumes, and how far it looks."""
    ready, horizon = format_age(preview.ready_after_seconds), format_age(preview.horizon_seconds)
    ended = format_age(preview.ended_after_seconds)
    past = f"a record of {n}" if (n := preview.past_evictions) else "no record of"
    yield ["assumed", f"the controller starts now, with {past} earlier evictions;"]
    yield ["", f"each replacement is Ready {ready} after it is bound; nothing else happens"]
    if packed := preview.packed_resources:
        yield ["", f"the kube-scheduler packs nodes by {', '.join(packed)}, as the policy needs it"]
    if modes := preview.modes:
        yield ["", f"what is not to be carried out is: {', '.join(modes)}"]
    yield from _emptied_rows(preview)
    yield from _room_rows(preview)
    yield ["looked ahead", f"{horizon} or {preview.max_evictions} evictions at most"]
    yield ["", f"ended after {ended}: {preview.ended}"]


def _emptied_rows(preview: RunPreview) -> Iterator[list[str]]:
    """Name the nodes that are emptied, and those whose pods did not all leave."""
    done = [each for each in preview.emptied_nodes if each.empty_in_seconds is not None]
    if done:
        last = format_age(max(each.empty_in_seconds or 0.0 for each in done))
        moves = sum(each.pods for each in done)
        count, pods = format_count(len(done), "node"), format_count(moves, "move")
        yield ["emptied", f"{count} by {pods}, the last one after {last}:"]
        yield ["", _some([each.node for each in done])]
    if begun := [each.node for each in preview.emptied_nodes if each.empty_in_seconds is None]:
        yield ["not emptied", f"{_some(begun)}: begun, and pods are left"]


def _room_rows(preview: RunPreview) -> Iterator[list[str]]:
    """Name the pods for which room is made, and those that wait all the same."""
    head = "room for"
    for each in preview.made_rooms[:MAX_ROOMS]:
        moves = format_count(each.pods, "move")
        became = "not bound"
        if each.bound_in_seconds is not None:
            became = f"bound after {format_age(each.bound_in_seconds)}"
        yield [head, f"{each.pod} on {each.node}, by {moves}: {became}"]
        head = ""
    if (more := len(preview.made_rooms) - MAX_ROOMS) > 0:
        yield ["", and_more(more)]


def _some(names: Sequence[str]) -> str:
    more = len(names) - MAX_EMPTIED
    shown = ", ".join(names[:MAX_EMPTIED])
    return f"{shown} {and_more(more)}" if more > 0 else shown


def _incomplete_warning(inputs: PlanInputs, style: TextStyle) -> Iterator[str]:
    yield style.alarm("NOT WHOLE: objects are missing here, so the cluster may answer otherwise")
    rows = [[f"{each.kind} {each.name}", each.message] for each in inputs.unread]
    if (more := inputs.unread_count - len(rows)) > 0:
        rows.append([and_more(more), ""])
    yield from align(rows, width=style.width)


def _objects(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


def _names(files: Iterable[str]) -> str:
    return ", ".join("standard input" if name == STDIN else name for name in files)


def _by_count_then_name(counted: tuple[str, int]) -> tuple[int, str]:
    return -counted[1], counted[0]
