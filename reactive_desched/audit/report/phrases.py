"""Counts, shares and times in words, as sentences and cells of a report have them."""

from typing import Final

from reactive_desched.primitives.ages import format_duration

_MS_IN_S: Final = 1000
_ALL: Final = 100
_HOURS: Final = 24

NONE: Final = "\N{EN DASH}"
"""What stands where there is no figure."""


def minute(moment: str) -> str:
    """Return an RFC 3339 moment to the minute; what is none stays as it is."""
    return f"{moment[:10]} {moment[11:16]}" if moment[10:11] == "T" else moment


def bar_span(hours: int) -> str:
    """Return the length of a bar, such as day."""
    if hours == 1:
        return "hour"
    if hours < _HOURS:
        return f"{hours} hours"
    days, weeks = hours // _HOURS, hours // (7 * _HOURS)
    if days == 1:
        return "day"
    return "week" if weeks == 1 else f"{weeks} weeks"


def span(ms: int | None) -> str:
    """Return a time in words, such as 4.2 s; a dash for none."""
    return NONE if ms is None else format_duration(ms / _MS_IN_S).replace(".0 s", " s")


def was(count: int) -> str:
    """Return the verb for so many."""
    return "was" if count == 1 else "were"


def times(count: int) -> str:
    """Say how often."""
    return "once" if count == 1 else f"{count:,} times"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural unless it is one."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def share(part: int, whole: int) -> str:
    """Return a share in whole percent; 0 and 100 only where it is just that."""
    if not whole:
        return NONE
    percent = (200 * part + whole) // (2 * whole)
    if part and not percent:
        return "under 1 %"
    if part < whole and percent == _ALL:
        return "over 99 %"
    return f"{percent} %"
