"""Lets one thread cancel what another thread waits for."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress

__all__ = ["CancellableRunner"]


class CancellableRunner:
    """Runs coroutines in event loops of their own, one at a time, until it is stopped."""

    def __init__(self) -> None:
        self._cancelled = False
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Task[None]] | None = None

    def run(self, work: Coroutine[None, None, None], timeout_s: float) -> None:
        """Block until the coroutine ends; raises TimeoutError, or CancelledError after `cancel`."""
        asyncio.run(asyncio.wait_for(self._run_cancellable(work), timeout_s))

    def cancel(self) -> None:
        """Cancel the running coroutine, from any thread, and every later one."""
        self._cancelled = True
        if self._running is not None:
            loop, task = self._running
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(task.cancel)

    async def _run_cancellable(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._running = asyncio.get_running_loop(), task
        if self._cancelled:  # before there was anything to cancel
            task.cancel()
        await task
