"""Durations as Go writes them, because policy files do: `90s`, `1h30m`, `1.5s`."""

import re
from fractions import Fraction
from typing import Final

_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_DURATION: Final = re.compile(rf"([-+]?)((?:{_PART.pattern})+|0)")
DURATION_PATTERN: Final = (
    r"^([+-]?0|\+?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+"
    r"|-((0+(\.0*)?|\.0+)(ns|us|µs|μs|ms|s|m|h))+)$"
)
"""Durations of zero or more, for JSON Schema; it does not exclude those that are too long."""

_NANOSECONDS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_MAX_NS: Final = 2**63 - 1
_MAX_TEXT_CHARS: Final = 64
_DAYS: Final = re.compile(r"([0-9]+)([dw])")
_BARE_NUMBER: Final = re.compile(r"[0-9]+(\.[0-9]+)?")
_HOURS: Final = {"d": 24, "w": 168}


class DurationError(ValueError):
    """A text is not a duration; `hint` shows how to write one."""

    def __init__(self, message: str, hint: str) -> None:
        self.hint = hint
        super().__init__(message)


def parse_duration(text: str) -> float:
    """Return the seconds of a Go duration text; raises DurationError."""
    written = _DURATION.fullmatch(text) if len(text) <= _MAX_TEXT_CHARS else None
    if written is None:
        raise DurationError("is not a duration", _format_hint(text))
    nanoseconds = sum(
        int(Fraction(number.rstrip(".")) * _NANOSECONDS[unit])
        for number, unit in _PART.findall(written[2])
    )
    if nanoseconds > _MAX_NS:
        raise DurationError("is too long a duration", "the longest is 2562047h, about 292 years")
    return (-nanoseconds if written[1] == "-" else nanoseconds) / 10**9


def _format_hint(text: str) -> str:
    """Suggest what a malformed duration may stand for."""
    if days := _DAYS.fullmatch(text[:_MAX_TEXT_CHARS]):
        return f"days and weeks have no unit: write {int(days[1]) * _HOURS[days[2]]}h"
    if _BARE_NUMBER.fullmatch(text[:_MAX_TEXT_CHARS]):
        return f"a unit is missing: write {text}s for seconds"
    return 'write numbers with units h, m, s or ms, for example "90s" or "1h30m"'
