"""Watches break again and again: the kind stays in sync for a while, and decisions wait for it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from reactive_desched.kube.watch.interruptions import KEPT_FOR_S, Interruptions
from reactive_desched.kube.watch.late_watches import LateWatches
from tests.support.exposition import exposed
from tests.support.manual_clock import ManualClock, pass_time, wait_until
from tests.support.reflector_harness import ReflectorHarness
from tests.support.scripted_api import ScriptedApi, error_line, failing

pytestmark = [pytest.mark.anyio, pytest.mark.waits]

PODS, NODES, JOBS = "/api/v1/pods", "/api/v1/nodes", "/apis/batch/v1/jobs"
LIVES_S = (1.3, 2.6, 1.9)
"""No two alike in a row: nothing is cut for being idle."""
SETTLED_S = 1.2
"""So long after it was opened a watch has brought what was missed."""


@pytest.fixture
def late(mirror: ReflectorHarness) -> LateWatches:
    return LateWatches(mirror.clock)


async def is_open_again(api: ScriptedApi, mirror: ReflectorHarness, opened: int) -> None:
    with anyio.fail_after(60):
        while mirror.status.watches == opened or not api.open_watches:
            await pass_time(mirror.clock, 0.1)


@asynccontextmanager
async def interrupted(
    api: ScriptedApi, mirror: ReflectorHarness, late: LateWatches
) -> AsyncIterator[None]:
    """Reflect while the block runs, after three watches in sync broke within some seconds."""
    async with mirror.running(late_watches=late):
        await mirror.wait_until_fresh()
        for life_s in LIVES_S:
            opened = mirror.status.watches
            await pass_time(mirror.clock, life_s)
            assert mirror.is_fresh
            api.cut_watches()
            await wait_until(lambda: mirror.status.state == "waiting")
            await is_open_again(api, mirror, opened)
            await pass_time(mirror.clock, SETTLED_S)
        assert late.interruptions.are_frequent
        mirror.handler.calls.clear()
        yield


async def is_waiting_for(late: LateWatches, since: float) -> bool:
    """Say whether a decision of that moment waits, without letting time pass."""
    with anyio.move_on_after(0.05) as scope:
        await late.caught_up(since)
    return scope.cancelled_caught


@pytest.mark.parametrize(
    ("breaks", "are_frequent"),
    [
        pytest.param([(PODS, 0), (PODS, 30), (PODS, 59)], True, id="one kind thrice in a minute"),
        pytest.param([(PODS, 0), (PODS, 30), (PODS, 61)], False, id="in more than a minute"),
        pytest.param([(PODS, 0), (PODS, 1)], False, id="twice"),
        pytest.param([(PODS, 0), (NODES, 0), (JOBS, 0)], False, id="each kind once"),
        pytest.param([(PODS, 0), (PODS, 31), (PODS, 61), (PODS, 90)], True, id="the last three"),
    ],
)
def test_a_kind_that_loses_its_watch_three_times_within_a_minute_has_many_interruptions(
    breaks: list[tuple[str, int]], *, are_frequent: bool
) -> None:
    clock = ManualClock()
    interruptions, began = Interruptions(clock), clock.now()
    for path, at in breaks:
        clock.advance(began + at - clock.now())
        interruptions.note(path)
    assert interruptions.are_frequent is are_frequent
    assert bool(interruptions.message()) is are_frequent
    assert exposed(interruptions)["reflector_interrupted_watches"] == are_frequent


def test_interruptions_are_many_until_ten_minutes_after_the_last_one() -> None:
    clock = ManualClock()
    interruptions = Interruptions(clock)
    for _ in range(3):
        interruptions.note(PODS)
    clock.advance(599)
    interruptions.note(NODES)
    clock.advance(599)
    assert interruptions.are_frequent
    clock.advance(1)
    assert not interruptions.are_frequent


async def test_a_kind_whose_watch_breaks_again_and_again_stays_in_sync_while_it_is_opened_anew(
    api: ScriptedApi, mirror: ReflectorHarness, late: LateWatches
) -> None:
    async with interrupted(api, mirror, late):
        api.answer_next("watch", *[failing(503)] * 4)
        opened = mirror.status.watches
        api.cut_watches()
        await is_open_again(api, mirror, opened)
        await pass_time(mirror.clock, SETTLED_S)
        assert "stale" not in mirror.handler.calls
    assert api.count("list") == 1, "that they bring nothing is no reason for a new list"


async def test_a_decision_waits_until_the_watch_has_been_open_for_a_second(
    api: ScriptedApi, mirror: ReflectorHarness, late: LateWatches
) -> None:
    async with interrupted(api, mirror, late):
        assert not await is_waiting_for(late, mirror.clock.now())
        opened = mirror.status.watches
        api.cut_watches()
        await wait_until(lambda: mirror.status.state == "waiting")
        api.put("a", "protected")
        mirror.clock.advance(0.01)
        decided_at = mirror.clock.now()
        assert await is_waiting_for(late, decided_at)
        await is_open_again(api, mirror, opened)
        assert await is_waiting_for(late, decided_at), "what it missed may not have come yet"
        await pass_time(mirror.clock, SETTLED_S)
        assert not await is_waiting_for(late, decided_at)
        assert mirror.objects == {"a": "protected"}


async def test_a_watch_that_breaks_within_a_second_has_shown_nothing(
    api: ScriptedApi, mirror: ReflectorHarness, late: LateWatches
) -> None:
    async with interrupted(api, mirror, late):
        opened = mirror.status.watches
        api.cut_watches()
        await wait_until(lambda: mirror.status.state == "waiting")
        decided_at = mirror.clock.now()
        await is_open_again(api, mirror, opened)
        api.cut_watches()
        await wait_until(lambda: mirror.status.state == "waiting")
        assert await is_waiting_for(late, decided_at)
        assert mirror.is_fresh


async def test_a_kind_is_out_of_sync_when_it_was_not_read_for_twenty_seconds(
    api: ScriptedApi, mirror: ReflectorHarness, late: LateWatches
) -> None:
    async with interrupted(api, mirror, late):
        api.answer_next("watch", *[failing(503)] * 1000)
        api.cut_watches()
        await wait_until(lambda: mirror.status.state == "waiting")
        await pass_time(mirror.clock, KEPT_FOR_S - 5)
        assert mirror.is_fresh
        await pass_time(mirror.clock, 6)
        assert not mirror.is_fresh
        assert "503" in mirror.handler.reason
        assert not await is_waiting_for(late, mirror.clock.now()), "the pause stops it"
        opened = mirror.status.watches
        api.clear_script()
        await is_open_again(api, mirror, opened)
        await pass_time(mirror.clock, SETTLED_S)
        assert mirror.is_fresh


@pytest.mark.parametrize("code", [401, 403, 410])
async def test_what_no_proxy_does_makes_a_kind_stale_at_once(
    api: ScriptedApi, mirror: ReflectorHarness, late: LateWatches, code: int
) -> None:
    async with interrupted(api, mirror, late):
        api.send_raw(error_line(code, "AsScripted", "no"))
        await mirror.wait_until_stale()


async def test_a_kind_whose_watch_the_server_ended_is_not_in_sync_for_long_without_another(
    api: ScriptedApi, mirror: ReflectorHarness, late: LateWatches
) -> None:
    held = anyio.Event()
    async with mirror.running(late_watches=late):
        await mirror.wait_until_fresh()
        await pass_time(mirror.clock, 2)
        api.before_answering = held.wait
        api.end_watches()
        await wait_until(lambda: api.count("watch") == 2)
        assert mirror.is_fresh
        mirror.clock.advance(0.01)
        assert await is_waiting_for(late, mirror.clock.now())
        await pass_time(mirror.clock, KEPT_FOR_S - 1)
        assert mirror.is_fresh
        await pass_time(mirror.clock, 1.5)
        assert not mirror.is_fresh
        held.set()
        await wait_until(lambda: api.open_watches == 1)
        await pass_time(mirror.clock, SETTLED_S)
        assert mirror.is_fresh


async def test_a_watch_that_follows_a_regular_end_at_once_is_not_waited_for(
    api: ScriptedApi, mirror: ReflectorHarness, late: LateWatches
) -> None:
    async with mirror.running(late_watches=late):
        await mirror.wait_until_fresh()
        await pass_time(mirror.clock, 2)
        api.end_watches()
        await wait_until(lambda: api.count("watch") == 2 and mirror.status.watches == 2)
        mirror.clock.advance(0.01)
        assert not await is_waiting_for(late, mirror.clock.now())
        await pass_time(mirror.clock, KEPT_FOR_S + 5)
        assert mirror.handler.calls.count("fresh") == 1
        assert "stale" not in mirror.handler.calls


async def test_a_watch_that_follows_a_regular_end_and_breaks_at_once_has_shown_nothing(
    api: ScriptedApi, mirror: ReflectorHarness, late: LateWatches
) -> None:
    held = anyio.Event()
    async with interrupted(api, mirror, late):
        opened = mirror.status.watches
        await pass_time(mirror.clock, 1)
        api.before_answering = held.wait
        api.end_watches()
        await wait_until(lambda: api.requests[-1].kind == "watch" and not api.open_watches)
        mirror.clock.advance(0.3)
        decided_at = mirror.clock.now()
        mirror.clock.advance(0.1)
        held.set()
        await wait_until(lambda: mirror.status.watches > opened and api.open_watches == 1)
        assert not await is_waiting_for(late, decided_at)
        api.cut_watches()
        await wait_until(lambda: mirror.status.state == "waiting")
        assert mirror.is_fresh
        assert await is_waiting_for(late, decided_at)
