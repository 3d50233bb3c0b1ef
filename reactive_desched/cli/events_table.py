"""Records as a table that grows at its end: aligned columns, the important never folded."""

import shutil
from collections.abc import Iterable, Iterator
from typing import Final, TextIO

from reactive_desched.api.event import PodData
from reactive_desched.audit import wording
from reactive_desched.journal.events import event
from reactive_desched.journal.records import AnyEvent, Entry
from reactive_desched.journal.summary import short, summary

HEADINGS: Final = ("TIME (UTC)", "EVENT", "POD", "NODE", "PLUGIN", "WHAT")

_GAP: Final = "  "
_WIDEST: Final = 48
"""A longer cell moves what follows it in its own row, not in all rows to come."""

_LEAST_PLUGIN: Final = 12
_NARROWEST: Final = 60
_WHOLE_TIME: Final = 140
"""A terminal so wide has room for the year."""

Row = tuple[str, str, str, str, str, str]


def width_of(into: TextIO) -> int | None:
    """Return a terminal's width; None for anything else, where each record keeps one line."""
    if not into.isatty():
        return None
    return max(shutil.get_terminal_size().columns, _NARROWEST)


class Table:
    """Writes rows below each other; columns grow with what they hold.

    Within a width, the plugin is shortened at its beginning, and words that have no room stand
    below their row.
    """

    def __init__(self, into: TextIO, width: int | None) -> None:
        self._into = into
        self._width = width
        self._widths = [0] * (len(HEADINGS) - 1)
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

    def _timed(self, row: Row) -> Row:
        """Leave the year out where there is little room."""
        if self._width is None or self._width >= _WHOLE_TIME:
            return row
        return (row[0].partition("-")[2], *row[1:])

    def _grow(self, rows: Iterable[Row]) -> None:
        for row in rows:
            cells = [min(len(cell), _WIDEST) for cell in row[:-1]]
            self._widths = list(map(max, self._widths, cells))
        if self._width is not None:
            before = sum(self._widths[:-1]) + len(_GAP) * len(self._widths[:-1])
            room = max(self._width - before, _LEAST_PLUGIN)
            self._widths[-1] = min(self._widths[-1], room)

    def _lines(self, row: Row) -> Iterator[str]:
        *cells, plugin, words = row
        if self._width is not None:
            plugin = _ending(plugin, self._widths[-1])
        head = _GAP.join(map(str.ljust, [*cells, plugin], self._widths))
        line = f"{head}{_GAP}{words}".rstrip()
        if self._width is None or len(line) <= self._width:
            yield line
            return
        yield head.rstrip()
        indent = " " * (self._widths[0] + len(_GAP))
        room = self._width - len(indent)
        yield indent + (words if len(words) <= room else f"{words[: room - 1]}…")


def row_of(entry: Entry) -> Row:
    """Return the cells of a record; one that says nothing known here has few."""
    seen = summary(entry.raw)
    found = None if seen is None else event(seen.type, entry.raw)
    if found is None:
        return "", "unreadable", "-", "-", "-", f"record {entry.seq}"
    return _known(found)


def _known(found: AnyEvent) -> Row:
    time, kind, data = wording.clock(found.time)[:19], short(found.type), found.data
    kind = wording.plain(kind)
    if not isinstance(data, PodData):
        return time, kind, "-", "-", "-", wording.told(found)
    pod = wording.plain(f"{data.who.namespace}/{data.who.name}")
    node, plugin = wording.plain(data.who.node), wording.plain(data.why.plugin)
    return time, kind, pod, node, plugin, wording.told(found)


def _ending(text: str, room: int) -> str:
    """Shorten a text at its beginning, best before a word: its end tells plugins apart."""
    if len(text) <= room:
        return text
    rest = text[len(text) - room + 1 :]
    word = next((at for at, letter in enumerate(rest) if letter.isupper()), 0)
    return f"…{rest[word:]}"
