"""How texts are put on a terminal or into a file: columns, colours, folded lines."""

import os
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from typing import Final, TextIO

from msgspec import Struct

_GAP: Final = "  "
_NARROWEST: Final = 60
_LEAST_ROOM: Final = 30
_DEEPER: Final = "      "
_FURTHER: Final = "    "


class Look(Struct, frozen=True):
    """A `width` folds lines; without one each stays a line."""

    width: int | None = None
    colours: bool = False

    def painted(self, style: str, text: str) -> str:
        """Give a text the colours of a style, as in a terminal's codes; an empty style has none."""
        return f"\x1b[{style}m{text}\x1b[0m" if self.colours and style else text


def look(into: TextIO) -> Look:
    """Fold and colour on a terminal only, so that what is piped keeps a line for each record."""
    if not into.isatty():
        return Look()
    width = max(shutil.get_terminal_size().columns, _NARROWEST)
    return Look(width=width, colours="NO_COLOR" not in os.environ)


def aligned(rows: Sequence[Sequence[str]], look: Look, indent: str = "") -> Iterator[str]:
    """Yield the rows as lines; the last column may be long, and is folded into the width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        head = indent + "".join(
            cell.ljust(width) + _GAP for cell, width in zip(row, widths[:-1], strict=False)
        )
        yield from hung(head, row[-1], look)


def folded(line: str, look: Look) -> Iterator[str]:
    """Yield a line, with what has no room below it and further in."""
    if look.width is None or len(line) <= look.width:
        yield line
        return
    indent = " " * (len(line) - len(line.lstrip()))
    yield from wrapped(line.lstrip(), look.width, indent, f"{indent}{_FURTHER}")


def wrapped(text: str, width: int, indent: str, below: str) -> Iterator[str]:
    """Yield the lines of a text, each within the width; the first is indented otherwise."""
    yield from textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=below, break_on_hyphens=False
    )


def hung(head: str, text: str, look: Look, *, painted: str = "") -> Iterator[str]:
    """Yield a text behind a head, with further lines below its beginning, or deeper in no room.

    `painted` is the head as it is shown, where that differs in colours.
    """
    shown = painted or head
    if look.width is None or len(head) + len(text) <= look.width:
        yield f"{shown}{text}".rstrip()
    elif (room := look.width - len(head)) >= _LEAST_ROOM:
        first, *more = textwrap.wrap(text, room, break_on_hyphens=False)
        yield f"{shown}{first}"
        yield from (" " * len(head) + line for line in more)
    else:
        yield from [shown.rstrip()] if painted else folded(head.rstrip(), look)
        yield from wrapped(text, look.width, _DEEPER, _DEEPER)
