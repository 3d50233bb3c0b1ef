"""Intents to outcomes: a pool of tasks executes the controller's intents and settles each."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from reactive_desched.controller.controller import Controller
from reactive_desched.eviction.executor import EvictionExecutor
from reactive_desched.model.intents import EvictionResult, Intent
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.telemetry.metrics import Metric, gauge

EVICTIONS_UNDER_WAY = gauge(
    "evictions_under_way",
    "Evictions that were decided and have no outcome yet; above `evictions.maxInFlight` they wait.",
)

ResultFollower = Callable[[EvictionResult], None]


class EvictionPool:
    """Executes every submitted intent in one of `max_concurrent` tasks.

    Intents wait in a queue while every task executes one; the executor asks the controller again
    whether each is still valid when its turn comes. The queue is bounded by the token buckets that
    an eviction must pass.
    """

    def __init__(
        self, controller: Controller, executor: EvictionExecutor, max_concurrent: int
    ) -> None:
        self._controller = controller
        self._executor = executor
        self._max_concurrent = max_concurrent
        self._queue: MemoryObjectSendStream[Intent] | None = None
        self._active = 0
        self._idle = Wakeup()
        self._followers: tuple[ResultFollower, ...] = ()

    @contextmanager
    def followed_by(self, follower: ResultFollower) -> Iterator[None]:
        """Call the follower with each result before the controller has it, during the block."""
        self._followers = (*self._followers, follower)
        try:
            yield
        finally:
            self._followers = tuple(each for each in self._followers if each is not follower)

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Execute what is submitted, until cancelled."""
        queue, intents = anyio.create_memory_object_stream[Intent](inf)
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
            self._settle(self._executor.shutting_down(intent))
        else:
            self._active += 1
            self._queue.send_nowait(intent)

    async def drained(self) -> None:
        """Return when every submitted intent has ended."""
        while self._active:
            await self._idle.wait()

    async def _work(self, intents: MemoryObjectReceiveStream[Intent]) -> None:
        async for intent in intents:
            try:
                result = await self._executor.execute(intent, self._controller)
            finally:
                self._active -= 1
                if not self._active:
                    self._idle.notify()
            self._settle(result)

    def _settle(self, result: EvictionResult) -> None:
        for follower in self._followers:
            follower(result)
        self._controller.settle(result)
