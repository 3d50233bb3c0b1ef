"""Parses where a reader of the journal begins, as flags and reconnecting clients write it."""

import re
from datetime import datetime
from typing import Final, Literal, NamedTuple

from reactive_desched.errors import ConfigError, RecordsExpired
from reactive_desched.primitives.hints import quote
from reactive_desched.primitives.timestamps import TIMESTAMP_FORMATS_HELP, parse_timestamp

OLDEST: Final = "oldest"
NOW: Final = "now"

_AFTER: Final = re.compile(r"(?:([A-Za-z0-9_-]{1,128})\.)?([0-9]{1,20})", re.ASCII)
START_FORMATS_HELP: Final = (
    f"a sequence, an id of the stream, oldest, now, {TIMESTAMP_FORMATS_HELP}"
)
"""What a start can be, for messages and help."""


class AfterSequence(NamedTuple):
    """After the record with this sequence; `epoch` names the journal, if it was given."""

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
        return SinceTime(parse_timestamp(text, now))
    except (ValueError, OverflowError) as error:
        raise ConfigError(
            f"{quote(text)} is not a place to begin from: write {START_FORMATS_HELP}"
        ) from error


def validate_position(position: AfterSequence, epoch: str, oldest_seq: int, last_seq: int) -> int:
    """Return the sequence of a place in this journal; raises RecordsExpired if it is not there."""
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
