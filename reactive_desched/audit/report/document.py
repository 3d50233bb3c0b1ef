"""A report in words: headings, findings in a sentence each, tables and charts."""

from typing import Final

from msgspec import Struct

TEXT: Final = "text"
CODE: Final = "code"
COUNT: Final = "count"


class Column(Struct, frozen=True):
    """A column: `kind` is TEXT, CODE for names, or COUNT for figures."""

    heading: str
    kind: str = TEXT


class Table(Struct, frozen=True):
    """A table; `bars` has a length for each row, and `rest` says what is left out.

    The first column names its row. One that `is_long` may be folded away.
    """

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    bars: tuple[int, ...] = ()
    rest: str = ""
    is_long: bool = False


class Bar(Struct, frozen=True):
    """A bar of a chart: its label, and a value for each series."""

    label: str
    values: tuple[int, ...]


class Chart(Struct, frozen=True):
    """Bars beside each other; `ticks` are the labels below, from the left end to the right."""

    title: str
    description: str
    series: tuple[str, ...]
    bars: tuple[Bar, ...]
    ticks: tuple[str, ...]


class ReportSection(Struct, frozen=True):
    """A heading, what was found in a sentence or two, and its charts and tables."""

    heading: str
    findings: tuple[str, ...]
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()


class Figure(Struct, frozen=True):
    """A headline figure: what it is of, its value, and what that means."""

    label: str
    value: str
    note: str


class ReportDocument(Struct, frozen=True):
    """A report in words; `warnings` say what is missing in the record."""

    title: str
    period: str
    scope: str
    warnings: tuple[str, ...]
    figures: tuple[Figure, ...]
    sections: tuple[ReportSection, ...]
    footer: str
