"""The clock of the event loop, for callers that read it often."""

from collections.abc import Callable
from typing import Any

import anyio
from anyio.lowlevel import current_token

__all__ = ["loop_clock"]


def loop_clock() -> Callable[[], float]:
    """Return the clock of the running event loop, in seconds; `anyio.current_time` is the same.

    That one asks each time which loop is running, in six calls.
    """
    loop: Any = current_token().native_token  # asyncio's loop, or trio's token
    clock: Callable[[], float] = getattr(loop, "time", anyio.current_time)
    return clock
