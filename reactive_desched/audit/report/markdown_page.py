"""Writes a report as Markdown, with tables as GitHub and GitLab show them."""

import re
from collections.abc import Iterator
from typing import Final

from reactive_desched.audit.report.document import CODE, COUNT, Column, ReportDocument, Table
from reactive_desched.primitives.bounded_text import printable

_SPECIAL: Final = re.compile(r"[\\`*_{}\[\]<>|&~#@$!+]|(?<=[a-z]):(?=//)|^[-=>]|^\d+[.)](?=\s|$)")
_PLAIN_NAME: Final = re.compile(r"[\w.:/ ()-]*")


def as_markdown(document: ReportDocument) -> Iterator[str]:
    """Yield the text in pieces."""
    yield f"# {_text(document.title)}\n\n{_text(document.period)}\n"
    if document.scope:
        yield f"\n{_text(document.scope)}\n"
    if document.warnings:
        yield "\n## Incomplete\n\n"
        yield from (f"- {_text(each)}\n" for each in document.warnings)
    yield "\n| | | |\n|---|---:|---|\n"
    for figure in document.figures:
        yield f"| {_text(figure.label)} | **{_text(figure.value)}** | {_text(figure.note)} |\n"
    for section in document.sections:
        yield f"\n## {_text(section.heading)}\n"
        yield from (f"\n{_text(each)}\n" for each in section.findings)
        for table in section.tables:
            yield from _table(table)
    yield f"\n---\n\n{_text(document.footer)}\n"


def _table(table: Table) -> Iterator[str]:
    yield f"\n{_text(table.caption)}:\n\n"
    yield f"| {' | '.join(_text(column.heading) for column in table.columns)} |\n"
    marks = ("---:" if column.kind == COUNT else "---" for column in table.columns)
    yield f"|{'|'.join(marks)}|\n"
    for row in table.rows:
        cells = (_cell(cell, column) for cell, column in zip(row, table.columns, strict=True))
        yield f"| {' | '.join(cells)} |\n"
    if table.rest:
        yield f"\n{_text(table.rest)}\n"


def _cell(text: str, column: Column) -> str:
    return _code(text) if column.kind == CODE and text else _text(text)


def _code(text: str) -> str:
    """Return a name as code; one that could be taken for more than a name, letter by letter."""
    shown = printable(text)
    if _PLAIN_NAME.fullmatch(shown) and shown == shown.strip():
        return f"`{shown}`"
    letters = (each if each.isalnum() else f"&#{ord(each)};" for each in shown)
    return f"<code>{''.join(letters)}</code>"


def _text(text: str) -> str:
    """Return a text in which no letter means anything but itself."""
    return _SPECIAL.sub(lambda found: f"&#{ord(found[0][-1])};" if len(found[0]) == 1
                        else f"{found[0][:-1]}&#{ord(found[0][-1])};", printable(text))  # fmt: skip
