"""The simulated cluster reads time from here, so that a week of it can pass in a second."""

import time
from datetime import UTC, datetime
from typing import Protocol

__all__ = [
    "Clock",
    "HistoryClock",
    "RealClock",
    "VirtualClock",
    "parse_time",
    "rfc3339",
    "rfc3339_micro",
]


class Clock(Protocol):
    """Wall time in seconds since the epoch, UTC."""

    def now(self) -> float:
        """Return the present moment."""
        ...


class RealClock:
    """The clock on the wall."""

    def now(self) -> float:
        """Return the operating system's idea of the present moment."""
        return time.time()


class VirtualClock:
    """A clock that moves only when advanced."""

    def __init__(self, start: float) -> None:
        self._now = start

    def now(self) -> float:
        """Return the moment this clock was last moved to."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move forward; time never goes back."""
        if seconds < 0:
            raise ValueError(f"cannot advance by {seconds} s: time only moves forward")
        self._now += seconds


class HistoryClock(VirtualClock):
    """Begins in the past and moves when advanced, until it goes live as the clock on the wall."""

    def __init__(self, age_s: float, wall: Clock) -> None:
        super().__init__(wall.now() - age_s)
        self._wall = wall
        self._is_live = False

    def now(self) -> float:
        """Return the moment this clock was last moved to, or the present once it is live."""
        return self._wall.now() if self._is_live else super().now()

    def go_live(self) -> None:
        """Follow the wall from now on."""
        self._is_live = True


def rfc3339(seconds: float) -> str:
    """Format a moment as Kubernetes `Time`: whole seconds, cut off, never rounded up."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(seconds: float) -> str:
    """Format a moment as Kubernetes `MicroTime`: always six fractional digits."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str) -> float:
    """Read either form back into seconds since the epoch."""
    return datetime.fromisoformat(text).timestamp()
