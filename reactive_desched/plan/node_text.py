"""The tables of nodes as text: a line for each resource of each node."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from reactive_desched.model.resources import format_rounded, parse_amount
from reactive_desched.model.utilization import NodeClass
from reactive_desched.plan.node_report import NodesReport
from reactive_desched.plan.report import DecisionCounts, PlannedDecision
from reactive_desched.plan.rule_table import (
    ClassCounts,
    NodeRow,
    ResourceRow,
    RuleTable,
    SampleRef,
    ThresholdPair,
)
from reactive_desched.plan.text import TextStyle, gate_table, inputs_lines, owner_column
from reactive_desched.text.ages import format_age
from reactive_desched.text.layout import align

__all__ = ["nodes_lines", "table_lines"]

_NO_RULE: Final = (
    "The policy enables no plugin that compares the use of nodes with thresholds"
    " (LowNodeUtilization, HighNodeUtilization, LowNodeLoad)."
)
_HEADER: Final = (
    *("NODE", "CLASS", "ROLE", "RESOURCE", "ALLOCATABLE", "REQUESTED", "USED", "COUNTED"),
    *("LOW", "HIGH", "SAMPLE", "EVICT", "BLOCKED", "REMARK"),
)


def nodes_lines(report: NodesReport, style: TextStyle) -> Iterator[str]:
    """Yield the report line by line."""
    if not report.tables:
        yield from (style.heading(_NO_RULE), "")
    if report.skipped is not None:
        yield from (
            style.heading(f"Nothing would be evicted by {report.mode.actor}: {report.skipped}."),
            "",
        )
    for table in report.tables:
        yield from table_lines(table, report.decisions, style)
        yield ""
    blocked = list(gate_table(report.decisions, style, hint=" (-o json lists them)"))
    if blocked:
        yield from (*blocked, "")
    yield from inputs_lines(report.looked_at, style, report.preview)


def table_lines(
    table: RuleTable, decisions: Iterable[PlannedDecision], style: TextStyle
) -> Iterator[str]:
    """Yield one table: its thresholds above, the moves below."""
    pool = f", pool {table.pool}" if table.pool else ""
    yield style.heading(f"{table.plugin} (profile {table.profile}{pool}) counts the {table.counts}")
    yield from align(list(_facts(table)), width=style.width)
    yield from align([_HEADER, *_rows(table, style)], width=style.width)
    moving = [
        [str(each.pod), each.node, owner_column(each.owner, str(each.pod))]
        for each in decisions
        if each.action == "Evict"
        and (each.profile, each.plugin) == (table.profile, table.plugin)
        and any(node.name == each.node and node.node_class for node in table.nodes)
    ]
    if moving:
        yield style.heading("would be evicted, in this order:")
        yield from align([["POD", "NODE", "OWNER"], *moving], width=style.width)


def _facts(table: RuleTable) -> Iterator[list[str]]:
    if table.means is None:
        yield ["low / high", _threshold_text(table.written)]
    else:
        yield ["means", ", ".join(f"{r} {mean:.1f} %" for r, mean in sorted(table.means.items()))]
        yield ["distances", _threshold_text(table.written)]
        yield ["in force", _threshold_text(table.in_force)]
    yield ["nodes", _class_text(table.classes)]
    yield ["evictions", _moves_text(table.moves)]
    for obstacle in table.obstacles:
        yield ["obstacle", obstacle]


def _threshold_text(pairs: Mapping[str, ThresholdPair]) -> str:
    return ", ".join(
        f"{resource} {_threshold(pair.low)} / {_threshold(pair.high)}"
        for resource, pair in sorted(pairs.items())
    )


def _threshold(percent: float | None) -> str:
    return "-" if percent is None else f"{percent:.4g} %"


def _class_text(classes: ClassCounts) -> str:
    counts = {
        "overutilized": classes.overutilized,
        "appropriately utilized": classes.appropriately_utilized,
        "underutilized": classes.underutilized,
        "unknown": classes.unknown,
        "left out": classes.left_out,
    }
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "none"


def _moves_text(moves: DecisionCounts) -> str:
    blocked = moves.refuse + moves.defer
    return f"{moves.evict}" + (f", {blocked} blocked by a gate" if blocked else "")


def _rows(table: RuleTable, style: TextStyle) -> Iterator[list[str]]:
    """Yield the resources with thresholds, of a wide table all that the rule counts."""
    for node in table.nodes:
        shown = [r for r in node.resources if style.wide or r in table.written]
        for number, resource in enumerate(shown):
            whole = _node_cells(node) if number == 0 else (["", ""], ["", "", "", ""])
            counts = resource in table.in_force and node.node_class is not None
            pair = table.in_force[resource] if counts else None
            unknown = "unknown" if node.node_class == NodeClass.UNKNOWN else "-"
            cells = _resource_cells(resource, node.resources[resource], pair, unknown)
            yield [node.name, *whole[0], resource, *cells, *whole[1]]


def _node_cells(node: NodeRow) -> tuple[list[str], list[str]]:
    """Return what is said once for each node: before its resources, and after them."""
    blocked = node.moves.refuse + node.moves.defer
    return (
        [node.node_class or "-", node.role or "-"],
        [_sample_text(node.sample), str(node.moves.evict), str(blocked), _remarks(node)],
    )


def _remarks(node: NodeRow) -> str:
    """Yield remarks on a node; above all that its measured use would give another class."""
    differs = node.class_by_use is not None and node.class_by_use != node.node_class
    by_use = f"by measured use {node.class_by_use}" if differs else None
    return ", ".join(filter(None, (node.remark, by_use)))


def _sample_text(sample: SampleRef | None) -> str:
    return "none" if sample is None else f"{format_age(sample.age_seconds)} old"


def _resource_cells(
    resource: str, row: ResourceRow, pair: ThresholdPair | None, unknown: str
) -> list[str]:
    return [
        "-" if row.allocatable is None else _rounded(resource, row.allocatable),
        _share(resource, row.requested, row.requested_percent, "-"),
        _share(resource, row.used, row.used_percent, "unknown"),
        *(("-", "-", "-") if pair is None else _comparison(row, pair, unknown)),
    ]


def _comparison(row: ResourceRow, pair: ThresholdPair, unknown: str) -> tuple[str, str, str]:
    """Return what the rule counts, and the thresholds beside it."""
    percent = row.counted_percent
    counted = unknown if percent is None else f"{percent:.1f} %"
    return counted, _threshold(pair.low), _threshold(pair.high)


def _share(resource: str, amount: str | None, percent: float | None, without: str) -> str:
    if amount is None:
        return without
    text = _rounded(resource, amount)
    return text if percent is None else f"{text} ({percent:.1f} %)"


def _rounded(resource: str, quantity: str) -> str:
    return format_rounded(resource, parse_amount(resource, quantity))
