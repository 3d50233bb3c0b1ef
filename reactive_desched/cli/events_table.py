"""Records as a table that grows at its end: aligned columns, and no word lost on a terminal."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TextIO

from reactive_desched.api.event import PodData
from reactive_desched.audit import event_lines
from reactive_desched.audit.layout import wrapped
from reactive_desched.journal.events import event
from reactive_desched.journal.records import AnyEvent, Entry
from reactive_desched.journal.summary import summary
from reactive_desched.model.event_types import short

CASE_CHARACTERS: Final = 10
"""So much of a case's id stands in a list: `audit show` takes it."""

_GAP: Final = "  "
_NONE: Final = "-"
_WIDEST: Final = 48
"""A longer cell moves what follows it in its own row, not in all rows to come."""

_LEAST_PLUGIN: Final = 12
_WHOLE_TIME: Final = 140
"""A terminal so wide has room for the year."""

_SECONDS: Final = slice(0, 19)
_NO_YEAR: Final = slice(5, 19)


class Row(NamedTuple):
    """The cells of a record, the most important first."""

    time: str
    kind: str
    pod: str = _NONE
    node: str = _NONE
    case: str = _NONE
    plugin: str = _NONE
    what: str = ""


HEADINGS: Final = Row("TIME (UTC)", "EVENT", "POD", "NODE", "CASE", "PLUGIN", "WHAT")


class Table:
    """Writes rows below each other; columns grow with what they hold.

    Within a width, the plugin is shortened at its beginning; columns that have no room, the last
    ones first, stand below their row, and so do words. With cases there is a column for them, and
    times are whole where there is no width.
    """

    def __init__(self, into: TextIO, width: int | None, *, with_cases: bool = False) -> None:
        self._into = into
        self._width = width
        self._with_cases = with_cases
        self._widths = [0] * len(self._cells(HEADINGS))
        self._is_begun = False

    def show(self, records: Iterable[Entry]) -> None:
        """Write the records and have them seen."""
        rows = [self._timed(row_of(entry)) for entry in records]
        if not rows:
            return
        if not self._is_begun:
            rows.insert(0, HEADINGS)
            self._is_begun = True
        self._grow(rows)
        self._into.writelines(f"{line}\n" for row in rows for line in self._lines(row))
        self._into.flush()

    def _cells(self, row: Row) -> list[str]:
        """Return what stands in columns: all but the words."""
        time, kind, pod, node, case, plugin, _ = row
        return [time, kind, pod, node, *([case] if self._with_cases else []), plugin]

    def _timed(self, row: Row) -> Row:
        """Leave out of a time what there is little room for."""
        if self._width is None and self._with_cases:
            return row
        is_wide = self._width is None or self._width >= _WHOLE_TIME
        return row._replace(time=row.time[_SECONDS if is_wide else _NO_YEAR])

    def _grow(self, rows: Iterable[Row]) -> None:
        for row in rows:
            cells = [min(len(cell), _WIDEST) for cell in self._cells(row)]
            self._widths = list(map(max, self._widths, cells))

    def _lines(self, row: Row) -> Iterator[str]:
        cells = self._cells(row)
        if self._width is None:
            yield _GAP.join([*map(str.ljust, cells, self._widths), row.what]).rstrip()
            return
        shown = self._fitting(cells, self._width)
        head = _GAP.join(shown)
        line = f"{head}{_GAP}{row.what}".rstrip()
        if len(shown) == len(cells) and len(line) <= self._width:
            yield line
            return
        yield head.rstrip()
        rest = [cell for cell in cells[len(shown) :] if cell != _NONE]
        indent = " " * (self._widths[0] + len(_GAP))
        yield from wrapped(_GAP.join([*rest, row.what]), self._width, indent, indent)

    def _fitting(self, cells: Sequence[str], width: int) -> list[str]:
        """Return the first cells, padded, as many as have room."""
        *others, plugin = map(str.ljust, cells, self._widths)
        room = width - sum(len(cell) + len(_GAP) for cell in others)
        if room >= min(_LEAST_PLUGIN, self._widths[-1]):
            return [*others, _ending(plugin.rstrip(), room).ljust(min(room, self._widths[-1]))]
        while len(others) > 1 and len(_GAP.join(others).rstrip()) > width:
            del others[-1]
        return others


def row_of(entry: Entry) -> Row:
    """Return the cells of a record; one that says nothing known here has few."""
    seen = summary(entry.raw)
    found = None if seen is None else event(seen.type, entry.raw)
    if found is None:
        return Row("", "unreadable", what=f"record {entry.seq}")
    return _known(found)


def _known(found: AnyEvent) -> Row:
    row = Row(
        event_lines.clock(found.time),
        event_lines.plain(short(found.type)),
        what=event_lines.told(found),
    )
    if not isinstance(found.data, PodData):
        return row
    who, why = found.data.who, found.data.why
    return row._replace(
        pod=event_lines.plain(f"{who.namespace}/{who.name}"),
        node=event_lines.plain(who.node),
        case=event_lines.plain(found.correlationid[:CASE_CHARACTERS]),
        plugin=event_lines.plain(why.plugin),
    )


def _ending(text: str, room: int) -> str:
    """Shorten a text at its beginning, best before a word: its end tells plugins apart."""
    if len(text) <= room:
        return text
    rest = text[len(text) - room + 1 :]
    word = next((at for at, letter in enumerate(rest) if letter.isupper()), 0)
    return f"…{rest[word:]}"
