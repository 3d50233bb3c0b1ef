"""Intents to outcomes: a pool of tasks executes the controller's intents and settles each."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from math import inf

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from reactive_desched.controller.controller import Controller
from reactive_desched.eviction.client import IntentOwner
from reactive_desched.eviction.executor import EvictionExecutor
from reactive_desched.model.evaluation import EvictionResult, Intent
from reactive_desched.model.objects import PodKey
from reactive_desched.model.outcomes import Outcome
from reactive_desched.primitives.wakeup import Followers, Wakeup
from reactive_desched.telemetry.metrics import Metric, gauge

EVICTIONS_UNDER_WAY = gauge(
    "evictions_under_way",
    "Evictions that were decided and have no outcome yet; above `evictions.maxInFlight` they wait.",
)

ResultFollower = Callable[[EvictionResult], None]
RequestFollower = Callable[[Intent, str, bool], None]
"""What is called with each intent whose request was written, its id, and whether it is sent."""


class EvictionPool(IntentOwner):
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
        self._written: dict[PodKey, str] = {}
        self._followers = Followers[tuple[RequestFollower, ResultFollower]]()

    def followed_by(
        self, requested: RequestFollower, settled: ResultFollower
    ) -> AbstractContextManager[None]:
        """Call both, with each request and result, before the controller has it, in the block."""
        return self._followers.joined_by((requested, settled))

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
                result = await self._executor.execute(intent, self)
            finally:
                self._active -= 1
                if not self._active:
                    self._idle.notify()
            self._settle(result)

    def cancelled(self, intent: Intent) -> Outcome | None:
        """Return the outcome of an intent that must not be sent after all; None when it may."""
        outcome = self._controller.cancelled(intent)
        if (request_id := self._written.pop(intent.pod.uid, None)) is not None:
            for requested, _ in self._followers.all:
                requested(intent, request_id, outcome is None)
        return outcome

    def requested(self, intent: Intent, request_id: str, sent_at: float) -> None:
        """Note the record of the request, which is sent next unless it is cancelled."""
        self._controller.requested(intent, request_id, sent_at)
        self._written[intent.pod.uid] = request_id

    def _settle(self, result: EvictionResult) -> None:
        for _, settled in self._followers.all:
            settled(result)
        self._controller.settle(result)
