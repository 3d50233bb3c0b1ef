"""Drives the engine: at once when a change is due, by timer when one comes due, in small bites."""

from collections.abc import Callable

import anyio
import anyio.lowlevel

from reactive_desched.controller.evaluator import Evaluator

TIME_SLICE_S = 0.0005
"""How long judging may hold the loop before others get their turn."""

MonotonicClock = Callable[[], float]
_NEVER = float("inf")


class Worker:
    """Runs the engine's work on the event loop while `may_work` agrees.

    `clock` is the loop's own monotonic clock, in seconds. Each time nothing is due any more `took`
    hears how long judging took since it last did, without the turns of others in between.
    """

    def __init__(
        self, evaluator: Evaluator, may_work: Callable[[], bool], clock: MonotonicClock
    ) -> None:
        self._evaluator = evaluator
        self._may_work = may_work
        self._clock = clock
        self._wake_event = anyio.Event()
        self._sleeps_until = -_NEVER  # awake
        self._is_processing = False
        self._busy_s = 0.0
        self.on_idle: Callable[[float], None] = _ignore

    def wake(self, now: float) -> None:
        """There may be work: do one bite of what is due now, and let `run` see to the rest.

        Whoever sleeps is woken only for what comes due earlier: most changes need no wake-up.
        """
        due = self._next_due(now)
        if due <= now:
            due = self._process_batch(now)
        if due < self._sleeps_until:
            self._wake_event.set()

    async def run(self) -> None:
        """Judge whatever comes due, until cancelled."""
        while True:
            self._wake_event = anyio.Event()
            now = self._clock()
            if self._next_due(now) <= now and self._process_batch(now) <= now:
                await anyio.lowlevel.checkpoint()
            else:
                await self._sleep()

    def _process_batch(self, now: float) -> float:
        """Work for a moment; return when there is work again."""
        if self._is_processing:
            return _NEVER  # the bite under way sees to it
        yield_at = now + TIME_SLICE_S
        self._is_processing = True
        try:
            self._evaluator.process_due(now, lambda: self._clock() >= yield_at)
        finally:
            self._is_processing = False
        self._busy_s += self._clock() - now
        if (due := self._next_due(now)) > now:
            self.on_idle(self._busy_s)
            self._busy_s = 0.0
        return due

    def _next_due(self, now: float) -> float:
        due = self._evaluator.next_due(now) if self._may_work() else None
        return _NEVER if due is None else due

    async def _sleep(self) -> None:
        """Sleep until something comes due or is poked."""
        now = self._clock()
        self._sleeps_until = self._next_due(now)
        with anyio.move_on_after(max(0.0, self._sleeps_until - now)):
            await self._wake_event.wait()
        self._sleeps_until = -_NEVER


def _ignore(_: float) -> None:
    """Hear nothing."""
