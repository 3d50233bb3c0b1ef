"""The comparison for a terminal."""

from collections.abc import Iterator

from reactive_desched.audit.report.document import COUNT, ReportDocument, ReportSection, Table
from reactive_desched.text.layout import TextLayout, align, fold
from reactive_desched.text.terminal import BOLD

__all__ = ["as_text"]


def as_text(document: ReportDocument, layout: TextLayout) -> Iterator[str]:
    """Yield a document line by line: figures first, then what they are made of."""
    yield from fold(document.scope, TextLayout(layout.width))
    yield from fold(document.period, TextLayout(layout.width))
    yield ""
    for warning in document.warnings:
        yield from fold(f"warning: {warning}", layout)
    rows = [(each.label, each.value, each.note) for each in document.figures]
    yield from align(rows, width=layout.width)
    for section in document.sections:
        yield from _section(section, layout)


def _section(section: ReportSection, layout: TextLayout) -> Iterator[str]:
    yield ""
    yield layout.styled(BOLD, section.heading)
    for finding in section.findings:
        yield from fold(f"  {finding}", layout)
    for table in section.tables:
        if table.rows:
            yield from _table(table, layout)


def _table(table: Table, layout: TextLayout) -> Iterator[str]:
    """Yield the rows below their headings, figures at the right of their columns."""
    rows = [tuple(column.heading.upper() for column in table.columns), *table.rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    yield ""
    yield from align(
        [
            tuple(
                cell.rjust(width) if column.kind == COUNT else cell
                for cell, width, column in zip(row, widths, table.columns, strict=True)
            )
            for row in rows
        ],
        width=layout.width,
    )
    if table.rest:
        yield f"  {table.rest}"
