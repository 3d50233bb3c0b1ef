"""A logger that records its lines, for assertions: `RecordingLogger().values_of(event)`."""

from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["LogLine", "RecordingLogger"]


class LogLine(NamedTuple):
    """One line: how grave, what, with which values, and when."""

    level: str
    event: str
    values: dict[str, Any]
    at: float


class RecordingLogger:
    """Keeps every line in order; `clock` tells when, and without one it is always zero."""

    def __init__(self, clock: Callable[[], float] = lambda: 0.0) -> None:
        self.lines: list[LogLine] = []
        self._clock = clock

    def debug(self, event: str, **values: Any) -> None:  # as structlog takes them
        """Keep a line for those who look closely."""
        self.lines.append(LogLine("debug", event, values, self._clock()))

    def info(self, event: str, **values: Any) -> None:  # as structlog takes them
        """Keep a line."""
        self.lines.append(LogLine("info", event, values, self._clock()))

    def warning(self, event: str, **values: Any) -> None:  # as structlog takes them
        """Keep a line that should be looked at."""
        self.lines.append(LogLine("warning", event, values, self._clock()))

    def values_of(self, event: str) -> list[dict[str, Any]]:
        """Return the values of every line that says this."""
        return [line.values for line in self.lines if line.event == event]

    def times_of(self, event: str) -> list[float]:
        """Return when each line that says this was told."""
        return [line.at for line in self.lines if line.event == event]
