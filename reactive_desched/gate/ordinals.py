"""Writes a place in a queue: 1st, 2nd, 3rd, 11th, 1,021st."""

from typing import Final

_ENDINGS: Final = {1: "st", 2: "nd", 3: "rd"}
_TEENS: Final = range(11, 14)


def format_ordinal(number: int) -> str:
    """Return a number with the ending of its ordinal."""
    ending = "th" if number % 100 in _TEENS else _ENDINGS.get(number % 10, "th")
    return f"{number:,}{ending}"
