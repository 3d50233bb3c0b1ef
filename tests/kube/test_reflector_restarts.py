"""The API server was restarted: its watch cache is new, so that no watch goes on from before."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import anyio
import pytest

from reactive_desched.kube.client.session import Session
from reactive_desched.kube.watch.interruptions import KEPT_FOR_S
from reactive_desched.kube.watch.reflector import Reflector
from reactive_desched.kube.watch.resume import ServerProbe
from tests.support.fake_resource import FakeCodec, FakeObject, RecordingEventHandler
from tests.support.manual_clock import ManualClock, pass_time, wait_until
from tests.support.reflector_harness import PAGED_LIST, ReflectorHarness
from tests.support.scripted_api import ScriptedApi, error_line, failing

pytestmark = pytest.mark.anyio

DOWN_S = KEPT_FOR_S + 2.0
"""A kind that loses its watch again and again counts as in sync for that long."""
DOWN = failing(502)
FILLS_ITS_CACHE = failing(429, "TooManyRequests", **{"Retry-After": "1"})
EXPIRED = error_line(410, "Expired", "too old")


async def live_through_an_outage(api: ScriptedApi, mirror: ReflectorHarness) -> None:
    """See an outage of a server whose list is young; return before the last wait of it ends."""
    await mirror.wait_until_fresh()
    mirror.clock.advance(2)
    api.answer_next("watch", *[DOWN] * 1000)
    api.cut_watches()
    await mirror.wait_until_stale()
    while mirror.status.failures < 4:
        mirror.clock.advance(await mirror.wait_for_backoff(mirror.status.failures))
        await wait_until(lambda: bool(mirror.clock.pending_waits_s))
    api.clear_script()


async def test_a_young_list_is_renewed_at_once_when_the_history_is_gone_after_an_outage(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    api.put("a", "1")
    async with mirror.running():
        await live_through_an_outage(api, mirror)
        api.delete_silently("a")
        api.compact()
        mirror.clock.advance(await mirror.wait_for_backoff(mirror.status.failures))
        await mirror.wait_until_fresh()
    assert mirror.objects == {}
    assert api.count("list") == 2


async def outage_of_a_server_without_history(
    api: ScriptedApi,
    clock: ManualClock,
    handlers: list[RecordingEventHandler],
    back_s: float,
    fills_s: float = 0.0,
) -> float:
    """Have the server be down for 15 s, then up for `back_s`; return when all are fresh again.

    Its cache is filled `fills_s` after its start, which the time begins with.
    """
    for kind in ("list", "watch", "GET"):
        api.answer_next(kind, *[DOWN] * 1000)
    api.cut_watches()
    await pass_time(clock, DOWN_S)
    api.clear_script()
    api.compact()
    if fills_s:
        api.answer_next("watch", *[FILLS_ITS_CACHE] * 1000)
        await pass_time(clock, fills_s)
        api.clear_script()
    fresh_after_s = 0.0
    while not all(handler.is_fresh for handler in handlers):
        await pass_time(clock, 0.1)
        fresh_after_s += 0.1
    await pass_time(clock, max(back_s - fresh_after_s, 0.0))
    return fresh_after_s


async def test_each_of_ten_outages_that_follow_one_another_soon_is_over_in_no_time(
    api: ScriptedApi, session: Session, clock: ManualClock
) -> None:
    probe = ServerProbe(session, clock, Random(7))
    async with reflecting(session, probe, clock, 3) as handlers:
        await wait_until(lambda: all(handler.is_fresh for handler in handlers))
        await pass_time(clock, 8)
        took_s = [
            await outage_of_a_server_without_history(api, clock, handlers, 8) for _ in range(10)
        ]
    assert max(took_s) < 2.5, took_s


@pytest.mark.parametrize("fills_s", [2.0, 6.0])
async def test_kinds_whose_cache_a_server_fills_after_its_start_wait_for_hardly_more_than_it_asks(
    api: ScriptedApi, session: Session, clock: ManualClock, fills_s: float
) -> None:
    probe = ServerProbe(session, clock, Random(7))
    async with reflecting(session, probe, clock, 3) as handlers:
        await wait_until(lambda: all(handler.is_fresh for handler in handlers))
        await pass_time(clock, 60)
        took_s = [
            await outage_of_a_server_without_history(api, clock, handlers, 60, fills_s)
            for _ in range(3)
        ]
    assert max(took_s) < 1.5, took_s


async def test_a_server_that_goes_down_right_after_each_list_is_listed_ever_more_seldom(
    api: ScriptedApi, session: Session, clock: ManualClock
) -> None:
    probe = ServerProbe(session, clock, Random(7))
    async with reflecting(session, probe, clock, 1) as handlers:
        await wait_until(lambda: all(handler.is_fresh for handler in handlers))
        await pass_time(clock, 1)
        took_s = [
            await outage_of_a_server_without_history(api, clock, handlers, 0) for _ in range(8)
        ]
    assert max(took_s) > 4, took_s


async def test_a_server_that_fills_its_cache_is_asked_as_soon_as_it_wishes_after_an_outage(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    async with mirror.running():
        await live_through_an_outage(api, mirror)
        api.answer_next("watch", *[FILLS_ITS_CACHE] * 4)
        mirror.clock.advance(await mirror.wait_for_backoff(mirror.status.failures))
        before = mirror.status.failures
        for nth in range(1, 5):
            wait_s = await mirror.wait_for_backoff(before + nth)
            assert 1.0 <= wait_s <= 1.25
            mirror.clock.advance(wait_s)
        await mirror.wait_until_confirmed()


@pytest.mark.parametrize("lives_s", [0.0, 1.5, 4.0])
async def test_a_server_whose_watches_all_expire_is_listed_ever_more_seldom(
    api: ScriptedApi, mirror: ReflectorHarness, lives_s: float
) -> None:
    async def expire() -> None:
        while True:
            await wait_until(lambda: api.open_watches == 1, within_s=1000)
            await mirror.clock.sleep(lives_s)
            api.send_raw(EXPIRED)
            while api.open_watches:  # the next may be open within a millisecond
                await anyio.lowlevel.checkpoint()

    async with mirror.running(), anyio.create_task_group() as beside:
        beside.start_soon(expire)
        await pass_time(mirror.clock, 60)
        assert 3 <= api.count("list") <= 9
        await pass_time(mirror.clock, 60)
        assert api.count("list") <= 14
        beside.cancel_scope.cancel()


@asynccontextmanager
async def reflecting(
    session: Session, probe: ServerProbe, clock: ManualClock, count: int
) -> AsyncIterator[list[RecordingEventHandler]]:
    handlers = [RecordingEventHandler() for _ in range(count)]
    async with anyio.create_task_group() as beside:
        beside.start_soon(probe.run)
        for number, handler in enumerate(handlers):
            reflector: Reflector[FakeObject] = Reflector(
                session,
                FakeCodec(),
                handler,
                clock=clock,
                rng=Random(number),
                settings=PAGED_LIST,
                probe=probe,
            )
            beside.start_soon(reflector.run)
        yield handlers
        beside.cancel_scope.cancel()


async def test_one_kind_that_is_served_ends_the_waits_of_the_others_though_the_probe_fails(
    api: ScriptedApi, session: Session, clock: ManualClock
) -> None:
    probe = ServerProbe(session, clock)
    async with reflecting(session, probe, clock, 6) as handlers:
        await wait_until(lambda: all(handler.is_fresh for handler in handlers))
        await pass_time(clock, 2)
        for kind in ("list", "watch"):
            api.answer_next(kind, *[DOWN] * 1000)
        api.answer_next("GET", *[failing(500)] * 1000)
        api.cut_watches()
        await pass_time(clock, 60)
        api.clear_script()
        api.answer_next("GET", *[failing(500)] * 1000)
        api.compact()
        await wait_until_any_is_fresh(clock, handlers)
        await pass_time(clock, 2.0)
        assert all(handler.is_fresh for handler in handlers)


async def wait_until_any_is_fresh(
    clock: ManualClock, handlers: list[RecordingEventHandler]
) -> None:
    while not any(handler.is_fresh for handler in handlers):
        await pass_time(clock, 0.1)


async def test_kinds_that_wait_for_the_server_do_not_all_ask_in_the_moment_of_its_return(
    api: ScriptedApi, session: Session, clock: ManualClock
) -> None:
    probe = ServerProbe(session, clock, Random(7))
    async with reflecting(session, probe, clock, 6) as handlers:
        await wait_until(lambda: all(handler.is_fresh for handler in handlers))
        await pass_time(clock, 2)
        for kind in ("list", "watch", "GET"):
            api.answer_next(kind, *[DOWN] * 1000)
        api.cut_watches()
        await pass_time(clock, 60)
        api.clear_script()
        asked = []
        before = api.count("watch")
        while not all(handler.is_fresh for handler in handlers):
            await pass_time(clock, 0.1)
            asked.append(api.count("watch") - before)
            before += asked[-1]
    assert max(asked) < 5
