"""Writes a report as one HTML page that needs no other file, no script and no network."""

import base64
import hashlib
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Final

from reactive_desched.audit.report.document import (
    CODE,
    COUNT,
    Chart,
    Column,
    ReportDocument,
    ReportSection,
    Table,
)
from reactive_desched.primitives.bounded_text import printable

_STYLE: Final = Path(__file__).with_name("style.css")
_HEIGHT: Final = 100
_BAR_WIDTH: Final = 10
_GAP: Final = 2


def as_html(document: ReportDocument) -> Iterator[str]:
    """Yield the page in pieces."""
    style = _STYLE.read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{_text(document.title)}, {_text(document.period)}</title>\n"
        f"<style>{style}</style>\n</head>\n<body>\n"
    )
    yield f"<header>\n<h1>{_text(document.title)}</h1>\n<p>{_text(document.period)}</p>\n"
    yield from _paragraphs((document.scope,) if document.scope else ())
    yield "</header>\n<main>\n"
    if document.warnings:
        yield '<section class="warnings" aria-label="What is missing">\n<h2>Incomplete</h2>\n<ul>\n'
        yield from (f"<li>{_text(each)}</li>\n" for each in document.warnings)
        yield "</ul>\n</section>\n"
    yield '<dl class="figures">\n'
    for figure in document.figures:
        yield (
            f"<div><dt>{_text(figure.label)}</dt><dd><b>{_text(figure.value)}</b>"
            f" <small>{_text(figure.note)}</small></dd></div>\n"
        )
    yield "</dl>\n"
    for number, section in enumerate(document.sections, 1):
        yield from _section(section, f"s{number}")
    yield f"</main>\n<footer><p>{_text(document.footer)}</p></footer>\n</body>\n</html>\n"


def _section(section: ReportSection, id_: str) -> Iterator[str]:
    yield f'<section aria-labelledby="{id_}">\n<h2 id="{id_}">{_text(section.heading)}</h2>\n'
    yield from _paragraphs(section.findings)
    for number, chart in enumerate(section.charts, 1):
        yield from _chart(chart, f"{id_}c{number}")
    for table in section.tables:
        if table.is_long:
            yield f"<details>\n<summary>{_text(table.caption)}</summary>\n"
            yield from _table(table)
            yield "</details>\n"
        else:
            yield from _table(table)
    yield "</section>\n"


def _paragraphs(texts: tuple[str, ...]) -> Iterator[str]:
    yield from (f"<p>{_text(each)}</p>\n" for each in texts)


def _chart(chart: Chart, id_: str) -> Iterator[str]:
    """Yield a drawing that is as wide as its place; words lie beside it, to keep their size."""
    sums = [sum(bar.values) for bar in chart.bars]
    highest = max(sums, default=0)
    width = max(1, len(chart.bars) * _BAR_WIDTH)
    yield f'<figure>\n<figcaption>{_text(chart.title)} <small class="faint">'
    yield f"{_text('highest')}: {highest:,}</small>"
    if len(chart.series) > 1:
        keys = (
            f'<span class="key k{number}">{_text(name)}</span>'
            for number, name in enumerate(chart.series)
        )
        yield f" {' '.join(keys)}"
    yield (
        f'</figcaption>\n<svg role="img" aria-labelledby="{id_}t {id_}d" preserveAspectRatio="none"'
        f' viewBox="0 0 {width} {_HEIGHT}"><title id="{id_}t">{_text(chart.title)}</title>'
        f'<desc id="{id_}d">{_text(chart.description)}</desc>\n'
    )
    for number, bar in enumerate(chart.bars):
        base = _HEIGHT
        label = _text(f"{bar.label}: {_values(chart, bar.values)}")
        left = number * _BAR_WIDTH + _GAP // 2
        yield f"<g><title>{label}</title>"
        yield f'<rect class="hit" x="{left}" y="0" width="{_BAR_WIDTH}" height="{_HEIGHT}"/>'
        for series, value in enumerate(bar.values):
            tall = _tall(value, highest)
            base -= tall
            if tall:
                yield (
                    f'<rect class="k{series}" x="{left}" y="{base}"'
                    f' width="{_BAR_WIDTH - _GAP}" height="{tall}"/>'
                )
        yield "</g>\n"
    yield f'<path class="axis" d="M0 {_HEIGHT}H{width}"/></svg>\n'
    kind = "each" if len(chart.ticks) == len(chart.bars) else "ends"
    yield f'<div class="ticks {kind}" aria-hidden="true">'
    yield "".join(f"<span>{_text(tick)}</span>" for tick in chart.ticks)
    yield "</div>\n</figure>\n"


def _values(chart: Chart, values: tuple[int, ...]) -> str:
    return ", ".join(f"{value:,} {name}" for name, value in zip(chart.series, values, strict=True))


def _tall(value: int, highest: int) -> int:
    """Return the height of a bar; what is there can be seen."""
    return max(1, value * _HEIGHT // highest) if value else 0


def _table(table: Table) -> Iterator[str]:
    yield f'<div class="scroll" role="region" tabindex="0" aria-label="{_text(table.caption)}">\n'
    yield f"<table>\n<caption>{_text(table.caption)}</caption>\n<thead><tr>"
    for column in table.columns:
        numeric = ' class="count"' if column.kind == COUNT else ""
        yield f'<th scope="col"{numeric}>{_text(column.heading)}</th>'
    yield "</tr></thead>\n<tbody>\n"
    longest = max(table.bars, default=0)
    for number, row in enumerate(table.rows):
        bar = table.bars[number] if table.bars else None
        yield "<tr>"
        for place, (cell, column) in enumerate(zip(row, table.columns, strict=True)):
            yield _cell(cell, column, is_first=not place, bar=_bar(bar, longest, place))
        yield "</tr>\n"
    yield "</tbody>\n"
    if table.rest:
        yield f'<tfoot><tr><td colspan="{len(table.columns)}">{_text(table.rest)}</td></tr></tfoot>'
    yield "</table>\n</div>\n"


def _cell(text: str, column: Column, *, is_first: bool, bar: str) -> str:
    content = _text(text)
    if column.kind == CODE and text:
        content = f"<code>{content}</code>"
    tag = 'th scope="row"' if is_first else "td"
    numeric = ' class="count"' if column.kind == COUNT else ""
    return f"<{tag}{numeric}>{content}{bar}</{tag.partition(' ')[0]}>"


def _bar(value: int | None, longest: int, place: int) -> str:
    """Return a bar for the first cell of a row, whose figure is in the row as well."""
    if place or value is None:
        return ""
    wide = _tall(value, longest)
    return (
        f'<svg class="bar" aria-hidden="true" viewBox="0 0 {_HEIGHT} 1" preserveAspectRatio="none">'
        f'<rect class="k0" width="{wide}" height="1"/></svg>'
    )


def _text(text: str) -> str:
    return escape(printable(text))
