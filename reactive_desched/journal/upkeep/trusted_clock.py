"""The time of day as the journal's keeper uses it: its doubts are told, and outlive a restart."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from reactive_desched.journal import durable
from reactive_desched.journal.upkeep.clock_drift import ClockDriftMonitor, ClockReading, ClockState
from reactive_desched.primitives.decode_errors import DECODE_ERRORS
from reactive_desched.telemetry.logs import Logger

SAVE_EVERY_S: Final = 600.0
"""How often its course is kept for the next process; a crash costs it no more than that."""

JUMPED: Final = "the clock jumped: files of the journal go by size alone until it held for a day"
MOVED_WHILE_DOWN: Final = (
    "the clock is not where it was left: files go by size alone until it held for a day"
)
TRUSTED_AGAIN: Final = (
    "the clock has held its course for a day: files of the journal go by age again"
)
REMEDY: Final = "have the machine's clock kept right (NTP); after a sleep there is nothing to do"

_FILE: Final = "clock.json"
_decoder: Final = msgspec.json.Decoder(ClockState)


class TrustedClock:
    """A clock with a memory in the journal's folder.

    A fresh folder, or one whose file is lost or damaged, begins in doubt.
    """

    def __init__(
        self,
        directory: Path,
        wall: Callable[[], float],
        monotonic: Callable[[], float],
        log: Logger,
    ) -> None:
        """Begin in doubt; `resume` may end it. Both clocks give seconds."""
        self._file = directory / _FILE
        self._drift_monitor = ClockDriftMonitor(wall, monotonic)
        self._monotonic = monotonic
        self._log = log
        self._saved_at = -math.inf
        self._has_warned = False

    def resume(self) -> None:
        """Go on believing, or doubting, where the last process ended; blocks."""
        state = _read_state(self._file)
        if state is not None and (offset_s := self._drift_monitor.resume(state)):
            self._log.info(MOVED_WHILE_DOWN, away_s=round(offset_s))

    def save(self) -> None:
        """Keep its course every so often; blocks, and raises OSError."""
        if self._monotonic() - self._saved_at >= SAVE_EVERY_S:
            durable.replace(self._file, msgspec.json.encode(self._drift_monitor.state))
            self._saved_at = self._monotonic()

    def read(self) -> ClockReading:
        """Read the time of day; warn of the first jump, and tell when it is believed again."""
        reading = self._drift_monitor.read()
        if reading.jump_s and not self._has_warned:
            self._has_warned = True
            self._log.warning(JUMPED, jump_s=round(reading.jump_s), remedy=REMEDY)
        elif reading.is_trusted and self._has_warned:
            self._has_warned = False
            self._log.info(TRUSTED_AGAIN)
        return reading


def _read_state(file: Path) -> ClockState | None:
    try:
        return _decoder.decode(file.read_bytes())
    except (OSError, *DECODE_ERRORS):
        return None
