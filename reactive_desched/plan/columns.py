"""Aligned columns of text, the last of which may be long."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

__all__ = ["align"]

_GAP: Final = "  "
_MIN_TAIL_WIDTH: Final = 30
_TAIL_INDENT: Final = "      "


def align(
    rows: Sequence[Sequence[str]],
    *,
    width: int | None = None,
    numbers: bool = False,
    indent: str = _GAP,
) -> Iterator[str]:
    """Yield the rows as lines; `numbers` puts all but the first column to the right.

    With a width the last column is folded into it, or put below its row where there is no room;
    so are the columns before it that would not fit themselves.
    """
    if not rows:
        return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    beside = _count_fitting(widths[:-1], width, len(indent))
    for row in rows:
        if numbers:
            cells = [row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]
            yield indent + _GAP.join(cells).rstrip()
        else:
            head = _GAP.join(map(str.ljust, row[:beside], widths))
            below = _GAP.join(each for each in row[beside:] if each)
            yield from _append_tail(indent + head, below, width, is_below=beside < len(row) - 1)


def _count_fitting(widths: Sequence[int], width: int | None, used: int) -> int:
    """Return how many columns fit beside each other, at least one."""
    if width is None:
        return len(widths)
    for number, each in enumerate(widths):
        used += each
        if number and used > width:
            return number
        used += len(_GAP)
    return len(widths)


def _append_tail(head: str, tail: str, width: int | None, *, is_below: bool) -> Iterator[str]:
    """Write the last cell after the others, folded if there is a width to fold it to."""
    start = len(head) + len(_GAP)
    if width is None or (start + len(tail) <= width and not is_below):
        yield f"{head}{_GAP}{tail}".rstrip()
    elif width - start >= _MIN_TAIL_WIDTH and not is_below:
        first, *more = textwrap.wrap(tail, width - start)
        yield f"{head}{_GAP}{first}"
        yield from (" " * start + line for line in more)
    else:
        yield head.rstrip()
        yield from textwrap.wrap(
            tail,
            max(width, 2 * _MIN_TAIL_WIDTH),
            initial_indent=_TAIL_INDENT,
            subsequent_indent=_TAIL_INDENT,
        )
