"""What a person wants to know of the record, read from the words of the command line."""

from datetime import UTC, datetime, timedelta

from reactive_desched.audit.lookup import RecordQuery
from reactive_desched.audit.rows import micros
from reactive_desched.errors import ConfigError
from reactive_desched.journal.summary import EventFilter
from reactive_desched.primitives.durations import parse_duration

TIME_FORMATS_HELP: str = (
    "write an RFC 3339 time such as 2026-05-01T12:00:00Z, a day such as 2026-05-01 (UTC), or how"
    " long ago in h, m or s, such as 72h or 10m"
)
"""How a moment is written."""


def parse_query(event_filter: EventFilter, since: str, until: str, now: datetime) -> RecordQuery:
    """Return what is asked for; an empty text sets no bound. Raises ConfigError."""
    first, last = _parse_moment("--since", since, now), _parse_moment("--until", until, now)
    if first is not None and last is not None and first >= last:
        raise ConfigError(f"--until {until} is not later than --since {since}: nothing is between")
    return RecordQuery(filter=event_filter, since=first, until=last)


def _parse_moment(flag: str, text: str, now: datetime) -> int | None:
    """Return a moment in microseconds since 1970."""
    if not text:
        return None
    try:
        found = _day_or_time(text) if "-" in text[1:] else _ago(text, now)
    except (ValueError, OverflowError) as error:
        raise ConfigError(f"{flag} {text!r} is no time: {TIME_FORMATS_HELP}") from error
    return micros(found.isoformat())


def _day_or_time(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _ago(text: str, now: datetime) -> datetime:
    return now - timedelta(seconds=max(0.0, parse_duration(text)))
