"""The time of day as the journal's keeper uses it: its doubts are told, and outlive a restart."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from reactive_desched.journal import durable
from reactive_desched.journal.upkeep.clock_drift import Course, Reading, SteadyClock
from reactive_desched.primitives.decode_errors import UNDECODABLE
from reactive_desched.telemetry.logs import Log

NOTE_EVERY_S: Final = 600.0
"""How often its course is kept for the next process; a crash costs it no more than that."""

JUMPED: Final = "the clock jumped: files of the journal go by size alone until it held for a day"
ASTRAY: Final = "the clock is not where it was left: files go by size alone until it held for a day"
STEADY: Final = "the clock has held its course for a day: files of the journal go by age again"
REMEDY: Final = "have the machine's clock kept right (NTP); after a sleep there is nothing to do"

_FILE: Final = "clock.json"
_decoder: Final = msgspec.json.Decoder(Course)


class BelievedClock:
    """A clock with a memory in the journal's folder.

    A fresh folder, or one whose file is lost or damaged, begins in doubt.
    """

    def __init__(
        self,
        directory: Path,
        wall: Callable[[], float],
        monotonic: Callable[[], float],
        log: Log,
    ) -> None:
        """Begin in doubt; `resume` may end it. Both clocks give seconds."""
        self._file = directory / _FILE
        self._clock = SteadyClock(wall, monotonic)
        self._monotonic = monotonic
        self._log = log
        self._noted_at = -math.inf
        self._has_warned = False

    def resume(self) -> None:
        """Go on believing, or doubting, where the last process ended; blocks."""
        course = _read(self._file)
        if course is not None and (away_s := self._clock.resume(course)):
            self._log.info(ASTRAY, away_s=round(away_s))

    def note(self) -> None:
        """Keep its course every so often; blocks, and raises OSError."""
        if self._monotonic() - self._noted_at >= NOTE_EVERY_S:
            durable.replace(self._file, msgspec.json.encode(self._clock.course))
            self._noted_at = self._monotonic()

    def read(self) -> Reading:
        """Read the time of day; warn of the first jump, and tell when it is believed again."""
        reading = self._clock.look()
        if reading.jump_s and not self._has_warned:
            self._has_warned = True
            self._log.warning(JUMPED, jump_s=round(reading.jump_s), remedy=REMEDY)
        elif reading.is_believed and self._has_warned:
            self._has_warned = False
            self._log.info(STEADY)
        return reading


def _read(file: Path) -> Course | None:
    try:
        return _decoder.decode(file.read_bytes())
    except (OSError, *UNDECODABLE):
        return None
