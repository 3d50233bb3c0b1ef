import anyio
import pytest
from anyio.lowlevel import checkpoint

from reactive_desched.errors import ConfigError, Saturated
from reactive_desched.kube.client.rate_limiter import Lane, Rate, Throttle
from reactive_desched.testing.manual_clock import ManualClock, until

pytestmark = pytest.mark.anyio


def take_all(throttle: Throttle, lane: Lane) -> int:
    taken = 0
    while throttle.take(lane):
        taken += 1
    return taken


async def test_a_burst_is_free_and_leaves_the_reserve_to_evictions(clock: ManualClock) -> None:
    throttle = Throttle(Rate(per_s=10, burst=10, reserve=3), clock)
    assert take_all(throttle, Lane.BULK) == 7
    assert take_all(throttle, Lane.WATCH) == 0
    assert take_all(throttle, Lane.ACT) == 3


async def test_tokens_come_back_at_the_rate_up_to_the_burst(clock: ManualClock) -> None:
    throttle = Throttle(Rate(per_s=10, burst=10, reserve=0), clock)
    take_all(throttle, Lane.ACT)
    clock.advance(0.5)
    assert take_all(throttle, Lane.ACT) == 5
    clock.advance(3600)
    assert take_all(throttle, Lane.ACT) == 10


async def test_a_waiting_call_of_a_higher_lane_goes_first(clock: ManualClock) -> None:
    throttle = Throttle(Rate(per_s=1, burst=1, reserve=0), clock)
    throttle.take(Lane.ACT)
    served: list[Lane] = []

    async def call(lane: Lane) -> None:
        await throttle.wait(lane)
        served.append(lane)

    async with anyio.create_task_group() as calls:
        for lane in (Lane.BULK, Lane.BULK, Lane.WATCH, Lane.ACT):
            calls.start_soon(call, lane)
        await until(lambda: throttle.waiting == 4)
        for count in range(1, 5):
            await advance_until(clock, served, count)
    assert served == [Lane.ACT, Lane.WATCH, Lane.BULK, Lane.BULK]


async def test_nobody_overtakes_a_waiting_call_of_the_same_lane(clock: ManualClock) -> None:
    throttle = Throttle(Rate(per_s=1, burst=1, reserve=0), clock)
    throttle.take(Lane.ACT)
    async with anyio.create_task_group() as calls:
        calls.start_soon(throttle.wait, Lane.BULK)
        await until(lambda: throttle.waiting == 1)
        clock._passed += 5  # time has passed, but the waiting call has not been woken yet
        assert not throttle.take(Lane.BULK)
        assert throttle.take(Lane.ACT)
        clock.advance(5)
    assert throttle.waiting == 0


async def test_too_many_waiting_calls_are_refused_and_counted(clock: ManualClock) -> None:
    throttle = Throttle(Rate(per_s=1, burst=1, reserve=0, waiting=2), clock)
    throttle.take(Lane.ACT)
    async with anyio.create_task_group() as calls:
        calls.start_soon(throttle.wait, Lane.BULK)
        calls.start_soon(throttle.wait, Lane.BULK)
        await until(lambda: throttle.waiting == 2)
        with pytest.raises(Saturated, match="2 calls already wait"):
            await throttle.wait(Lane.BULK)
        assert throttle.refused == 1
        calls.cancel_scope.cancel()


async def test_a_cancelled_call_gives_its_place_up(clock: ManualClock) -> None:
    throttle = Throttle(Rate(per_s=1, burst=1, reserve=0), clock)
    throttle.take(Lane.ACT)
    async with anyio.create_task_group() as calls:
        calls.start_soon(throttle.wait, Lane.ACT)
        await until(lambda: throttle.waiting == 1)
        calls.cancel_scope.cancel()
    assert throttle.waiting == 0
    clock.advance(1)
    assert throttle.take(Lane.BULK)


async def test_the_time_spent_waiting_is_counted(clock: ManualClock) -> None:
    throttle = Throttle(Rate(per_s=1, burst=1, reserve=0), clock)
    throttle.take(Lane.ACT)
    async with anyio.create_task_group() as calls:
        calls.start_soon(throttle.wait, Lane.BULK)
        await until(lambda: throttle.waiting == 1)
        clock.advance(1)
    assert throttle.waited_s == pytest.approx(1.0)


@pytest.mark.parametrize(("per_s", "burst", "reserve"), [(0, 10, 0), (1, 10, 10), (1, 10, -1)])
async def test_a_rate_that_lets_nothing_through_is_refused(
    per_s: float, burst: int, reserve: int
) -> None:
    with pytest.raises(ConfigError, match="lets nothing through"):
        Rate(per_s, burst, reserve)


async def advance_until(clock: ManualClock, served: list[Lane], count: int) -> None:
    for _ in range(1000):
        if len(served) == count:
            return
        clock.advance(0.05)
        for _ in range(5):
            await checkpoint()
    raise AssertionError(f"only {served} were served")
