"""Lays out text for a terminal or a file: columns, colours, folded lines."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final, TextIO

from msgspec import Struct

from reactive_desched.primitives.terminal import columns, wants_colours

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
        return f"\x1b[{style}m{text}\x1b[0m" if self.colours and style else text


def layout_for(stream: TextIO) -> TextLayout:
    """Fold and colour on a terminal only, so that piped output has a line for each record."""
    if not stream.isatty():
        return TextLayout()
    width = max(columns(), _MIN_WIDTH)
    return TextLayout(width=width, colours=wants_colours(stream))


def align_columns(
    rows: Sequence[Sequence[str]], layout: TextLayout, indent: str = ""
) -> Iterator[str]:
    """Yield the rows as lines; the last column may be long, and is folded into the width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        head = indent + "".join(
            cell.ljust(width) + _GAP for cell, width in zip(row, widths[:-1], strict=False)
        )
        yield from hanging_indent(head, row[-1], layout)


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
    shown = styled_head or head
    if layout.width is None or len(head) + len(text) <= layout.width:
        yield f"{shown}{text}".rstrip()
    elif (text_width := layout.width - len(head)) >= _MIN_TEXT_WIDTH:
        first, *more = textwrap.wrap(text, text_width, break_on_hyphens=False)
        yield f"{shown}{first}"
        yield from (" " * len(head) + line for line in more)
    else:
        yield from [shown.rstrip()] if styled_head else fold(head.rstrip(), layout)
        yield from wrap(text, layout.width, _DEEP_INDENT, _DEEP_INDENT)
