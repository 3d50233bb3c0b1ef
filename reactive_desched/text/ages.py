"""Durations in the words a person would use: of time that passed, and of time that is left."""

from datetime import datetime, timedelta
from typing import Final

from reactive_desched.text.counts import NO_FIGURE

_UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
_MS_IN_S: Final = 1000
_S_IN_MIN: Final = 60
_USUAL_WAIT_S: Final = 30.0
_LONG_UNITS: Final = (("d", 86_400, "h", 3_600), ("h", 3_600, "min", 60), ("min", 60, "s", 1))


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


def age_of(time: str, now: datetime) -> str:
    """Write how long ago a time was that an answer holds, as kubectl writes ages."""
    return format_span(now - datetime.fromisoformat(time))


def time_until(time: str, now: datetime) -> str:
    """Write how long it is until a time that an answer holds, as kubectl writes ages."""
    return format_span(datetime.fromisoformat(time) - now)


def format_left(left_s: float) -> str:
    """Say in how many seconds something comes, to the second: in 4m 51s, now."""
    seconds = round(left_s)
    return f"in {format_age(seconds)}" if seconds > 0 else "now"


def left_until(time: str, now: datetime) -> str:
    """Say when a time comes that an answer holds, as `format_left` does."""
    return format_left((datetime.fromisoformat(time) - now).total_seconds())


def describe_asked_wait(asked_s: float | None, at_most_s: float) -> str:
    """Say in how long a server is asked again that asks to wait longer than we do by ourselves.

    Empty for a wait of half a minute or less, and for none.
    """
    if asked_s is None or asked_s <= _USUAL_WAIT_S:
        return ""
    if asked_s <= at_most_s:
        return f"; asked again after {format_age(asked_s)}, as the server wants"
    wants = format_age(asked_s)
    return f"; asked again after {format_age(at_most_s)}, though the server wants {wants}"


def format_duration(seconds: float) -> str:
    """Write a duration in two units at most: 12 ms, 4.2 s, 3 min 20 s, 2 d."""
    if seconds < 1:
        return f"{seconds * _MS_IN_S:.0f} ms"
    if seconds < _S_IN_MIN:
        return f"{seconds:.1f} s"
    for unit, size, smaller, part in _LONG_UNITS:
        if seconds >= size:
            count, rest = divmod(int(seconds), size)
            return f"{count} {unit} {rest // part} {smaller}" if rest // part else f"{count} {unit}"
    return ""


def format_ms(ms: int | None) -> str:
    """Write milliseconds as `format_duration` does, whole seconds as such; a dash for none."""
    return NO_FIGURE if ms is None else format_duration(ms / _MS_IN_S).replace(".0 s", " s")
