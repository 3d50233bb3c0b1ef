"""Virtual time that stands still while a thread works."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf

import anyio
import trio
import trio.testing
from anyio.to_thread import current_default_thread_limiter

__all__ = ["time_beside_threads"]


@asynccontextmanager
async def time_beside_threads() -> AsyncIterator[None]:
    """Let virtual time pass until the block ends, but none while a thread works.

    The clock's own jumping takes a working thread for idleness: minutes pass until it has read a
    file, more of them the busier the machine is, and the event loop turns without a rest.
    """
    async with anyio.create_task_group() as beside:
        beside.start_soon(_advance_clock)
        yield
        beside.cancel_scope.cancel()


async def _advance_clock() -> None:
    """Jump to whatever comes next, as soon as every task waits and no thread works."""
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, trio.testing.MockClock), "it takes virtual time"
    clock.autojump_threshold = inf
    while True:
        await trio.testing.wait_all_tasks_blocked()
        ahead_s = trio.lowlevel.current_statistics().seconds_to_next_deadline
        if current_default_thread_limiter().borrowed_tokens or ahead_s == inf:
            time.sleep(0.0002)  # noqa: ASYNC251  # nobody but the thread has anything to do
        elif ahead_s > 0:
            clock.jump(ahead_s)
