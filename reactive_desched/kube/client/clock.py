"""Time as an argument, so that waits of minutes are tested in milliseconds."""

import time
from typing import Protocol

import anyio

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    """What the cluster edge needs to know of time."""

    def now(self) -> float:
        """Return monotonic seconds; only differences mean anything."""
        ...

    def wall(self) -> float:
        """Return seconds since the epoch, for dates the server sends."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Come back no earlier than after this many seconds."""
        ...


class SystemClock:
    """The machine's own clocks."""

    now = staticmethod(time.monotonic)
    wall = staticmethod(time.time)

    async def sleep(self, seconds: float) -> None:
        """Come back no earlier than after this many seconds."""
        await anyio.sleep(seconds)
