"""The arguments of one programme of measurements: where, how much, how often."""

import gc
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Results = dict[str, Any]  # numbers, texts and tables by name, as JSON has them


@dataclass(frozen=True)
class Task:
    """The arguments of a programme; each takes what it needs."""

    folder: Path
    count: int = 0
    runs: int = 1
    seconds: float = 0.0
    address: str = ""
    topics: tuple[str, ...] = ()
    silent: int = 0


class WarningLog:
    """A log that keeps warnings, since they would explain a strange number."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def info(self, event: str, **values: Any) -> None:  # as structlog takes them
        """Forget it."""

    debug = info

    def warning(self, event: str, **values: Any) -> None:  # as above
        """Keep it."""
        self.warnings.append(f"{event} {values}")


def per_second(count: float, began: float) -> float:
    """Return how many there were each second since that moment of `time.perf_counter`."""
    return round(count / (time.perf_counter() - began))


def freeze_gc() -> None:
    """Keep the collector from walking what is there by now, as the controller does once synced."""
    gc.collect()
    gc.freeze()
