"""Parses the arguments of a query of the record."""

from datetime import datetime
from typing import Final

from reactive_desched.audit.lookup import RecordQuery
from reactive_desched.audit.rows import micros
from reactive_desched.errors import ConfigError
from reactive_desched.journal.summary import EventFilter
from reactive_desched.primitives.timestamps import parse_flag_moment

_DEFAULT_PERIOD_US: Final = 7 * 86_400 * 1_000_000


def parse_query(event_filter: EventFilter, since: str, until: str, now: datetime) -> RecordQuery:
    """Return what is asked for; an empty text sets no bound. Raises ConfigError."""
    first, last = _bound("--since", since, now), _bound("--until", until, now)
    if first is not None and last is not None and first >= last:
        raise ConfigError(
            f"--until {until} is not later than --since {since}: write a later --until"
        )
    return RecordQuery(filter=event_filter, since=first, until=last)


def parse_period(event_filter: EventFilter, since: str, until: str, now: datetime) -> RecordQuery:
    """Return the same with both bounds: until now, and from seven days before; raises ConfigError.

    What is later than now has not happened, whatever its time says.
    """
    found = parse_query(event_filter, since, until, now)
    last = micros(now.isoformat()) if found.until is None else found.until
    first = last - _DEFAULT_PERIOD_US if found.since is None else found.since
    if first >= last:
        raise ConfigError(f"--since {since} is not in the past: write an earlier --since")
    return RecordQuery(filter=found.filter, since=first, until=last)


def _bound(flag: str, text: str, now: datetime) -> int | None:
    """Return a moment in microseconds since 1970; None for an empty text."""
    return micros(parse_flag_moment(flag, text, now).isoformat()) if text else None
