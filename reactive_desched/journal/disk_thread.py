"""The one thread that blocks on the disk, with little between it and the event loop.

Every eviction waits for it twice; a pool for any work costs several turns of the loop each time.
"""

from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, TypeVar

import anyio
from anyio.lowlevel import current_token

_T = TypeVar("_T")
_CallSoon = Callable[[Callable[[], None]], object]


class DiskThread:
    """Runs one blocking call after the other for the tasks of one event loop, until closed.

    Created in that loop. Calls wait in a queue; the caller bounds its length.
    """

    def __init__(self, name: str = "journal disk") -> None:
        self._jobs: SimpleQueue[_Job[Any] | None] = SimpleQueue()  # jobs of every kind of result
        self._call_soon = _call_soon_threadsafe()
        Thread(target=self._run_jobs, name=name, daemon=True).start()

    async def run(self, work: Callable[[], _T], then: Callable[[_T], None] | None = None) -> _T:
        """Return or raise what the call does; a cancelled caller leaves it running.

        `then` is called with the result in the event loop, a turn before this returns; not when
        the caller was cancelled.
        """
        job = _Job(work, then)
        self._jobs.put(job)
        try:
            await job.done.wait()
        finally:
            job.then = None
        if job.error is not None:
            raise job.error
        return job.result

    def close(self) -> None:
        """End the thread when it has done what was asked for."""
        self._jobs.put(None)

    def _run_jobs(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.run()
            with suppress(RuntimeError):  # the loop has ended, and with it who waited
                self._call_soon(job.end)


class _Job(Generic[_T]):
    """One call and its result."""

    __slots__ = ("done", "error", "result", "then", "work")
    result: _T

    def __init__(self, work: Callable[[], _T], then: Callable[[_T], None] | None) -> None:
        self.work = work
        self.then = then
        self.done = anyio.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        """Do it; called in the thread."""
        try:
            self.result = self.work()
        except BaseException as error:  # noqa: BLE001  # it is raised where the result is awaited
            self.error = error

    def end(self) -> None:
        """Hand on the result; called in the event loop."""
        try:
            if self.then is not None and self.error is None:
                self.then(self.result)
        except BaseException as error:  # noqa: BLE001  # as above
            self.error = error
        finally:
            self.done.set()


def _call_soon_threadsafe() -> _CallSoon:
    """Return how another thread has something called in this event loop.

    `anyio.from_thread` would also wait for the call: two more switches between the threads.
    """
    loop: Any = current_token().native_token  # asyncio's loop, or trio's token
    call_soon: _CallSoon = getattr(loop, "call_soon_threadsafe", None) or loop.run_sync_soon
    return call_soon
