"""Lays out text for a terminal or a file: columns, headings, colours, folded lines."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final, TextIO

from msgspec import Struct

from reactive_desched.text.terminal import BOLD, columns, paint, wants_colours

_GAP: Final = "  "
_MIN_WIDTH: Final = 60
_MIN_TEXT_WIDTH: Final = 30
_DEEP_INDENT: Final = "      "
_CONTINUATION_INDENT: Final = "    "


class TextLayout(Struct, frozen=True):
    """The layout of text: lines are folded at `width`, or not at all without one."""

    width: int | None = None
    colours: bool = False

    def styled(self, style: str, text: str) -> str:
        """Return the text with a style, a code of the terminal; an empty style changes nothing."""
        return paint(style, text) if self.colours else text


def layout_for(stream: TextIO) -> TextLayout:
    """Fold and colour on a terminal only, so that piped output has a line for each record."""
    if not stream.isatty():
        return TextLayout()
    return TextLayout(width=max(columns(), _MIN_WIDTH), colours=wants_colours(stream))


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
            head = indent + "".join(
                cell.ljust(longest) + _GAP
                for cell, longest in zip(row[:beside], widths[:beside], strict=True)
            )
            below = _GAP.join(each for each in row[beside:] if each)
            yield from _behind(head, head, below, width, is_below=beside < len(row) - 1)


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


def fold(line: str, layout: TextLayout) -> Iterator[str]:
    """Yield a line, folded at the width; its further lines are indented deeper."""
    if layout.width is None or len(line) <= layout.width:
        yield line
        return
    indent = " " * (len(line) - len(line.lstrip()))
    yield from wrap(line.lstrip(), layout.width, indent, f"{indent}{_CONTINUATION_INDENT}")


def wrap(text: str, width: int, indent: str, continuation_indent: str) -> Iterator[str]:
    """Yield the lines of a text, each within the width; the first has an indent of its own."""
    yield from textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=continuation_indent,
        break_on_hyphens=False,
    )


def hanging_indent(
    head: str, text: str, layout: TextLayout, *, styled_head: str = ""
) -> Iterator[str]:
    """Yield a text behind a head, its further lines indented to the text's column.

    Where that column leaves no room, the text begins on the next line. `styled_head` is the head
    with colours.
    """
    yield from _behind(head, styled_head or head, text, layout.width)


def titled(
    head: str, text: str, layout: TextLayout, *, width: int, style: str = ""
) -> Iterator[str]:
    """Yield a text in a style behind a bold head, which has a column of so many characters."""
    plain = head.ljust(width)
    lead = layout.styled(BOLD, plain)
    for line in hanging_indent("", text, TextLayout(layout.width and layout.width - width)):
        yield f"{lead}{layout.styled(style, line)}".rstrip()
        lead = " " * width


def _behind(
    head: str, shown: str, text: str, width: int | None, *, is_below: bool = False
) -> Iterator[str]:
    """Yield a text behind a head, or below it; `shown` is the head with colours."""
    if not is_below and (width is None or len(head) + len(text) <= width):
        yield f"{shown}{text}".rstrip()
        return
    room = 0 if width is None else width - len(head)
    if room >= _MIN_TEXT_WIDTH and not is_below:
        first, *more = textwrap.wrap(text, room, break_on_hyphens=False)
        yield f"{shown}{first}"
        yield from (" " * len(head) + line for line in more)
    else:
        yield shown.rstrip()
        yield from wrap(text, max(width or 0, _MIN_WIDTH), _DEEP_INDENT, _DEEP_INDENT)
