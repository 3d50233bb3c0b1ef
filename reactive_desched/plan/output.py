"""Writes a report in the form that was asked for."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

import msgspec

from reactive_desched.plan.report import PlanReport
from reactive_desched.plan.text import TextStyle, lines
from reactive_desched.text.layout import layout_for

if TYPE_CHECKING:
    from reactive_desched.plan.node_report import NodesReport

__all__ = ["plan_lines", "write"]


def write(report: "PlanReport | NodesReport", form: str, into: TextIO) -> None:
    """Write the report as `table`, `wide`, `json` or `yaml`."""
    if form == "json":
        into.write(msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n")
    elif form == "yaml":
        into.write(msgspec.yaml.encode(report).decode())
    else:
        text = _text_lines(report, _text_style(into, wide=form == "wide"))
        into.writelines(f"{line}\n" for line in text)


def _text_lines(report: "PlanReport | NodesReport", style: TextStyle) -> Iterator[str]:
    if isinstance(report, PlanReport):
        return plan_lines(report, style)
    from reactive_desched.plan.node_text import nodes_lines

    return nodes_lines(report, style)


def plan_lines(report: PlanReport, style: TextStyle) -> Iterator[str]:
    """Yield a preview line by line, the tables of nodes first where they were asked for."""
    if report.nodes:
        from reactive_desched.plan.node_text import table_lines

        for table in report.nodes:
            yield from (*table_lines(table, (), style), "")
    yield from lines(report, style)


def _text_style(into: TextIO, *, wide: bool) -> TextStyle:
    """Fold and colour on a terminal only, so that what is piped keeps a line for each pod."""
    layout = layout_for(into)
    return TextStyle(None if wide else layout.width, layout.colours, wide)
