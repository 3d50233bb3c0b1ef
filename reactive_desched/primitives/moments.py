"""A moment as flags and addresses write it: a time, a day, or how long ago."""

from datetime import UTC, datetime, timedelta
from typing import Final

from reactive_desched.primitives.durations import parse_duration

MOMENT_FORMATS_HELP: Final = (
    "an RFC 3339 time such as 2026-05-01T12:00:00Z, a day such as 2026-05-01 (UTC), or how long ago"
    " such as 10m, 72h or 7d"
)
"""How a moment is written, for messages and help."""


def parse_moment(text: str, now: datetime) -> datetime:
    """Return a moment in UTC; a time without an offset is UTC, a day is its beginning.

    Raises ValueError or OverflowError for a text that is none.
    """
    if "-" in text[1:]:
        found = datetime.fromisoformat(text.upper())
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    return now - timedelta(seconds=max(0.0, parse_duration(text)))
