import anyio
import pytest
from anyio.lowlevel import checkpoint

from reactive_desched.errors import ConfigError, RateLimited
from reactive_desched.kube.client.rate_limiter import RateLimit, RateLimiter, RequestPriority
from tests.support.manual_clock import ManualClock, wait_until

pytestmark = pytest.mark.anyio


def take_all(throttle: RateLimiter, lane: RequestPriority) -> int:
    taken = 0
    while throttle.try_accept(lane):
        taken += 1
    return taken


async def test_a_burst_is_free_and_leaves_the_reserve_to_evictions(clock: ManualClock) -> None:
    throttle = RateLimiter(RateLimit(qps=10, burst=10, critical_reserve=3), clock)
    assert take_all(throttle, RequestPriority.BACKGROUND) == 7
    assert take_all(throttle, RequestPriority.WATCH) == 0
    assert take_all(throttle, RequestPriority.CRITICAL) == 3


async def test_tokens_come_back_at_the_rate_up_to_the_burst(clock: ManualClock) -> None:
    throttle = RateLimiter(RateLimit(qps=10, burst=10, critical_reserve=0), clock)
    take_all(throttle, RequestPriority.CRITICAL)
    clock.advance(0.5)
    assert take_all(throttle, RequestPriority.CRITICAL) == 5
    clock.advance(3600)
    assert take_all(throttle, RequestPriority.CRITICAL) == 10


async def test_a_waiting_call_of_a_higher_priority_goes_first(clock: ManualClock) -> None:
    throttle = RateLimiter(RateLimit(qps=1, burst=1, critical_reserve=0), clock)
    throttle.try_accept(RequestPriority.CRITICAL)
    served: list[RequestPriority] = []

    async def call(lane: RequestPriority) -> None:
        await throttle.wait(lane)
        served.append(lane)

    async with anyio.create_task_group() as calls:
        for lane in (
            RequestPriority.BACKGROUND,
            RequestPriority.BACKGROUND,
            RequestPriority.WATCH,
            RequestPriority.CRITICAL,
        ):
            calls.start_soon(call, lane)
        await wait_until(lambda: throttle.waiting == 4)
        for count in range(1, 5):
            await advance_until(clock, served, count)
    assert served == [
        RequestPriority.CRITICAL,
        RequestPriority.WATCH,
        RequestPriority.BACKGROUND,
        RequestPriority.BACKGROUND,
    ]


async def test_no_call_overtakes_a_waiting_one_of_the_same_priority(clock: ManualClock) -> None:
    throttle = RateLimiter(RateLimit(qps=1, burst=1, critical_reserve=0), clock)
    throttle.try_accept(RequestPriority.CRITICAL)
    async with anyio.create_task_group() as calls:
        calls.start_soon(throttle.wait, RequestPriority.BACKGROUND)
        await wait_until(lambda: throttle.waiting == 1)
        clock._elapsed_s += 5  # time has passed, but the waiting call has not been woken yet
        assert not throttle.try_accept(RequestPriority.BACKGROUND)
        assert throttle.try_accept(RequestPriority.CRITICAL)
        clock.advance(5)
    assert throttle.waiting == 0


async def test_too_many_waiting_calls_are_refused_and_counted(clock: ManualClock) -> None:
    throttle = RateLimiter(RateLimit(qps=1, burst=1, critical_reserve=0, max_waiting=2), clock)
    throttle.try_accept(RequestPriority.CRITICAL)
    async with anyio.create_task_group() as calls:
        calls.start_soon(throttle.wait, RequestPriority.BACKGROUND)
        calls.start_soon(throttle.wait, RequestPriority.BACKGROUND)
        await wait_until(lambda: throttle.waiting == 2)
        with pytest.raises(RateLimited, match="2 calls already wait"):
            await throttle.wait(RequestPriority.BACKGROUND)
        assert throttle.rejected == 1
        calls.cancel_scope.cancel()


async def test_a_cancelled_call_gives_its_place_up(clock: ManualClock) -> None:
    throttle = RateLimiter(RateLimit(qps=1, burst=1, critical_reserve=0), clock)
    throttle.try_accept(RequestPriority.CRITICAL)
    async with anyio.create_task_group() as calls:
        calls.start_soon(throttle.wait, RequestPriority.CRITICAL)
        await wait_until(lambda: throttle.waiting == 1)
        calls.cancel_scope.cancel()
    assert throttle.waiting == 0
    clock.advance(1)
    assert throttle.try_accept(RequestPriority.BACKGROUND)


async def test_the_time_spent_waiting_is_counted(clock: ManualClock) -> None:
    throttle = RateLimiter(RateLimit(qps=1, burst=1, critical_reserve=0), clock)
    throttle.try_accept(RequestPriority.CRITICAL)
    async with anyio.create_task_group() as calls:
        calls.start_soon(throttle.wait, RequestPriority.BACKGROUND)
        await wait_until(lambda: throttle.waiting == 1)
        clock.advance(1)
    assert throttle.waited_s == pytest.approx(1.0)


@pytest.mark.parametrize(("per_s", "burst", "reserve"), [(0, 10, 0), (1, 10, 10), (1, 10, -1)])
async def test_a_rate_that_lets_nothing_through_is_refused(
    per_s: float, burst: int, reserve: int
) -> None:
    with pytest.raises(ConfigError, match="lets nothing through"):
        RateLimit(per_s, burst, reserve)


async def advance_until(clock: ManualClock, served: list[RequestPriority], count: int) -> None:
    for _ in range(1000):
        if len(served) == count:
            return
        clock.advance(0.05)
        for _ in range(5):
            await checkpoint()
    raise AssertionError(f"only {served} were served")
