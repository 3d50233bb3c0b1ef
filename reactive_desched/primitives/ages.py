"""How long something has lasted, in the words a person would use."""

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
