"""What a person wants to know of the record, read from the words of the command line."""

from datetime import datetime

from reactive_desched.audit.lookup import RecordQuery
from reactive_desched.audit.rows import micros
from reactive_desched.errors import ConfigError
from reactive_desched.journal.summary import EventFilter
from reactive_desched.primitives.hints import quote
from reactive_desched.primitives.moments import MOMENT_FORMATS_HELP, parse_moment


def parse_query(event_filter: EventFilter, since: str, until: str, now: datetime) -> RecordQuery:
    """Return what is asked for; an empty text sets no bound. Raises ConfigError."""
    first, last = _bound("--since", since, now), _bound("--until", until, now)
    if first is not None and last is not None and first >= last:
        raise ConfigError(
            f"--until {until} is not later than --since {since}: write a later --until"
        )
    return RecordQuery(filter=event_filter, since=first, until=last)


def parse_flag_moment(flag: str, text: str, now: datetime) -> datetime:
    """Return the moment that a flag was given; raises ConfigError naming the flag."""
    try:
        return parse_moment(text, now)
    except (ValueError, OverflowError) as error:
        raise ConfigError(
            f"{flag} {quote(text)} is not a time: write {MOMENT_FORMATS_HELP}"
        ) from error


def _bound(flag: str, text: str, now: datetime) -> int | None:
    """Return a moment in microseconds since 1970; None for an empty text."""
    return micros(parse_flag_moment(flag, text, now).isoformat()) if text else None
