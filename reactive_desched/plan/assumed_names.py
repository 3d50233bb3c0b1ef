"""The names that a preview gives to replacements, as their real names are not known."""

import re
from typing import Final

__all__ = ["original_name", "replacement_name"]

_REPLACEMENT: Final = re.compile(r"(.+)-replacement(?:-(\d{1,9}))?")


def replacement_name(name: str) -> str:
    """Name a replacement after the pod that it replaces: `web-1-replacement`, then `…-2`."""
    if (replaced := _REPLACEMENT.fullmatch(name)) is None:
        return f"{name}-replacement"
    return f"{replaced[1]}-replacement-{int(replaced[2] or 1) + 1}"


def original_name(name: str) -> str:
    """Return the name of the pod that a replacement was named after; of any other pod its own."""
    replaced = _REPLACEMENT.fullmatch(name)
    return name if replaced is None else replaced[1]
