"""Limits aiokafka's log: it repeats itself every 0.1 s, and at debug it holds passwords."""

import logging
from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

from reactive_desched.telemetry.logs import Logger

LOG_EVERY_S: Final = 60.0
MAX_KINDS: Final = 100
_CONSEQUENCES: Final = ("Unable to update metadata from %s",)
"""Warnings that follow one which names the cause."""

_current_log: "ContextVar[KafkaLog | None]" = ContextVar("kafka_log", default=None)
"""The log of the sink whose task this is: aiokafka has one logger for all clients."""


class KafkaLog(logging.Handler):
    """Takes aiokafka's warnings while open; passes on each kind of them once a minute.

    Remembers 100 kinds; when there are more, it begins anew. What is below a warning goes nowhere:
    at debug level it logs whole requests, with passwords. `last_warning` is the latest
    warning that names a cause.
    """

    def __init__(self, log: Logger, clock: Callable[[], float], sink: str = "kafka") -> None:
        super().__init__(logging.WARNING)
        self.last_warning = ""
        self._log = log
        self._sink = sink
        self._clock = clock
        self._logged_at: dict[str, float] = {}
        self._logger = logging.getLogger("aiokafka")

    def open(self) -> None:
        """Take the warnings from now on, those of tasks that this one starts."""
        _current_log.set(self)
        self._logger.addHandler(self)
        self._logger.setLevel(logging.WARNING)
        self._logger.propagate = False

    def close(self) -> None:
        """Leave aiokafka's log as it is by itself, unless another of us takes it."""
        self._logger.removeHandler(self)
        if not any(isinstance(other, KafkaLog) for other in self._logger.handlers):
            self._logger.setLevel(logging.NOTSET)
            self._logger.propagate = True
        super().close()

    def forget_last_warning(self) -> None:
        """Begin again: an earlier warning explains no later failure."""
        self.last_warning = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Pass a warning on, unless one of its kind was in the last minute."""
        if _current_log.get() not in (None, self):
            return  # it is of another sink
        text = record.getMessage()
        if not (self.last_warning and record.msg in _CONSEQUENCES):
            self.last_warning = text
        now, kind = self._clock(), f"{record.name} {record.msg}"
        logged_at = self._logged_at.get(kind)
        if logged_at is None or now - logged_at >= LOG_EVERY_S:
            if len(self._logged_at) >= MAX_KINDS:
                self._logged_at.clear()
            self._logged_at[kind] = now
            self._log.info("a Kafka client warns", text=text, sink=self._sink)
