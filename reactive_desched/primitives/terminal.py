"""Whether what is written is read by a person at a terminal that shows colours."""

import os
from collections.abc import Mapping
from typing import TextIO


def wants_colours(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Say whether to use colours: https://no-color.org counts any value but the empty one."""
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
