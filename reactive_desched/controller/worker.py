"""Drives the engine: at once when a change is due, by timer when one comes due, in small bites."""

from collections.abc import Callable

import anyio
import anyio.lowlevel

from reactive_desched.controller.evaluator import Engine

BITE_S = 0.0005
"""How long judging may hold the loop before others get their turn."""

Clock = Callable[[], float]
_NEVER = float("inf")


class Stage:
    """Runs the engine's work on the event loop while `may_work` agrees.

    `clock` is the loop's own monotonic clock, in seconds. Each time nothing is due any more `took`
    hears how long judging took since it last did, without the turns of others in between.
    """

    def __init__(self, engine: Engine, may_work: Callable[[], bool], clock: Clock) -> None:
        self._engine = engine
        self._may_work = may_work
        self._clock = clock
        self._news = anyio.Event()
        self._sleeps_until = -_NEVER  # awake
        self._biting = False
        self._busy_s = 0.0
        self.took: Callable[[float], None] = _nobody

    def poke(self, now: float) -> None:
        """There may be work: do one bite of what is due now, and let `run` see to the rest.

        Whoever sleeps is woken only for what comes due earlier: most changes need no wake-up.
        """
        due = self._next_due(now)
        if due <= now:
            due = self._bite(now)
        if due < self._sleeps_until:
            self._news.set()

    async def run(self) -> None:
        """Judge whatever comes due, until cancelled."""
        while True:
            self._news = anyio.Event()
            now = self._clock()
            if self._next_due(now) <= now and self._bite(now) <= now:
                await anyio.lowlevel.checkpoint()
            else:
                await self._rest()

    def _bite(self, now: float) -> float:
        """Work for a moment; return when there is work again."""
        if self._biting:
            return _NEVER  # the bite under way sees to it
        enough_at = now + BITE_S
        self._biting = True
        try:
            self._engine.work(now, lambda: self._clock() >= enough_at)
        finally:
            self._biting = False
        self._busy_s += self._clock() - now
        if (due := self._next_due(now)) > now:
            self.took(self._busy_s)
            self._busy_s = 0.0
        return due

    def _next_due(self, now: float) -> float:
        due = self._engine.next_due(now) if self._may_work() else None
        return _NEVER if due is None else due

    async def _rest(self) -> None:
        """Sleep until something comes due or is poked."""
        now = self._clock()
        self._sleeps_until = self._next_due(now)
        with anyio.move_on_after(max(0.0, self._sleeps_until - now)):
            await self._news.wait()
        self._sleeps_until = -_NEVER


def _nobody(_: float) -> None:
    """Hear nothing."""
