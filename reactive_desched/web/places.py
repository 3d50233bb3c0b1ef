"""Where somebody begins to read events: over HTTP and from a folder the same words mean the same.

A place that is not there is told, and reading goes on with the oldest record there is.
"""

import re
from datetime import datetime
from typing import Final

from reactive_desched.errors import ConfigError, RecordsGone
from reactive_desched.journal.start import After, Start, parse_start

HOW: Final = (
    "a sequence, an id of the stream, oldest, now, a day such as 2026-05-01 (UTC), an RFC 3339"
    " time such as 2026-05-01T12:00:00Z, or how long ago in h, m or s, such as 72h or 10m"
)
"""What a place can be, for messages."""

_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_LONGEST_SAID: Final = 60


def parse_place(text: str, now: datetime) -> Start:
    """Read where to begin; a day is its start in UTC. Raises ConfigError with all ways."""
    try:
        return parse_start(f"{text}T00:00:00Z" if _DAY.fullmatch(text) else text, now)
    except ConfigError as error:
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
