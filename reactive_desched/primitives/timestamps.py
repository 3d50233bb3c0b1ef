"""A moment in UTC: read as flags and addresses write it, and written as the API does."""

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


def utc_time(epoch_s: float) -> datetime:
    """Return the moment so many seconds after 1970, to the millisecond."""
    return datetime.fromtimestamp(round(epoch_s, 3), UTC)


def format_timestamp(moment: datetime) -> str:
    """Write a moment as RFC 3339 in UTC, with what fraction of a second it has."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def format_time_of_day(epoch_s: float) -> str:
    """Write the time of day in UTC of a moment, in seconds since 1970, to the nearest second."""
    return datetime.fromtimestamp(round(epoch_s), UTC).strftime("%H:%M:%S")


def format_second(epoch_s: float) -> str:
    """Write a moment, in seconds since 1970, as RFC 3339 in UTC; a fraction is cut off."""
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_time(time: datetime) -> str:
    """Write a time in UTC with milliseconds, as lists for people have it."""
    return time.astimezone(UTC).isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00")
