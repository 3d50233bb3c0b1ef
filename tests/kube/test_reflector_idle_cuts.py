"""A proxy that cuts what is idle is found by the lives of watches, and met by shorter ones."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import isclose

import anyio
import pytest

from reactive_desched.kube.watch.interruptions import IdleCuts
from tests.support.manual_clock import wait_until
from tests.support.reflector_harness import ReflectorHarness
from tests.support.scripted_api import ScriptedApi

pytestmark = pytest.mark.anyio

IDLE_S = 9.0
SHORTER_S = 8
"""Of ten seconds: a watch is confirmed for a second first."""


def requested_for(api: ScriptedApi) -> list[int]:
    return [int(each.query["timeoutSeconds"]) for each in api.requests if each.kind == "watch"]


async def live_and_break(api: ScriptedApi, mirror: ReflectorHarness, lives_s: float) -> None:
    """Have the open watch break after so long, and wait until the next one settles."""
    opened = mirror.status.watches
    mirror.clock.advance(lives_s)
    api.cut_watches()
    await mirror.wait_until_stale()
    await wait_until(lambda: mirror.status.state == "waiting")
    with anyio.fail_after(60):
        while mirror.status.watches == opened:
            mirror.clock.advance(0.1)
            await anyio.sleep(0.001)
    await mirror.wait_until_confirmed()


async def wait_for_watch(mirror: ReflectorHarness, number: int) -> None:
    await wait_until(lambda: mirror.status.watches == number)


async def wait_for_events(mirror: ReflectorHarness, number: int) -> None:
    await wait_until(lambda: mirror.status.events == number)


async def test_watches_that_break_after_the_same_idle_time_are_followed_by_one_that_ends_before(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    async with mirror.running():
        await mirror.wait_until_fresh()
        for _ in range(2):
            await live_and_break(api, mirror, IDLE_S)
        assert requested_for(api)[-1] == SHORTER_S
        failures = mirror.status.failures
        for _ in range(5):
            opened = mirror.status.watches
            mirror.clock.advance(SHORTER_S)
            api.end_watches()
            await wait_for_watch(mirror, opened + 1)
            assert mirror.is_fresh
        assert mirror.status.failures == failures
        assert mirror.status.relists == 0, "that watches bring nothing is expected"


async def test_watches_that_break_after_different_times_stay_long(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    async with mirror.running():
        await mirror.wait_until_fresh()
        for lives_s in (IDLE_S, 3 * IDLE_S):
            await live_and_break(api, mirror, lives_s)
    assert min(requested_for(api)) >= 300


async def test_a_watch_that_brought_something_was_not_idle(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    async with mirror.running():
        await mirror.wait_until_fresh()
        for events in (1, 2):
            api.put("a", str(events))
            await wait_for_events(mirror, events)
            await live_and_break(api, mirror, IDLE_S)
    assert min(requested_for(api)) >= 300


def test_after_ten_minutes_a_long_watch_is_tried_and_one_that_breaks_again_is_enough() -> None:
    cuts = IdleCuts()
    for now in (60.0, 121.0):
        cuts.note(60.0, now)
    assert cuts.limit_s(400.0, 121.0) == 48
    assert cuts.limit_s(400.0, 720.0) == 48
    assert cuts.limit_s(400.0, 721.0) == 400.0
    cuts.note(60.2, 781.0)
    assert cuts.limit_s(400.0, 781.0) == 48


@pytest.mark.parametrize(
    ("first", "second", "limit"),
    [
        pytest.param(60.0, 63.0, 50, id="nearly as long"),
        pytest.param(60.0, 80.0, 400, id="not as long"),
        pytest.param(2.0, 2.0, 1, id="a whole second"),
        pytest.param(1.2, 1.2, 400, id="less than a whole second can meet"),
        pytest.param(0.1, 0.1, 400, id="no life of an idle watch"),
        pytest.param(1000.0, 1000.0, 400, id="no longer than wanted"),
    ],
)
def test_lives_count_as_the_same_within_a_tenth_or_half_a_second(
    first: float, second: float, limit: int
) -> None:
    cuts = IdleCuts()
    cuts.note(first, 0.0)
    cuts.note(second, 0.0)
    assert cuts.limit_s(400.0, 0.0) == limit


@asynccontextmanager
async def stale_with_a_limited_watch(
    api: ScriptedApi, mirror: ReflectorHarness
) -> AsyncIterator[None]:
    """Run the block when a watch has just been opened that is to end before it is cut."""
    async with mirror.running():
        await mirror.wait_until_fresh()
        for _ in range(2):
            await live_and_break(api, mirror, IDLE_S)
        opened = mirror.status.watches
        mirror.clock.advance(IDLE_S)
        mirror.epoch.advance("the process was suspended")
        await mirror.wait_until_stale()
        await wait_for_watch(mirror, opened + 1)
        assert requested_for(api)[-1] == SHORTER_S
        await wait_until(lambda: api.open_watches == 1)
        await wait_until(lambda: any(isclose(wait, 1.0) for wait in mirror.clock.pending_waits_s))
        yield


async def test_a_limited_watch_that_the_server_ends_after_four_fifths_of_a_second_makes_synced(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    async with stale_with_a_limited_watch(api, mirror):
        opened = mirror.status.watches
        mirror.clock.advance(0.85)
        assert not mirror.is_fresh
        api.end_watches()
        await mirror.wait_until_fresh()
        await wait_for_watch(mirror, opened + 1)


@pytest.mark.parametrize("lives_s", [0.0, 0.75])
async def test_a_limited_watch_that_the_server_ends_sooner_does_not(
    api: ScriptedApi, mirror: ReflectorHarness, lives_s: float
) -> None:
    async with stale_with_a_limited_watch(api, mirror):
        failures = mirror.status.failures
        mirror.clock.advance(lives_s)
        api.end_watches()
        await wait_until(lambda: mirror.status.failures == failures + 1)
        assert not mirror.is_fresh


async def test_a_limited_watch_that_breaks_does_not(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    async with stale_with_a_limited_watch(api, mirror):
        failures = mirror.status.failures
        mirror.clock.advance(0.95)
        api.cut_watches()
        await wait_until(lambda: mirror.status.failures == failures + 1)
        assert not mirror.is_fresh


async def test_a_limited_watch_of_before_a_suspension_does_not(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    async with stale_with_a_limited_watch(api, mirror):
        opened = mirror.status.watches
        mirror.clock.advance(0.95)
        mirror.epoch.advance("the process was suspended once more")
        api.end_watches()
        await wait_for_watch(mirror, opened + 1)
        assert not mirror.is_fresh


async def test_a_long_watch_that_the_server_ends_before_the_delay_does_not_make_synced(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    async with mirror.running():
        await mirror.wait_until_fresh()
        mirror.clock.advance(IDLE_S)
        api.cut_watches()
        mirror.clock.advance(await mirror.wait_for_backoff())
        await wait_for_watch(mirror, 2)
        await wait_until(lambda: any(isclose(wait, 1.0) for wait in mirror.clock.pending_waits_s))
        mirror.clock.advance(0.95)
        api.end_watches()
        await mirror.wait_for_backoff(2)
        assert not mirror.is_fresh
