"""A clock that moves only when a test advances it, and lists the tasks that sleep."""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

import anyio
import anyio.lowlevel

__all__ = ["InstantClock", "ManualClock", "pass_time", "run_clock", "wait_until"]

_WALL = 1_790_000_000.0
_STEP_S = 0.1
_TURNS = 25
_MOST_WAITS = 50
_TICK_S = 0.01


class ManualClock:
    """Serves whatever takes a clock: monotonic `now`, `wall` time, and `sleep`."""

    def __init__(self) -> None:
        self._elapsed_s = 0.0
        self._order = count()
        self._sleepers: list[tuple[float, int, anyio.Event]] = []

    def now(self) -> float:
        """Return monotonic seconds."""
        return 1000.0 + self._elapsed_s

    def wall(self) -> float:
        """Return seconds since the epoch, moving in step with `now`."""
        return _WALL + self._elapsed_s

    async def sleep(self, seconds: float) -> None:
        """Wait until the test has advanced the clock this far."""
        woken = anyio.Event()
        sleeper = (self._elapsed_s + seconds, next(self._order), woken)
        heappush(self._sleepers, sleeper)
        try:
            await woken.wait()
        finally:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)
                self._sleepers.sort()

    @property
    def pending_waits_s(self) -> list[float]:
        """How long each sleeper still has to wait, soonest first."""
        return [due - self._elapsed_s for due, _, _ in sorted(self._sleepers)]

    def advance(self, seconds: float) -> None:
        """Let time pass and wake every sleeper whose time has come."""
        self._elapsed_s += seconds
        while self._sleepers and self._sleepers[0][0] <= self._elapsed_s + 1e-9:
            heappop(self._sleepers)[2].set()


class InstantClock(ManualClock):
    """Advances by itself as soon as a task sleeps, and remembers that; for a single task."""

    def __init__(self) -> None:
        super().__init__()
        self.slept_s: list[float] = []

    async def sleep(self, seconds: float) -> None:
        """Let this much time pass at once."""
        self.slept_s.append(seconds)
        self.advance(seconds)
        await anyio.lowlevel.checkpoint()


async def pass_time(clock: ManualClock, seconds: float) -> None:
    """Advance the clock in small steps; let what each one wakes send its request in between.

    A step lasts until as many tasks sleep as before it, or for a number of turns of the loop, since
    some have no more to wait for. On a busy machine an answer takes as many turns as on an idle
    one, but more time: a sleep of a millisecond may be a single turn.
    """
    for _ in range(round(seconds / _STEP_S)):
        sleepers = len(clock.pending_waits_s)
        clock.advance(_STEP_S)
        await _let_others_work()
        for _ in range(_MOST_WAITS):
            if len(clock.pending_waits_s) >= sleepers:
                break
            await _let_others_work()


async def run_clock(clock: ManualClock, speed: float) -> None:
    """Let the clock run so many times as fast as the machine's, for as long as the task lives.

    Each step comes after some turns of the loop. So the clock is slow in a process that gets little
    of the processor: an answer that takes many turns comes as soon by the clock as on an idle one.
    """
    while True:
        await anyio.sleep(_TICK_S)
        await _let_others_work()
        clock.advance(speed * _TICK_S)


async def _let_others_work() -> None:
    """Let tasks talk to each other through the loop, and one that polls look once more."""
    for _ in range(_TURNS):
        await anyio.lowlevel.checkpoint()
    await anyio.sleep(0.001)


async def wait_until(condition: Callable[[], bool], within_s: float = 60.0) -> None:
    """Come back as soon as something holds; fail when it never does."""
    with anyio.fail_after(within_s):
        while not condition():  # noqa: ASYNC110  what is waited for knows nothing of events
            await anyio.sleep(0.001)
