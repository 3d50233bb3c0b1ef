"""Where a reader of the journal begins, as flags and reconnecting clients write it."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, NamedTuple

from reactive_desched.errors import ConfigError, RecordsExpired
from reactive_desched.primitives.durations import DurationError, parse_duration

OLDEST: Final = "oldest"
NOW: Final = "now"

_AFTER: Final = re.compile(r"(?:([A-Za-z0-9_-]{1,128})\.)?([0-9]{1,20})", re.ASCII)
_TIME: Final = re.compile(
    r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_MAX_QUOTED_CHARS: Final = 60
START_FORMATS_HELP: Final = (
    "a sequence, an id of the stream, oldest, now, a day such as 2026-05-01 (UTC), an RFC 3339"
    " time such as 2026-05-01T12:00:00Z, or how long ago in h, m or s, such as 72h or 10m"
)
"""What a start can be, for messages and help."""


class AfterSequence(NamedTuple):
    """Behind the record with this sequence; `epoch` names the journal, if it was said."""

    seq: int
    epoch: str = ""


class SinceTime(NamedTuple):
    """With the first record written at this moment or later."""

    moment: datetime


Start = AfterSequence | SinceTime | Literal["oldest", "now"]


def parse_start(text: str, now: datetime) -> Start:
    """Read where to begin; a day is its start in UTC. Raises ConfigError with all ways."""
    if text in (OLDEST, NOW):
        return "oldest" if text == OLDEST else "now"
    if (after := parse_id(text)) is not None:
        return after
    try:
        return SinceTime(_parse_moment(text, now))
    except (DurationError, ValueError, OverflowError) as error:
        quoted = text if len(text) <= _MAX_QUOTED_CHARS else f"{text[:_MAX_QUOTED_CHARS]}…"
        raise ConfigError(
            f"{quoted!r} is no place to begin from: write {START_FORMATS_HELP}"
        ) from error


def validate_position(position: AfterSequence, epoch: str, oldest_seq: int, last_seq: int) -> int:
    """Return the sequence of a place in this journal; raises RecordsGone if it is not there."""
    if position.epoch and position.epoch != epoch:
        raise RecordsExpired("that is an id of another journal", oldest_seq)
    if position.seq > last_seq:
        raise RecordsExpired(f"there is no record {position.seq} yet", oldest_seq)
    if position.seq + 1 < oldest_seq:
        raise RecordsExpired(f"record {position.seq + 1} was removed", oldest_seq)
    return position.seq


def parse_id(text: str) -> AfterSequence | None:
    """Read an id of the stream, or a bare sequence; None when it is neither."""
    match = _AFTER.fullmatch(text)
    return None if match is None else AfterSequence(int(match[2]), match[1] or "")


def format_id(epoch: str, seq: int) -> str:
    """Return the id of the record at this place: what the stream says, and takes back."""
    return f"{epoch}.{seq}"


def _parse_moment(text: str, now: datetime) -> datetime:
    if _DAY.fullmatch(text):
        text = f"{text}T00:00:00Z"
    if _TIME.fullmatch(text):
        return datetime.fromisoformat(text.upper()).astimezone(UTC)
    return now - timedelta(seconds=max(0.0, parse_duration(text)))
