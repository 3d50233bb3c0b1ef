"""Drives the controller: its worker evaluates what is due, in time slices, and a pool evicts."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from math import inf

import anyio
import anyio.lowlevel
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from reactive_desched.controller.controller import Controller
from reactive_desched.controller.pauses import CHECK_INTERVAL_S
from reactive_desched.controller.turn_clocks import TurnClocks
from reactive_desched.eviction.client import IntentOwner
from reactive_desched.eviction.executor import EvictionExecutor
from reactive_desched.model.evaluation import EvictionResult, Intent
from reactive_desched.model.objects import PodKey
from reactive_desched.model.observer import Observer
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
        with self._controller.clocks.still():
            outcome = self._controller.cancelled(intent)
            if (request_id := self._written.pop(intent.pod.uid, None)) is not None:
                for requested, _ in self._followers.all:
                    requested(intent, request_id, outcome is None)
            return outcome

    def caught_up(self, intent: Intent) -> None:
        """Note that the state shows what happened before the decision."""
        self._controller.caught_up(intent)

    def requested(self, intent: Intent, request_id: str, sent_at: float) -> None:
        """Note the record of the request, which is sent next unless it is cancelled."""
        self._controller.requested(intent, request_id, sent_at)
        self._written[intent.pod.uid] = request_id

    def effect_unknown(self, intent: Intent, error: str, within_s: float) -> None:
        """Note that the request may have evicted the pod."""
        self._controller.effect_unknown(intent, error, within_s)

    def _settle(self, result: EvictionResult) -> None:
        with self._controller.clocks.still():
            for _, settled in self._followers.all:
                settled(result)
            self._controller.settle(result)


TIME_SLICE_S = 0.0008
"""How long evaluating may hold the event loop before other tasks run.

Two slices in a row are less than 2 ms. One change of a pod takes less than one, with all plugins
and caches that are cold: it is evaluated in the turn that read the change.
"""

_RESOLUTION_S = 0.000_001
"""So long a timer lasts at least: a clock may have no finer steps."""

_NEVER = float("inf")

WorkFollower = Callable[[float, int | None], None]
"""What is called after each time slice with its time, in monotonic seconds, and after how many
steps of the controller it was over; None where nothing was due any more."""

LookFollower = Callable[[float], None]
"""What is called with each time at which the worker woke, and nothing was due."""


class Worker:
    """Runs the controller's work on the event loop and hands its intents to the eviction pool.

    `clock` is the event loop's monotonic clock, in seconds; a turn is at one moment of the
    controller's clocks. Each time nothing is due any more the observer learns how long evaluating
    took since that was last so, other tasks' time excluded.
    """

    def __init__(
        self,
        controller: Controller,
        evictions: EvictionPool,
        work_available: Wakeup,
        observer: Observer,
        clock: Callable[[], float],
    ) -> None:
        self._controller = controller
        self._clocks: TurnClocks = controller.clocks
        self._evictions = evictions
        self._work_available = work_available
        self._observer = observer
        self._clock = clock
        self._sleeps_until = -_NEVER  # awake
        self._is_processing = False
        self._busy_s = 0.0
        self._followers = Followers[tuple[WorkFollower, LookFollower]]()

    def followed_by(
        self, worked: WorkFollower, looked: LookFollower
    ) -> AbstractContextManager[None]:
        """Call both, after each time slice and each look for work, during the block."""
        return self._followers.joined_by((worked, looked))

    def wake(self) -> None:
        """Work for one time slice on what is due now, and leave the rest to `run`.

        A sleeping `run` is woken only for what comes due earlier: most changes need no wake-up.
        """
        with self._clocks.still() as now:
            due = self._next_due(now)
            if due <= now:
                due = self._process_batch(now)
        if due < self._sleeps_until:
            self._work_available.notify()

    async def run(self) -> None:
        """Evaluate what comes due, until cancelled."""
        while True:
            with self._clocks.still() as now:
                due = self._next_due(now)
                if due <= now:
                    due = self._process_batch(now)
                else:
                    for _, looked in self._followers.all:
                        looked(now)
            if due <= now:
                await anyio.lowlevel.checkpoint()
            else:
                await self._sleep(due)

    def _process_batch(self, now: float) -> float:
        """Work for one time slice; return when there is work again."""
        if self._is_processing:
            return _NEVER  # the slice under way sees to it
        began = self._clock()
        time_slice = _TimeSlice(self._clock, began + TIME_SLICE_S, self._controller)
        self._is_processing = True
        try:
            for intent in self._controller.work(time_slice.is_over):
                self._evictions.submit(intent)
        finally:
            self._is_processing = False
        for worked, _ in self._followers.all:
            worked(now, time_slice.ended_after)
        self._busy_s += self._clock() - began
        if (due := self._next_due(now)) > now:
            self._observer.on_cycle(self._busy_s)
            self._busy_s = 0.0
        return due

    def _next_due(self, now: float) -> float:
        due = self._controller.next_due(now)
        return _NEVER if due is None else due

    async def _sleep(self, until: float) -> None:
        """Sleep until then, or until work becomes available."""
        self._sleeps_until = until
        with anyio.move_on_after(max(_RESOLUTION_S, until - self._clock())):
            await self._work_available.wait()
        self._sleeps_until = -_NEVER


class _TimeSlice:
    """Says whether a slice is over; `ended_after` counts the controller's steps until it was."""

    __slots__ = ("_began", "_clock", "_controller", "_ends", "ended_after")

    def __init__(self, clock: Callable[[], float], ends: float, controller: Controller) -> None:
        self._clock = clock
        self._ends = ends
        self._controller = controller
        self._began = controller.steps
        self.ended_after: int | None = None

    def is_over(self) -> bool:
        if self._clock() < self._ends:
            return False
        if self.ended_after is None:
            self.ended_after = self._controller.steps - self._began
        return True


async def check_for_suspend(controller: Controller) -> None:
    """Check the controller's clock regularly, so that idling is no suspend."""
    while True:
        controller.pauses.look()
        await anyio.sleep(CHECK_INTERVAL_S)
