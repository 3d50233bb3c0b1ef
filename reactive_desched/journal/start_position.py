"""Where somebody begins to read the journal, as people and reconnecting clients say it."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, NamedTuple

from reactive_desched.errors import ConfigError, RecordsGone
from reactive_desched.policy.durations import DurationError, parse_duration

OLDEST: Final = "oldest"
NOW: Final = "now"

_AFTER: Final = re.compile(r"(?:([A-Za-z0-9_-]{1,128})\.)?([0-9]{1,20})", re.ASCII)
_TIME: Final = re.compile(
    r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_LONGEST_SAID: Final = 60
HOW: Final = (
    "a sequence, an id of the stream, oldest, now, a day such as 2026-05-01 (UTC), an RFC 3339"
    " time such as 2026-05-01T12:00:00Z, or how long ago in h, m or s, such as 72h or 10m"
)
"""What a start can be, for messages and help."""


class After(NamedTuple):
    """Behind the record with this sequence; `epoch` names the journal, if it was said."""

    seq: int
    epoch: str = ""


class Since(NamedTuple):
    """With the first record written at this moment or later."""

    moment: datetime


Start = After | Since | Literal["oldest", "now"]


def parse_start(text: str, now: datetime) -> Start:
    """Read where to begin; a day is its start in UTC. Raises ConfigError with all ways."""
    if text in (OLDEST, NOW):
        return "oldest" if text == OLDEST else "now"
    if (after := parse_id(text)) is not None:
        return after
    try:
        return Since(_moment(text, now))
    except (DurationError, ValueError, OverflowError) as error:
        said = text if len(text) <= _LONGEST_SAID else f"{text[:_LONGEST_SAID]}…"
        raise ConfigError(f"{said!r} is no place to begin from: write {HOW}") from error


def checked(place: After, epoch: str, oldest: int, last: int) -> int:
    """Return the sequence of a place in this journal; raises RecordsGone if it is not there."""
    if place.epoch and place.epoch != epoch:
        raise RecordsGone("that is an id of another journal", oldest)
    if place.seq > last:
        raise RecordsGone(f"there is no record {place.seq} yet", oldest)
    if place.seq + 1 < oldest:
        raise RecordsGone(f"record {place.seq + 1} was removed", oldest)
    return place.seq


def parse_id(text: str) -> After | None:
    """Read an id of the stream, or a bare sequence; None when it is neither."""
    match = _AFTER.fullmatch(text)
    return None if match is None else After(int(match[2]), match[1] or "")


def written_id(epoch: str, seq: int) -> str:
    """Return the id of the record at this place: what the stream says, and takes back."""
    return f"{epoch}.{seq}"


def _moment(text: str, now: datetime) -> datetime:
    if _DAY.fullmatch(text):
        text = f"{text}T00:00:00Z"
    if _TIME.fullmatch(text):
        return datetime.fromisoformat(text.upper()).astimezone(UTC)
    return now - timedelta(seconds=max(0.0, parse_duration(text)))
