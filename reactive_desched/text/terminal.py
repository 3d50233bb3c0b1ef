"""Says whether the terminal shows colours, and how wide it is."""

import os
import sys
from collections.abc import Mapping
from typing import Final, TextIO

BOLD, DIM = "1", "2"
RED, GREEN, YELLOW, MAGENTA, CYAN = "31", "32", "33", "35", "36"
"""Styles of text, which are codes of a terminal; they are joined by semicolons."""

_USUAL_COLUMNS: Final = 80


def paint(style: str, text: str) -> str:
    """Return the text with a style; an empty style changes nothing."""
    return f"\x1b[{style}m{text}\x1b[0m" if style else text


def wants_colours(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Say whether to use colours: https://no-color.org counts any value but the empty one."""
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def columns(environ: Mapping[str, str] = os.environ) -> int:
    """Return the width of the terminal as `shutil` finds it, which loads what packs archives."""
    wanted = environ.get("COLUMNS", "")
    if wanted.isdecimal() and int(wanted):
        return int(wanted)
    try:
        descriptor = sys.__stdout__.fileno() if sys.__stdout__ is not None else -1
        return os.get_terminal_size(descriptor).columns or _USUAL_COLUMNS
    except (ValueError, OSError):  # a closed stdout, or no terminal
        return _USUAL_COLUMNS
