"""Time as an argument, so that tests of long waits take milliseconds."""

import time
from typing import Protocol

import anyio

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    """The clock of the API client."""

    def now(self) -> float:
        """Return monotonic seconds; only differences have a meaning."""
        ...

    def wall(self) -> float:
        """Return seconds since the epoch, to compare with dates that the server sends."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return no earlier than after this many seconds."""
        ...


class SystemClock:
    """The machine's clocks."""

    now = staticmethod(time.monotonic)
    wall = staticmethod(time.time)

    async def sleep(self, seconds: float) -> None:
        """Return no earlier than after this many seconds."""
        await anyio.sleep(seconds)
