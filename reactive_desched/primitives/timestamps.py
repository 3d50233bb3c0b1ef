"""Reads a moment in UTC as flags and addresses write it."""

from datetime import UTC, datetime, timedelta
from typing import Final

from reactive_desched.errors import ConfigError
from reactive_desched.primitives.durations import parse_duration
from reactive_desched.primitives.hints import quote

TIMESTAMP_FORMATS_HELP: Final = (
    "an RFC 3339 time such as 2026-05-01T12:00:00Z, a day such as 2026-05-01 (UTC), or how long ago"
    " such as 10m, 2h ago or 7d"
)
"""How a moment is written, for messages and help."""

_AGO: Final = "ago"


def parse_timestamp(text: str, now: datetime) -> datetime:
    """Return a moment in UTC; a time without an offset is UTC, a day is its beginning.

    A duration, with or without the word ago, is how long before `now`. Raises ValueError or
    OverflowError for a text that is none.
    """
    if "-" in text[1:]:
        found = datetime.fromisoformat(text.upper())
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    if (ago_s := parse_duration(text.removesuffix(_AGO).rstrip())) < 0:
        raise ValueError(text)
    return now - timedelta(seconds=ago_s)


def parse_flag_moment(flag: str, text: str, now: datetime) -> datetime:
    """Return the moment that a flag was given; raises ConfigError naming the flag."""
    try:
        return parse_timestamp(text, now)
    except (ValueError, OverflowError) as error:
        raise ConfigError(
            f"{flag} {quote(text)} is not a time: write {TIMESTAMP_FORMATS_HELP}"
        ) from error
