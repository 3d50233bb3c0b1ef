"""How long a failing sink is left alone, and how often that is told: never a flood."""

from collections.abc import Callable
from random import Random
from typing import Final

import anyio

from reactive_desched.telemetry.logs import Log

FIRST_S: Final = 0.2
LONGEST_S: Final = 30.0
LONGEST_ASKED_S: Final = 3600.0
"""Whoever asks us to come back later than this is asked again after this."""
TELL_EVERY_S: Final = 60.0
_SOONEST_TOLD_S: Final = 0.5


class Outage:
    """Waits drawn from [d, 2d) while d doubles from 0.2 s; at most 30 s, or what was asked for.

    `trouble` says what is wrong, and is empty when nothing is. It is logged when it begins, when it
    becomes another, each time that it has lasted twice as long, once a minute, and when it is over.
    """

    def __init__(self, sink: str, rng: Random, clock: Callable[[], float], log: Log) -> None:
        self.trouble = ""
        self._sink = sink
        self._rng = rng
        self._clock = clock
        self._log = log
        self._since = 0.0
        self._failures = 0
        self._told_at = 0.0
        self._told = ""

    async def pause(self, reason: str, retry_after_s: float | None = None) -> None:
        """Count a failure, tell of it when that is due, and wait."""
        now = self._clock()
        if not self._failures:
            self._since = now
        self._failures += 1
        self.trouble = reason
        if self._is_due(now):
            self._tell(now)
        await anyio.sleep(self._wait_s(retry_after_s))

    def over(self) -> None:
        """Note that something worked."""
        if self._failures:
            lasted_s = round(self._clock() - self._since, 1)
            self._log.info(
                "sink is back", sink=self._sink, after_s=lasted_s, attempts=self._failures
            )
        self._failures = 0
        self.trouble = ""

    def _is_due(self, now: float) -> bool:
        if self._failures == 1 or self.trouble != self._told:
            return True
        told_after_s = max(self._told_at - self._since, _SOONEST_TOLD_S)
        return now - self._since >= 2 * told_after_s or now - self._told_at >= TELL_EVERY_S

    def _tell(self, now: float) -> None:
        self._told_at, self._told = now, self.trouble
        self._log.warning(
            "sink is unavailable",
            sink=self._sink,
            reason=self.trouble,
            for_s=round(now - self._since, 1),
            attempts=self._failures,
        )

    def _wait_s(self, asked_s: float | None) -> float:
        base_s = min(FIRST_S * 2.0 ** min(self._failures - 1, 16), LONGEST_S / 2)
        own_s = base_s * (1.0 + self._rng.random())
        return own_s if asked_s is None else max(own_s, min(asked_s, LONGEST_ASKED_S))
