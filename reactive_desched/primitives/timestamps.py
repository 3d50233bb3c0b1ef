"""Reads a moment in UTC as flags and addresses write it."""

from datetime import UTC, datetime, timedelta
from typing import Final

from reactive_desched.primitives.durations import parse_duration

TIMESTAMP_FORMATS_HELP: Final = (
    "an RFC 3339 time such as 2026-05-01T12:00:00Z, a day such as 2026-05-01 (UTC), or how long ago"
    " such as 10m, 72h or 7d"
)
"""How a moment is written, for messages and help."""


def parse_timestamp(text: str, now: datetime) -> datetime:
    """Return a moment in UTC; a time without an offset is UTC, a day is its beginning.

    A duration is how long before `now`. Raises ValueError or OverflowError for a text that is none.
    """
    if "-" in text[1:]:
        found = datetime.fromisoformat(text.upper())
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    if (ago_s := parse_duration(text)) < 0:
        raise ValueError(text)
    return now - timedelta(seconds=ago_s)
