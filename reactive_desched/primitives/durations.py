"""Durations as Go writes them, as policy files do, with days and weeks: `90s`, `1h30m`, `7d`."""

import re
from fractions import Fraction
from typing import Final

_PART_TEXT: Final = r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h|d|w)"
_PART: Final = re.compile(_PART_TEXT)
_DURATION: Final = re.compile(rf"([-+]?)((?:{_PART_TEXT})+|0)")
DURATION_PATTERN: Final = (
    r"^([+-]?0|\+?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h|d|w))+"
    r"|-((0+(\.0*)?|\.0+)(ns|us|µs|μs|ms|s|m|h|d|w))+)$"
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
    "d": 24 * 3600 * 10**9,
    "w": 7 * 24 * 3600 * 10**9,
}
_MAX_NS: Final = 2**63 - 1
_MAX_TEXT_CHARS: Final = 64
_BARE_NUMBER: Final = r"[0-9]+(\.[0-9]+)?"
_UNIT_OF_WORD: Final = {
    "s": "s",
    "sec": "s",
    "second": "s",
    "min": "m",
    "minute": "m",
    "m": "m",
    "h": "h",
    "hr": "h",
    "hour": "h",
    "d": "d",
    "day": "d",
    "w": "w",
    "wk": "w",
    "week": "w",
}
_WORD: Final = rf"(?:{'|'.join(sorted(_UNIT_OF_WORD, key=len, reverse=True))})s?"
_WORDED_PART: Final = rf"([0-9]+(?:\.[0-9]+)?) *({_WORD})\b"
_MONTHS_OR_MINUTES: Final = r"[0-9] *Ms?\b"
_IN_WORDS: Final = rf"(?:{_WORDED_PART}(?:,? *(?:and )?)?)+"
_LONG_UNIT: Final = r"[0-9]+ ?(y|yr|years?|mo|months?)"


class DurationError(ValueError):
    """A text is not a duration; `hint` shows how to write one.

    `accepted` is the same duration as it must be written, where the text says which.
    """

    def __init__(self, message: str, hint: str, accepted: str = "") -> None:
        self.hint = hint
        self.accepted = accepted
        super().__init__(message)


def parse_duration(text: str) -> float:
    """Return the seconds of a duration text, a day being 24 hours; raises DurationError."""
    written = _DURATION.fullmatch(text) if len(text) <= _MAX_TEXT_CHARS else None
    if written is None:
        accepted = _from_words(text[:_MAX_TEXT_CHARS])
        raise DurationError("is not a duration", _format_hint(text, accepted), accepted)
    nanoseconds = sum(
        int(Fraction(number.rstrip(".")) * _NANOSECONDS[unit])
        for number, unit in _PART.findall(written[2])
    )
    if nanoseconds > _MAX_NS:
        raise DurationError("is too long a duration", "the longest is 2562047h, about 292 years")
    return (-nanoseconds if written[1] == "-" else nanoseconds) / 10**9


def _from_words(text: str) -> str:
    """Return a duration in words, such as `1 hour 30 min`, with its units; else nothing."""
    folded = text.casefold().strip()
    if not re.fullmatch(_IN_WORDS, folded) or re.search(_MONTHS_OR_MINUTES, text):
        return ""
    return "".join(
        f"{number}{_UNIT_OF_WORD[word.removesuffix('s') or 's']}"
        for number, word in re.findall(_WORDED_PART, folded)
    )


def _format_hint(text: str, accepted: str) -> str:
    """Suggest what a malformed duration may stand for."""
    if accepted:
        return f"write {accepted}"
    if re.fullmatch(_LONG_UNIT, text[:_MAX_TEXT_CHARS]):
        return "the longest units are w and d: write a year as 365d, a month as 30d"
    if re.fullmatch(_BARE_NUMBER, text[:_MAX_TEXT_CHARS]):
        return f"a unit is missing: write {text}s for seconds"
    return 'write numbers with units w, d, h, m, s or ms, for example "90s", "1h30m" or "7d"'


def write_duration(seconds: float) -> str:
    """Return so many seconds as Go and `parse_duration` read them, to the millisecond."""
    return f"{seconds:.3f}".rstrip("0").rstrip(".") + "s"
