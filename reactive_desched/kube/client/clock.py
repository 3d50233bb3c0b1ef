"""Time as an argument, so that tests of long waits take milliseconds."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

import anyio

__all__ = ["Clock", "SystemClock", "move_on_after"]


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


@asynccontextmanager
async def move_on_after(clock: Clock, seconds: float) -> AsyncIterator[None]:
    """Cancel the block after this time of a clock, and go on behind it, as anyio's by its own."""
    async with anyio.create_task_group() as race:

        async def time_out() -> None:
            await clock.sleep(seconds)
            race.cancel_scope.cancel()

        race.start_soon(time_out)
        yield
        race.cancel_scope.cancel()
