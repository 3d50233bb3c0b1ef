"""Writes a report in the form that was asked for."""

import shutil
from collections.abc import Iterator
from typing import Final, TextIO

import msgspec

from reactive_desched.plan.node_report import NodesReport
from reactive_desched.plan.node_text import nodes_lines, table_lines
from reactive_desched.plan.report import PlanReport
from reactive_desched.plan.text import TextStyle, lines
from reactive_desched.primitives.terminal import wants_colours

__all__ = ["plan_lines", "write"]

_MIN_WIDTH: Final = 60


def write(report: PlanReport | NodesReport, form: str, into: TextIO) -> None:
    """Write the report as `table`, `wide`, `json` or `yaml`."""
    if form == "json":
        into.write(msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n")
    elif form == "yaml":
        into.write(msgspec.yaml.encode(report).decode())
    else:
        style = _text_style(into, wide=form == "wide")
        text = (
            nodes_lines(report, style)
            if isinstance(report, NodesReport)
            else plan_lines(report, style)
        )
        into.writelines(f"{line}\n" for line in text)


def plan_lines(report: PlanReport, style: TextStyle) -> Iterator[str]:
    """Yield a preview line by line, the tables of nodes first where they were asked for."""
    for table in report.nodes or ():
        yield from (*table_lines(table, (), style), "")
    yield from lines(report, style)


def _text_style(into: TextIO, *, wide: bool) -> TextStyle:
    """Fold and colour on a terminal only, so that what is piped keeps a line for each pod."""
    if not into.isatty():
        return TextStyle(wide=wide)
    width = None if wide else max(shutil.get_terminal_size().columns, _MIN_WIDTH)
    return TextStyle(width=width, colours=wants_colours(into), wide=wide)
