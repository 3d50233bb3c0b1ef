"""Let a thread that waits be told from another one to stop waiting."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress

__all__ = ["Stoppable"]


class Stoppable:
    """Runs coroutines in event loops of their own, one at a time, until it is stopped."""

    def __init__(self) -> None:
        self._stopped = False
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Task[None]] | None = None

    def run(self, work: Coroutine[None, None, None], limit_s: float) -> None:
        """Block until it is done; raises TimeoutError, and CancelledError when stopped."""
        asyncio.run(asyncio.wait_for(self._until_stopped(work), limit_s))

    def stop(self) -> None:
        """Cancel what runs, from any thread, and whatever is run later."""
        self._stopped = True
        if self._running is not None:
            loop, task = self._running
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(task.cancel)

    async def _until_stopped(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._running = asyncio.get_running_loop(), task
        if self._stopped:  # before there was anything to cancel
            task.cancel()
        await task
