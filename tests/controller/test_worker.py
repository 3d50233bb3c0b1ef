import math
from collections.abc import Callable, Iterator
from itertools import pairwise

import anyio
import pytest
import trio.testing

from reactive_desched.controller.turn_clocks import TurnClocks
from reactive_desched.controller.worker import TIME_SLICE_S, Worker
from reactive_desched.model.evaluation import DecisionContext, Intent
from reactive_desched.model.findings import Finding
from reactive_desched.model.observer import Observer
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.testing.builders import pod

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


class Work:
    """A controller with pieces of work that are due at times and take as long as they are told."""

    def __init__(self, piece_s: float = 0.0) -> None:
        self.due: list[float] = []
        self.piece_s = piece_s
        self.worked = 0.0
        self.slices: list[int] = []
        self.asked = self.steps = 0
        self.intents: list[Intent] = []
        self.may_work = True
        self.during: Callable[[], None] = lambda: None
        self.clocks = TurnClocks(self.clock, self.clock)

    def clock(self) -> float:
        """Tell the loop's time, moved on by all the work done."""
        return anyio.current_time() + self.worked

    def next_due(self, _: float) -> float | None:
        self.asked += 1
        return min(self.due, default=None) if self.may_work else None

    def work(self, should_yield: Callable[[], bool]) -> Iterator[Intent]:
        now = self.clocks.monotonic()
        self.slices.append(0)
        while self.due and min(self.due) <= now:
            self.due.remove(min(self.due))
            self.slices[-1] += 1
            self.worked += self.piece_s
            self.during()
            yield from self.intents
            if should_yield():
                return


class Cycles(Observer):
    """Keeps how long each stretch of work took."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def on_cycle(self, seconds: float) -> None:
        self.seconds.append(seconds)


class Bench:
    """A worker over such a controller; it is its own eviction pool."""

    def __init__(self, piece_s: float = 0.0) -> None:
        self.controller = Work(piece_s)
        self.cycles = Cycles()
        self.submitted: list[Intent] = []
        self.worker = Worker(self.controller, self, Wakeup(), self.cycles, self.controller.clock)  # type: ignore[arg-type]  # what a worker uses of them

    def submit(self, intent: Intent) -> None:
        self.submitted.append(intent)

    def add(self, *due: float) -> None:
        """Let work come due, and wake the worker."""
        self.controller.due += due
        self.worker.wake()


async def test_intents_are_submitted_where_the_change_came_in() -> None:
    bench = Bench()
    intent = Intent(DecisionContext(Finding(pod("web", on="n1"), "Test", "wrong")))
    bench.controller.intents = [intent]
    bench.add(0.0)

    assert bench.submitted == [intent]


async def test_what_is_due_is_done_where_the_change_came_in() -> None:
    bench = Bench()
    bench.add(0.0, 0.0)

    assert bench.controller.slices == [2]


async def test_a_time_slice_is_never_longer_than_its_time() -> None:
    bench = Bench(piece_s=TIME_SLICE_S / 4)
    bench.add(*[0.0] * 10)

    assert bench.controller.slices == [4]


async def test_a_piece_longer_than_a_time_slice_ends_it() -> None:
    bench = Bench(piece_s=TIME_SLICE_S * 3)
    bench.add(0.0, 0.0)

    assert bench.controller.slices == [1]


async def test_the_rest_is_done_slice_by_slice_with_turns_for_others_in_between() -> None:
    bench = Bench(piece_s=TIME_SLICE_S / 2)
    seen: list[int] = []

    async def watch() -> None:
        while True:
            seen.append(sum(bench.controller.slices))
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(bench.worker.run)
        await anyio.wait_all_tasks_blocked()
        bench.add(*[0.0] * 10)
        group.start_soon(watch)
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()

    assert bench.controller.slices == [2] * 5
    steps = [after - before for before, after in pairwise(seen)]
    assert max(steps) <= 4, "two slices at most between two turns of another task"


async def test_what_comes_due_later_is_done_at_its_time() -> None:
    bench = Bench()
    done: list[float] = []
    bench.controller.during = lambda: done.append(anyio.current_time())
    async with anyio.create_task_group() as group:
        group.start_soon(bench.worker.run)
        await anyio.wait_all_tasks_blocked()
        began = anyio.current_time()
        bench.add(began + 30)
        bench.add(began + 10)
        bench.add(began + 20)
        await anyio.sleep(60)
        group.cancel_scope.cancel()

    assert done == [began + 10, began + 20, began + 30]


async def test_a_sleeping_worker_is_woken_only_for_what_comes_earlier() -> None:
    bench = Bench()
    async with anyio.create_task_group() as group:
        group.start_soon(bench.worker.run)
        await anyio.wait_all_tasks_blocked()
        began = anyio.current_time()
        bench.add(began + 10)
        await anyio.wait_all_tasks_blocked()
        asked = bench.controller.asked
        for _ in range(5):
            bench.add(began + 20)
            await anyio.wait_all_tasks_blocked()
        assert bench.controller.asked == asked + 5
        bench.add(began + 5)
        await anyio.wait_all_tasks_blocked()
        assert bench.controller.asked > asked + 6
        group.cancel_scope.cancel()


async def test_nothing_is_done_while_it_is_paused_and_all_of_it_afterwards() -> None:
    bench = Bench()
    bench.controller.may_work = False
    async with anyio.create_task_group() as group:
        group.start_soon(bench.worker.run)
        bench.add(0.0)
        await anyio.sleep(100)
        assert bench.controller.slices == []

        bench.controller.may_work = True
        bench.worker.wake()
        assert bench.controller.slices == [1]
        group.cancel_scope.cancel()


async def test_what_became_due_unnoticed_is_done_when_the_worker_starts() -> None:
    bench = Bench()
    bench.controller.due = [0.0]
    async with anyio.create_task_group() as group:
        group.start_soon(bench.worker.run)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()

    assert bench.controller.slices == [1]


async def test_a_change_from_within_a_time_slice_does_not_begin_another() -> None:
    bench = Bench()
    depth: list[int] = []

    def more() -> None:
        depth.append(len(bench.controller.slices))
        if len(depth) < 4:
            bench.add(0.0)

    bench.controller.during = more
    bench.add(0.0)

    assert bench.controller.slices == [4]


async def test_a_change_from_within_a_time_slice_that_is_over_is_left_to_the_run() -> None:
    bench = Bench(piece_s=TIME_SLICE_S)
    more = [0.0, 0.0]
    bench.controller.during = lambda: bench.add(more.pop()) if more else None
    async with anyio.create_task_group() as group:
        group.start_soon(bench.worker.run)
        await anyio.wait_all_tasks_blocked()
        bench.add(0.0)
        assert bench.controller.slices == [1]
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()

    assert bench.controller.slices == [1, 1, 1]


async def test_a_time_slice_that_fails_does_not_bar_the_next() -> None:
    bench = Bench()

    def fail() -> None:
        raise RuntimeError("a bug")

    bench.controller.during = fail
    with pytest.raises(RuntimeError, match="a bug"):
        bench.add(0.0)
    bench.controller.during = lambda: None
    bench.add(0.0)

    assert bench.controller.slices == [1, 1]


async def test_without_anything_due_it_sleeps_for_ever() -> None:
    bench = Bench()
    async with anyio.create_task_group() as group:
        group.start_soon(bench.worker.run)
        await anyio.wait_all_tasks_blocked()
        asked = bench.controller.asked
        await anyio.sleep(10_000)
        assert bench.controller.asked == asked
        assert bench.worker._sleeps_until == math.inf
        group.cancel_scope.cancel()


async def test_how_long_judging_took_is_reported_once_nothing_is_due_any_more() -> None:
    bench = Bench(piece_s=TIME_SLICE_S / 2)
    told = bench.cycles.seconds

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.worker.run)
        bench.add(*[0.0] * 5)
        assert told == [], "there is more to do"
        await anyio.sleep(1)
        assert told == [pytest.approx(5 * TIME_SLICE_S / 2)]
        bench.add(bench.controller.clock(), bench.controller.clock() + 60)
        assert told[1:] == [pytest.approx(TIME_SLICE_S / 2)]
        tasks.cancel_scope.cancel()
