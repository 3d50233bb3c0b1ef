"""Intents to outcomes: a pool of tasks executes the controller's intents and settles each."""

from collections.abc import Iterator
from functools import partial
from math import inf

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from reactive_desched.controller.controller import Controller
from reactive_desched.eviction.executor import BegunEviction, EvictionExecutor
from reactive_desched.model.intents import Intent
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.telemetry.metrics import Metric, gauge

EVICTIONS_UNDER_WAY = gauge(
    "evictions_under_way",
    "Evictions that were decided and have no outcome yet; above `evictions.maxInFlight` they wait.",
)

_Submitted = tuple[Intent, BegunEviction | None]
"""An intent, and its eviction if that was begun."""


class EvictionPool:
    """Executes every submitted intent in one of `max_concurrent` tasks.

    While a task is free, an intent is journaled in the turn of the event loop that decided on it:
    finding, decision and request share one write to disk. Where that write is short, and a
    connection unused, the request leaves in the same turn. Further intents wait in a queue; the
    executor asks the controller again whether each is still valid when its turn comes. The queue
    is bounded by the token buckets that an eviction must pass.
    """

    def __init__(
        self, controller: Controller, executor: EvictionExecutor, max_concurrent: int
    ) -> None:
        self._controller = controller
        self._executor = executor
        self._max_concurrent = max_concurrent
        self._queue: MemoryObjectSendStream[_Submitted] | None = None
        self._active = 0
        self._idle = Wakeup()

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Execute what is submitted, until cancelled."""
        queue, intents = anyio.create_memory_object_stream[_Submitted](inf)
        try:
            async with queue, intents, anyio.create_task_group() as group:
                for _ in range(self._max_concurrent):
                    group.start_soon(self._work, intents)
                self._queue = queue
                task_status.started()
                await anyio.sleep_forever()
        finally:
            self._queue = None
            self._active = 0

    def collect(self) -> Iterator[Metric]:
        """Yield how many evictions are executed or wait for a task."""
        yield EVICTIONS_UNDER_WAY.value(self._active)

    def submit(self, intent: Intent) -> None:
        """Queue one intent; it is cancelled when `run` has ended."""
        if self._queue is None:
            self._controller.settle(self._executor.shutting_down(intent))
        else:
            cancelled = partial(self._controller.cancelled, intent)
            may_begin = self._active < self._max_concurrent and cancelled() is None
            self._active += 1
            begun = self._executor.begin(intent, cancelled) if may_begin else None
            self._queue.send_nowait((intent, begun))

    async def drained(self) -> None:
        """Return when every submitted intent has ended."""
        while self._active:
            await self._idle.wait()

    async def _work(self, intents: MemoryObjectReceiveStream[_Submitted]) -> None:
        async for intent, begun in intents:
            cancelled = partial(self._controller.cancelled, intent)
            try:
                if begun is None:
                    result = await self._executor.execute(intent, cancelled)
                else:
                    result = await self._executor.finish(intent, begun, cancelled)
            finally:
                self._active -= 1
                if not self._active:
                    self._idle.notify()
            self._controller.settle(result)
