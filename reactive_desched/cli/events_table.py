"""Records as a table that grows at its end: aligned columns, and no word lost on a terminal."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TextIO

from reactive_desched.api.event import EventData, PodData
from reactive_desched.audit.event_lines import describe_event
from reactive_desched.journal.events import decode_event
from reactive_desched.journal.records import AnyEvent, JournalRecord
from reactive_desched.journal.summary import parse_summary
from reactive_desched.model.event_types import short_type
from reactive_desched.primitives.bounded_text import printable
from reactive_desched.text.layout import wrap
from reactive_desched.text.times import format_time

CASE_ID_CHARS: Final = 10
"""So much of a case's id stands in a list: `audit show` takes it."""

_GAP: Final = "  "
_NONE: Final = "-"
_MAX_CELL_WIDTH: Final = 48
"""A longer cell moves what follows it in its own row, not in all rows to come."""

_MIN_PLUGIN_WIDTH: Final = 12
_FULL_TIME_WIDTH: Final = 140
"""A terminal so wide has room for the year."""

_SECONDS: Final = slice(0, 19)
_NO_YEAR: Final = slice(5, 19)


class EventRow(NamedTuple):
    """The cells of a record, the most important first."""

    time: str
    kind: str
    pod: str = _NONE
    node: str = _NONE
    case: str = _NONE
    plugin: str = _NONE
    what: str = ""


HEADINGS: Final = EventRow("TIME (UTC)", "EVENT", "POD", "NODE", "CASE", "PLUGIN", "WHAT")


class EventTable:
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
        self._has_header = False

    def show(self, records: Iterable[JournalRecord]) -> None:
        """Write the records and have them seen."""
        rows = [self._shorten_time(to_row(entry)) for entry in records]
        if not rows:
            return
        if not self._has_header:
            rows.insert(0, HEADINGS)
            self._has_header = True
        self._widen(rows)
        self._into.writelines(f"{line}\n" for row in rows for line in self._lines(row))
        self._into.flush()

    def _cells(self, row: EventRow) -> list[str]:
        """Return what stands in columns: all but the words."""
        time, kind, pod, node, case, plugin, _ = row
        return [time, kind, pod, node, *([case] if self._with_cases else []), plugin]

    def _shorten_time(self, row: EventRow) -> EventRow:
        """Leave out of a time what there is little room for."""
        if self._width is None and self._with_cases:
            return row
        is_wide = self._width is None or self._width >= _FULL_TIME_WIDTH
        return row._replace(time=row.time[_SECONDS if is_wide else _NO_YEAR])

    def _widen(self, rows: Iterable[EventRow]) -> None:
        for row in rows:
            cells = [min(len(cell), _MAX_CELL_WIDTH) for cell in self._cells(row)]
            self._widths = list(map(max, self._widths, cells))

    def _lines(self, row: EventRow) -> Iterator[str]:
        cells = self._cells(row)
        if self._width is None:
            yield _GAP.join([*map(str.ljust, cells, self._widths), row.what]).rstrip()
            return
        shown = self._cells_that_fit(cells, self._width)
        head = _GAP.join(shown)
        line = f"{head}{_GAP}{row.what}".rstrip()
        if len(shown) == len(cells) and len(line) <= self._width:
            yield line
            return
        yield head.rstrip()
        rest = [cell for cell in cells[len(shown) :] if cell != _NONE]
        indent = " " * (self._widths[0] + len(_GAP))
        yield from wrap(_GAP.join([*rest, row.what]), self._width, indent, indent)

    def _cells_that_fit(self, cells: Sequence[str], width: int) -> list[str]:
        """Return the first cells, padded, as many as have room."""
        *leading, plugin = map(str.ljust, cells, self._widths)
        room = width - sum(len(cell) + len(_GAP) for cell in leading)
        if room >= min(_MIN_PLUGIN_WIDTH, self._widths[-1]):
            return [
                *leading,
                _shorten_start(plugin.rstrip(), room).ljust(min(room, self._widths[-1])),
            ]
        while len(leading) > 1 and len(_GAP.join(leading).rstrip()) > width:
            del leading[-1]
        return leading


def to_row(entry: JournalRecord) -> EventRow:
    """Return the cells of a record; one that says nothing known here has few."""
    seen = parse_summary(entry.raw)
    envelope = None if seen is None else decode_event(seen.type, entry.raw)
    if envelope is None:
        return EventRow("", "unreadable", what=f"record {entry.seq}")
    return _event_row(envelope)


def _event_row(envelope: AnyEvent) -> EventRow:
    row = EventRow(
        format_time(envelope.time),
        printable(short_type(envelope.type)),
        what=describe_event(envelope),
    )
    who = envelope.data.pod if isinstance(envelope.data, EventData) else None
    if who is None:
        return row
    plugin = envelope.data.why.plugin if isinstance(envelope.data, PodData) else _NONE
    return row._replace(
        pod=printable(f"{who.namespace}/{who.name}"),
        node=printable(who.node) or _NONE,
        case=printable(envelope.correlationid[:CASE_ID_CHARS]),
        plugin=printable(plugin),
    )


def _shorten_start(text: str, room: int) -> str:
    """Shorten a text at its beginning, best before a word: plugins differ in its end."""
    if len(text) <= room:
        return text
    rest = text[len(text) - room + 1 :]
    cut = next((at for at, letter in enumerate(rest) if letter.isupper()), 0)
    return f"…{rest[cut:]}"
