"""How long something has lasted, in the words a person would use."""

from datetime import timedelta
from typing import Final

_UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def format_age(seconds: float) -> str:
    """Write a time with the two largest units it has: 3d 4h, 10m 1s, 2d; 0s below a second."""
    parts = []
    rest = max(0, int(seconds))
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2]) or "0s"


def format_span(span: timedelta) -> str:
    """Write a time span as kubectl writes ages."""
    seconds = max(0, round(span.total_seconds()))
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
