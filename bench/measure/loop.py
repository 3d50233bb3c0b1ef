"""How long the event loop is held, and how late its timers are: a long turn delays all others.

Turns are timed by the thread's CPU clock: on a shared machine the wall clock also counts the time
when other programs had the core. Both are reported.

On a virtual machine the CPU clock runs on while the host gives the core to others. So a piece of
work that is always the same can be done after each turn: where it takes as long as a long turn, the
machine did. Of a long turn it is said how often the thread lost the core in it, and how many pages
the kernel gave it.
"""

import asyncio
import gc
import resource
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from types import CoroutineType
from typing import Any

import anyio

from bench.measure.numbers import Quantiles, quantiles

_LONG_NS = 1_000_000
_MAX_SLOWEST = 12
_TIMER_EVERY_S = 0.002
_NUMBERS = range(4_000)


@dataclass
class LoopTurns:
    """How long callbacks held the loop; the longest are kept with who it was."""

    turns: int = 0
    busy_ns: int = 0
    longest_ns: int = 0
    longest_wall_ns: int = 0
    over_ms: dict[int, int] = field(default_factory=lambda: {1: 0, 2: 0, 5: 0, 10: 0})
    slowest: list[tuple[int, str]] = field(default_factory=list)
    same_work: "LoopTurns | None" = None
    collected_ns: int = 0
    longest_collection_ns: int = 0

    def add(self, took_ns: int, wall_ns: int, name: Callable[[], str]) -> None:
        """Take in one turn; it is named where it was long."""
        self.turns += 1
        self.busy_ns += took_ns
        self.longest_wall_ns = max(self.longest_wall_ns, wall_ns)
        self.longest_ns = max(self.longest_ns, took_ns)
        if took_ns < _LONG_NS:
            return
        for limit in self.over_ms:
            self.over_ms[limit] += took_ns >= limit * _LONG_NS
        self.slowest = sorted([*self.slowest, (took_ns, name())], reverse=True)[:_MAX_SLOWEST]

    def summary(self) -> dict[str, object]:
        """Return the holds in milliseconds."""
        same = {} if self.same_work is None else {"same_work": self.same_work.summary()}
        return same | {
            "turns": self.turns,
            "busy_s": round(self.busy_ns / 1e9, 3),
            "longest_ms": round(self.longest_ns / 1e6, 2),
            "longest_wall_ms": round(self.longest_wall_ns / 1e6, 2),
            "over_ms": {str(limit): count for limit, count in self.over_ms.items()},
            "worst": [f"{took / 1e6:.2f} ms {name}" for took, name in self.slowest],
            "gc_s": round(self.collected_ns / 1e9, 3),
            "longest_gc_ms": round(self.longest_collection_ns / 1e6, 2),
        }


@contextmanager
def watch_loop_turns(*, same_work: bool = False) -> Iterator[LoopTurns]:
    """Time every turn of every loop of this process; costs about two microseconds per turn.

    With `same_work` a fixed piece of work follows each turn, and is timed as one.
    """
    loop_turns, run = LoopTurns(), asyncio.Handle._run  # noqa: SLF001  # there is no public place to time turns
    loop_turns.same_work = LoopTurns() if same_work else None

    def timed(handle: asyncio.Handle) -> None:
        _time_into(loop_turns, lambda: run(handle), lambda: handle_name(handle))
        if loop_turns.same_work is not None:
            _time_into(loop_turns.same_work, _work, lambda: "the same work")

    collector = _GcTimer(loop_turns)
    asyncio.Handle._run = timed  # type: ignore[method-assign,assignment]  # noqa: SLF001  # same
    gc.callbacks.append(collector)
    try:
        yield loop_turns
    finally:
        gc.callbacks.remove(collector)
        asyncio.Handle._run = run  # type: ignore[method-assign]  # noqa: SLF001  # same


def _time_into(turns: LoopTurns, work: Callable[[], None], name: Callable[[], str]) -> None:
    used = resource.getrusage(resource.RUSAGE_THREAD)
    began_ns, worked_ns = time.perf_counter_ns(), time.thread_time_ns()
    work()
    took_ns, wall_ns = time.thread_time_ns() - worked_ns, time.perf_counter_ns() - began_ns
    turns.add(took_ns, wall_ns, lambda: f"{name()}{_what_happened(used)}")


def _what_happened(before: resource.struct_rusage) -> str:
    """Say how often the thread lost the core since, and how many pages it was given."""
    now = resource.getrusage(resource.RUSAGE_THREAD)
    lost, pages = now.ru_nivcsw - before.ru_nivcsw, now.ru_minflt - before.ru_minflt
    return f" (lost the core {lost} times, {pages} pages)"


def _work() -> None:
    """Do the same as ever: 0.3 ms, as a turn of a first sync."""
    made = {}
    for number in _NUMBERS:
        made[number] = (number,)


class _GcTimer:
    """Times the collector's own pauses, which fall into whichever turn is unlucky."""

    def __init__(self, loop_turns: LoopTurns) -> None:
        self._loop_turns, self._begun = loop_turns, 0

    def __call__(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._begun = time.perf_counter_ns()
            return
        took = time.perf_counter_ns() - self._begun
        self._loop_turns.collected_ns += took
        self._loop_turns.longest_collection_ns = max(self._loop_turns.longest_collection_ns, took)


def handle_name(handle: asyncio.Handle) -> str:
    """Name what ran: a task by its coroutines from outside in, else the callback."""
    callback = handle._callback  # type: ignore[attr-defined]  # noqa: SLF001  # typeshed leaves it out
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return " > ".join(_chain(owner.get_coro())) or owner.get_name()
    return str(getattr(callback, "__qualname__", callback))


def _chain(coroutine: Any) -> Iterator[str]:  # Any: whatever a coroutine may be waiting for
    while isinstance(coroutine, CoroutineType):
        line = coroutine.cr_frame.f_lineno if coroutine.cr_frame else 0
        yield f"{coroutine.__qualname__}:{line}"
        coroutine = coroutine.cr_await


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
            due = time.monotonic() + _TIMER_EVERY_S
            await anyio.sleep_until(due)
            self.late_ms.append((time.monotonic() - due) * 1e3)


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
