"""How long others wait for the event loop: a task that sleeps and looks how late it wakes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from bench.measure.numbers import Numbers, spread

_EVERY_S = 0.002


class Lateness:
    """The samples, in milliseconds."""

    def __init__(self) -> None:
        self.late_ms: list[float] = []

    def summary(self) -> Numbers:
        """Return the usual quantiles."""
        return spread(self.late_ms)

    async def watch(self) -> None:
        """Take samples until cancelled."""
        while True:
            due = anyio.current_time() + _EVERY_S
            await anyio.sleep_until(due)
            self.late_ms.append((anyio.current_time() - due) * 1e3)


@asynccontextmanager
async def lateness() -> AsyncIterator[Lateness]:
    """Watch the loop while the block runs."""
    found = Lateness()
    async with anyio.create_task_group() as group:
        group.start_soon(found.watch)
        try:
            yield found
        finally:
            group.cancel_scope.cancel()
