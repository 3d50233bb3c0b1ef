"""How long others wait for the event loop: a task that sleeps and looks how late it wakes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from bench.measure.numbers import Quantiles, quantiles

_EVERY_S = 0.002


class LoopLateness:
    """The samples, in milliseconds."""

    def __init__(self) -> None:
        self.late_ms: list[float] = []

    def summary(self) -> Quantiles:
        """Return the usual quantiles."""
        return quantiles(self.late_ms)

    async def watch(self) -> None:
        """Take samples until cancelled."""
        while True:
            due = anyio.current_time() + _EVERY_S
            await anyio.sleep_until(due)
            self.late_ms.append((anyio.current_time() - due) * 1e3)


@asynccontextmanager
async def watch_lateness() -> AsyncIterator[LoopLateness]:
    """Watch the loop while the block runs."""
    samples = LoopLateness()
    async with anyio.create_task_group() as group:
        group.start_soon(samples.watch)
        try:
            yield samples
        finally:
            group.cancel_scope.cancel()
