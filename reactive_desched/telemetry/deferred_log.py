"""Writes log lines later: an eviction must not wait for the lines about it."""

from collections import deque
from collections.abc import Callable
from typing import Any

import anyio

from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.telemetry.logs import DebugLogger, format_timestamp

MAX_LINES = 10_000
WRITE_DELAY_S = 0.02
"""The pause before each batch of lines: the eviction that a line reports goes first, and a line
costs a quarter in a batch of what it costs alone."""
IDLE_PAUSES = 5
"""After so many pauses without a line the next line has to wake the writer."""
MIN_BATCH_LINES, BATCH_SHARE = 10, 50
"""A batch has so many lines, and one in so many of the lines that wait."""


class DeferredLogger:
    """Takes lines at once and writes them soon, in order, a few at a time.

    A line has the time at which it was taken, by `clock`: the time of day in seconds since 1970.
    Holds 10,000 lines; when full, new ones are dropped and counted, and the count is logged.
    """

    def __init__(self, log: DebugLogger, clock: Callable[[], float]) -> None:
        self._log = log
        self._clock = clock
        self._lines: deque[tuple[str, str, float, dict[str, Any]]] = deque()
        self._dropped = 0
        self._has_lines = Wakeup()

    def debug(self, event: str, **values: Any) -> None:  # structlog takes values of any type
        """Queue a line at level debug."""
        self._enqueue("debug", event, values)

    def info(self, event: str, **values: Any) -> None:  # as above
        """Queue a line at level info."""
        self._enqueue("info", event, values)

    def warning(self, event: str, **values: Any) -> None:  # as above
        """Queue a line at level warning."""
        self._enqueue("warning", event, values)

    async def run(self) -> None:
        """Write lines as they come; when cancelled, write what is left."""
        try:
            while True:
                while not self._lines:
                    await self._has_lines.wait()
                pauses_left = IDLE_PAUSES
                while pauses_left:
                    await anyio.sleep(WRITE_DELAY_S)
                    pauses_left = IDLE_PAUSES if self._lines else pauses_left - 1
                    self._write_batch(MIN_BATCH_LINES + len(self._lines) // BATCH_SHARE)
        finally:
            self._write_batch(MAX_LINES)

    def _enqueue(self, level: str, event: str, values: dict[str, Any]) -> None:
        if len(self._lines) >= MAX_LINES:
            self._dropped += 1
            return
        self._lines.append((level, event, self._clock(), values))
        self._has_lines.notify()

    def _write_batch(self, limit: int) -> None:
        for _ in range(min(limit, len(self._lines))):
            level, event, logged_at, values = self._lines.popleft()
            getattr(self._log, level)(event, timestamp=format_timestamp(logged_at), **values)
        if self._dropped:
            self._log.warning("dropped log lines", lines=self._dropped)
            self._dropped = 0
