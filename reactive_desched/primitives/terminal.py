"""Says whether the terminal shows colours, and how wide it is."""

import os
import sys
from collections.abc import Mapping
from typing import Final, TextIO

_USUAL_COLUMNS: Final = 80


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
