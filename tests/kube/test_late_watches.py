"""What is between us and the API server delays what a watch brings, or the watch is dead."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest
from aiohttp import web
from msgspec.structs import replace

from reactive_desched.kube.client.rate_limiter import RateLimit
from reactive_desched.kube.client.session import KubeConfigOptions, RequestLimits, open_session
from reactive_desched.kube.watch.late_watches import LIVE, LateWatches
from reactive_desched.kube.watch.settings import ReflectorSettings
from tests.support.manual_clock import ManualClock, run_clock, wait_until
from tests.support.misbehaving_proxy import (
    Buffered,
    Fault,
    HeadersWithTheFirstByte,
    HeldAndCut,
    MisbehavingProxy,
)
from tests.support.reflector_harness import PAGED_LIST, STREAMING_LIST, ReflectorHarness
from tests.support.scripted_api import ReceivedRequest, ScriptedApi, error_line, failing

pytestmark = [pytest.mark.anyio, pytest.mark.waits]

SILENT_S = 15
KNOWN_WITHIN_S = 2 * SILENT_S + 15  # on the test's clock, also on a busy machine


def watches(fault: Fault) -> Callable[[web.Request], Fault | None]:
    return lambda request: fault if request.query.get("watch") == "true" else None


@asynccontextmanager
async def passing_time(clock: ManualClock) -> AsyncIterator[None]:
    """Let the test's clock run ten times as fast as the machine's."""
    async with anyio.create_task_group() as beside:
        beside.start_soon(run_clock, clock, 10)
        yield
        beside.cancel_scope.cancel()


@asynccontextmanager
async def behind(
    api: ScriptedApi, kubeconfig: Callable[..., Path], fault: Fault | Callable[[ManualClock], Fault]
) -> AsyncIterator[ReflectorHarness]:
    async with MisbehavingProxy(api.url, lambda _: None).serving() as proxy:
        config = KubeConfigOptions(kubeconfig=str(kubeconfig(proxy.url)))
        limits = RequestLimits(open_s=2.0)
        rate = RateLimit(qps=10_000, burst=10_000)
        async with open_session(config, limits=limits, rate_limit=rate) as session:
            mirror = ReflectorHarness(session)
            proxy.fault_of = watches(fault(mirror.clock) if callable(fault) else fault)
            # Else it would end short watches before their time by this clock.
            api.clock = mirror.clock
            yield mirror


async def seconds_until(mirror: ReflectorHarness, condition: Callable[[], bool]) -> float:
    began = mirror.clock.now()
    with anyio.fail_after(60):
        while not condition():  # noqa: ASYNC110  what is waited for knows nothing of events
            await anyio.sleep(0.005)
    return mirror.clock.now() - began


@pytest.mark.parametrize("settings", [PAGED_LIST, STREAMING_LIST], ids=["paged", "streaming"])
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Buffered(), id="headers and all"),
        pytest.param(Buffered(holds_headers=False), id="all"),
        pytest.param(Buffered(4096, holds_headers=False), id="4 KiB"),
        pytest.param(HeadersWithTheFirstByte(), id="headers"),
    ],
)
async def test_a_change_that_a_proxy_delays_is_known_within_half_a_minute(
    api: ScriptedApi, kubeconfig: Callable[..., Path], fault: Fault, settings: ReflectorSettings
) -> None:
    api.streaming = True
    api.put("a", "1")
    async with (
        behind(api, kubeconfig, fault) as mirror,
        passing_time(mirror.clock),
        mirror.running(settings),
    ):
        await seconds_until(mirror, lambda: mirror.is_fresh)
        for value in ("2", "3"):
            api.put("a", value)
            took_s = await seconds_until(mirror, partial(mirror.holds, a=value))
            assert took_s <= KNOWN_WITHIN_S
        await seconds_until(mirror, lambda: mirror.is_fresh)


@pytest.mark.parametrize("fault", [Buffered(), Buffered(holds_headers=False)])
async def test_a_start_behind_a_proxy_that_buffers_awaits_no_time_limit_of_a_watch(
    api: ScriptedApi, kubeconfig: Callable[..., Path], fault: Buffered
) -> None:
    api.streaming = True
    api.put("a", "1")
    async with behind(api, kubeconfig, fault) as mirror, passing_time(mirror.clock):
        late = LateWatches(mirror.clock)
        soon = replace(STREAMING_LIST, first_byte_s=0.5)
        async with mirror.running(soon, late_watches=late):
            await seconds_until(mirror, lambda: mirror.is_fresh)
        assert late.are_late is fault.holds_headers
        streamed, listed, watched = [each.query for each in api.requests[:3]]
        assert streamed["sendInitialEvents"] == "true"
        assert "watch" not in listed
        assert watched["timeoutSeconds"] == str(LateWatches.FIRST_S)


async def test_a_busy_server_whose_streaming_list_begins_late_is_asked_for_pages_once(
    api: ScriptedApi, kubeconfig: Callable[..., Path]
) -> None:
    api.streaming = True
    api.put("a", "1")

    async def be_busy() -> None:
        if api.requests[-1].query.get("watch") == "true":
            await anyio.sleep(0.7)

    api.before_answering = be_busy
    config = KubeConfigOptions(kubeconfig=str(kubeconfig(api.url)))
    async with open_session(config) as session:
        mirror = ReflectorHarness(session)
        late = LateWatches(mirror.clock)
        soon = replace(STREAMING_LIST, first_byte_s=0.5)
        async with passing_time(mirror.clock), mirror.running(soon, late_watches=late):
            await seconds_until(mirror, lambda: mirror.is_fresh)
            await seconds_until(mirror, lambda: any(map(is_long, api.requests[2:])))
            await seconds_until(mirror, lambda: api.open_watches == 1)
            assert not late.are_late
            api.before_answering = None
            api.send_raw(error_line(410, "Expired", "too old"))
            await seconds_until(mirror, lambda: api.count("list") == 2 and mirror.is_fresh)
    assert sum("sendInitialEvents" in asked.query for asked in api.requests) == 1


async def test_objects_that_missed_a_change_are_not_in_sync_over_a_watch_that_brings_none(
    api: ScriptedApi, kubeconfig: Callable[..., Path]
) -> None:
    seen: list[str] = []
    api.put("a", "1")
    async with behind(api, kubeconfig, Buffered(holds_headers=False)) as mirror:
        remember = mirror.handler.mark_synced

        def mark_synced() -> None:
            seen.append(mirror.objects["a"])
            remember()

        mirror.handler.mark_synced = mark_synced  # type: ignore[method-assign]
        async with passing_time(mirror.clock), mirror.running():
            await seconds_until(mirror, lambda: bool(seen))
            mirror.clock.advance(2)
            api.put("a", "2")
            api.cut_watches()
            await seconds_until(mirror, lambda: len(seen) > 1)
    assert seen == ["1", "2"]


async def test_one_kind_whose_changes_come_late_has_all_kinds_watched_shortly(
    api: ScriptedApi, kubeconfig: Callable[..., Path]
) -> None:
    async with behind(api, kubeconfig, Buffered(holds_headers=False)) as mirror:
        late = LateWatches(mirror.clock)
        async with passing_time(mirror.clock), mirror.running(late_watches=late):
            await seconds_until(mirror, lambda: mirror.is_fresh)
            late.note("watch of another kind: its changes arrive late")
            api.put("a", "1")
            await seconds_until(mirror, lambda: mirror.objects == {"a": "1"})
            assert "stale" not in mirror.handler.calls
            assert api.requests[-1].query["timeoutSeconds"] == str(LateWatches.SHORT_S)
            mirror.clock.advance(601)
            assert not late.are_late
            before = len(api.requests)

            def long_watch_is_tried() -> bool:
                if late.are_late:  # the jump of the clock made an open watch a silent one
                    mirror.clock.advance(601)
                return any(map(is_long, api.requests[before:]))

            await seconds_until(mirror, long_watch_is_tried)


@pytest.mark.parametrize("is_listed", [True, False], ids=["in sync", "not listed"])
async def test_late_watches_that_are_cut_before_they_end_are_watched_for_a_second(
    api: ScriptedApi, kubeconfig: Callable[..., Path], *, is_listed: bool
) -> None:
    def fault(clock: ManualClock) -> Fault:
        return HeldAndCut(1.5, clock.sleep)

    api.answers_seconds_at_once = False
    async with behind(api, kubeconfig, fault) as mirror:
        late = LateWatches(mirror.clock)
        if not is_listed:
            late.note("watch of another kind: its changes arrive late")
        async with passing_time(mirror.clock), mirror.running(late_watches=late):
            if is_listed:
                await seconds_until(mirror, lambda: mirror.is_fresh)
                late.note("watch of another kind: its changes arrive late")
            await seconds_until(mirror, lambda: late.interruptions.are_frequent)
            await seconds_until(mirror, lambda: mirror.is_fresh)
            api.put("a", "1")
            await mirror.clock.sleep(0.01)
            assert await late.caught_up(mirror.clock.now())
            assert mirror.objects == {"a": "1"}
            mirror.handler.calls.clear()
            await mirror.clock.sleep(30)
            assert "stale" not in mirror.handler.calls


async def test_a_decision_waits_until_every_kind_has_been_read_after_it(
    api: ScriptedApi, kubeconfig: Callable[..., Path]
) -> None:
    async with behind(api, kubeconfig, Buffered(holds_headers=False)) as mirror:
        late = LateWatches(mirror.clock)
        async with passing_time(mirror.clock), mirror.running(late_watches=late):
            await seconds_until(mirror, lambda: mirror.is_fresh)
            late.note("watch of another kind: its changes arrive late")
            for value in ("1", "2"):
                api.put("a", value)
                await mirror.clock.sleep(0.01)  # the clock shows that it was before
                await late.caught_up(mirror.clock.now())
                assert mirror.objects == {"a": value}


async def test_a_decision_does_not_wait_where_watches_are_live_nor_for_a_kind_out_of_sync() -> None:
    clock = ManualClock()
    late = LateWatches(clock)
    late.note_in_sync("/api/v1/pods", LIVE)
    with anyio.fail_after(5):
        await late.caught_up(clock.now())
        late.note("watch /api/v1/nodes: its changes arrive late")
        async with anyio.create_task_group() as waiting:
            waiting.start_soon(late.caught_up, clock.now())
            await wait_until(lambda: bool(clock.pending_waits_s))
            late.note_stale("/api/v1/pods")


@pytest.mark.parametrize("is_read", [True, False])
async def test_a_kind_holds_a_decision_until_it_is_read_for_twenty_seconds_at_most(
    *, is_read: bool
) -> None:
    clock = ManualClock()
    late = LateWatches(clock)
    late.note_in_sync("/api/v1/pods", LIVE)
    late.note("watch /api/v1/nodes: its changes arrive late")
    since, answers = clock.now(), list[bool]()

    async def wait() -> None:
        answers.append(await late.caught_up(since))

    async with anyio.create_task_group() as waiting:
        waiting.start_soon(wait)
        await wait_until(lambda: clock.pending_waits_s == [20.0])
        if is_read:
            late.note_in_sync("/api/v1/pods", since)
        else:
            clock.advance(20.0)
    assert answers == [is_read]


def is_long(asked: ReceivedRequest) -> bool:
    return int(asked.query["timeoutSeconds"]) >= 300


async def test_a_quiet_watch_stays_as_it_is(api: ScriptedApi, mirror: ReflectorHarness) -> None:
    async with passing_time(mirror.clock), mirror.running():
        await seconds_until(mirror, lambda: api.count("catch-up") >= 2)
        assert mirror.is_fresh
        assert api.count("watch") == 1
        assert "stale" not in mirror.handler.calls


async def test_a_watch_that_brings_something_is_not_checked(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    async with mirror.running():
        await mirror.wait_until_fresh()
        for number in range(30):
            api.put("a", str(number))
            await seconds_until(mirror, lambda n=number: mirror.objects == {"a": str(n)})  # type: ignore[misc]
            mirror.clock.advance(SILENT_S / 3)
            await anyio.sleep(0.005)
    assert api.count("catch-up") == 0


@pytest.mark.parametrize("code", [403, 429, 500, 503])
async def test_a_check_that_is_not_answered_leaves_the_watch_as_it_is(
    api: ScriptedApi, mirror: ReflectorHarness, code: int
) -> None:
    api.answer_next("catch-up", *[failing(code)] * 100)
    async with passing_time(mirror.clock), mirror.running():
        await seconds_until(mirror, lambda: api.count("catch-up") >= 2)
        assert mirror.is_fresh
        assert api.count("watch") == 1


async def test_a_silent_watch_whose_version_the_server_no_longer_has_leads_to_a_new_list(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    api.put("a", "1")
    async with passing_time(mirror.clock), mirror.running():
        await seconds_until(mirror, lambda: mirror.is_fresh)
        api.delete_silently("a")
        api.compact()
        await seconds_until(mirror, lambda: mirror.objects == {})
    assert api.count("list") == 2
