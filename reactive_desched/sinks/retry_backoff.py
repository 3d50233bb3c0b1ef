"""Backs off from a failing sink, and logs the outage at a bounded rate."""

from collections.abc import Callable
from random import Random
from typing import Final

import anyio

from reactive_desched.telemetry.logs import Logger

INITIAL_WAIT_S: Final = 0.2
MAX_WAIT_S: Final = 30.0
MAX_RETRY_AFTER_S: Final = 3600.0
"""The longest Retry-After that is obeyed."""
LOG_EVERY_S: Final = 60.0
_MIN_LOG_INTERVAL_S: Final = 0.5


class RetryBackoff:
    """Waits drawn from [d, 2d) while d doubles from 0.2 s; at most 30 s, or what was asked for.

    `current_error` is the last error, and empty when there is none. The log has it when the outage
    begins, when the error changes, each time the outage has lasted twice as long, once a minute,
    and when it is over.
    """

    def __init__(self, sink: str, rng: Random, clock: Callable[[], float], log: Logger) -> None:
        self.current_error = ""
        self._sink = sink
        self._rng = rng
        self._clock = clock
        self._log = log
        self._since = 0.0
        self._failures = 0
        self._logged_at = 0.0
        self._logged_error = ""

    async def wait(self, error: str, retry_after_s: float | None = None) -> None:
        """Count a failure, log it when that is due, and wait."""
        now = self._clock()
        if not self._failures:
            self._since = now
        self._failures += 1
        self.current_error = error
        if self._log_is_due(now):
            self._log_failure(now)
        await anyio.sleep(self._wait_s(retry_after_s))

    def recovered(self) -> None:
        """Note that something worked."""
        if self._failures:
            lasted_s = round(self._clock() - self._since, 1)
            self._log.info(
                "the sink is available again",
                sink=self._sink,
                after_s=lasted_s,
                attempts=self._failures,
            )
        self._failures = 0
        self.current_error = ""

    def _log_is_due(self, now: float) -> bool:
        if self._failures == 1 or self.current_error != self._logged_error:
            return True
        logged_after_s = max(self._logged_at - self._since, _MIN_LOG_INTERVAL_S)
        return now - self._since >= 2 * logged_after_s or now - self._logged_at >= LOG_EVERY_S

    def _log_failure(self, now: float) -> None:
        self._logged_at, self._logged_error = now, self.current_error
        self._log.warning(
            "the sink is unavailable",
            sink=self._sink,
            message=self.current_error,
            for_s=round(now - self._since, 1),
            attempts=self._failures,
        )

    def _wait_s(self, retry_after_s: float | None) -> float:
        base_s = min(INITIAL_WAIT_S * 2.0 ** min(self._failures - 1, 16), MAX_WAIT_S / 2)
        own_s = base_s * (1.0 + self._rng.random())
        return own_s if retry_after_s is None else max(own_s, min(retry_after_s, MAX_RETRY_AFTER_S))
