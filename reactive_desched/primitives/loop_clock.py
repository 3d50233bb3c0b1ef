"""The clock of the event loop, for callers that measure by it or read it often."""

import asyncio
import time
from collections.abc import Callable

import anyio
from anyio.lowlevel import current_token

__all__ = ["loop_clock"]


def loop_clock() -> Callable[[], float]:
    """Return the clock by which the running event loop sets its timers, in seconds.

    `anyio.current_time` asks each time which loop is running, in six calls. It may be late: uvloop
    reads the same clock once a turn, in whole milliseconds.
    """
    loop = current_token().native_token  # asyncio's loop, or trio's token
    return time.monotonic if isinstance(loop, asyncio.AbstractEventLoop) else anyio.current_time
