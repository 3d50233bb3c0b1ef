"""The API server was down and serves again: one probe ends the waits of all reflectors."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import anyio
import pytest

from reactive_desched.kube.client.session import Session
from reactive_desched.kube.watch.reflector import Reflector
from reactive_desched.kube.watch.resume import ServerProbe
from tests.support.fake_resource import FakeCodec, RecordingEventHandler
from tests.support.manual_clock import ManualClock, pass_time, wait_until
from tests.support.reflector_harness import PAGED_LIST, STREAMING_LIST, ReflectorHarness
from tests.support.scripted_api import ScriptedApi, ScriptedReply, failing

pytestmark = [pytest.mark.anyio, pytest.mark.waits]

CUT = ScriptedReply(after_body="cut")
RECOVERY_S = 3.0


@asynccontextmanager
async def probing(probe: ServerProbe) -> AsyncIterator[None]:
    async with anyio.create_task_group() as beside:
        beside.start_soon(probe.run)
        yield
        beside.cancel_scope.cancel()


async def test_an_unreachable_server_is_waited_for(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    api.answer_next("list", CUT)
    api.answer_next("watch", CUT)
    api.put("a", "1")
    async with mirror.running(STREAMING_LIST):
        wait_s = await mirror.wait_for_backoff()
        assert mirror.handler.calls == ["stale"]
        mirror.clock.advance(wait_s)
        await mirror.wait_until_fresh()
    assert mirror.objects == {"a": "1"}


@pytest.mark.parametrize(
    "outage",
    [
        pytest.param(CUT, id="connections are cut"),
        pytest.param(failing(503), id="a proxy answers 503"),
        pytest.param(failing(500), id="the server answers 500"),
    ],
)
async def test_every_reflector_is_synced_within_three_seconds_of_the_servers_return(
    api: ScriptedApi, session: Session, clock: ManualClock, outage: ScriptedReply
) -> None:
    probe = ServerProbe(session, clock)
    handlers = [RecordingEventHandler() for _ in range(4)]
    reflectors = [
        Reflector(
            session,
            FakeCodec(),
            handler,
            clock=clock,
            rng=Random(number),
            settings=PAGED_LIST,
            probe=probe,
        )
        for number, handler in enumerate(handlers)
    ]
    async with probing(probe), anyio.create_task_group() as tasks:
        for reflector in reflectors:
            tasks.start_soon(reflector.run)
        await wait_until(lambda: all(handler.is_fresh for handler in handlers))
        await pass_time(clock, 60)
        for kind in ("list", "watch", "GET"):
            api.answer_next(kind, *[outage] * 1000)
        api.cut_watches()
        await pass_time(clock, 20)
        assert not any(handler.is_fresh for handler in handlers)
        probes = api.count("GET")
        assert 36 <= probes <= 42

        api.clear_script()
        await pass_time(clock, RECOVERY_S)

        await wait_until(lambda: all(handler.is_fresh for handler in handlers))  # at that time
        await pass_time(clock, 60)
        assert api.count("GET") <= probes + 2
        tasks.cancel_scope.cancel()


async def test_a_server_that_serves_the_probe_leaves_a_failing_resource_to_its_back_off(
    api: ScriptedApi, session: Session, mirror: ReflectorHarness
) -> None:
    probe = ServerProbe(session, mirror.clock)
    api.answer_next("list", *[failing(500)] * 1000)
    async with probing(probe), mirror.running(probe=probe):
        await pass_time(mirror.clock, 120)
    assert api.count("list") <= 10
    assert api.count("GET") <= 10
    assert probe.recoveries == 0


async def test_the_wait_that_the_server_asks_for_is_kept_although_it_serves_again(
    api: ScriptedApi, session: Session, mirror: ReflectorHarness
) -> None:
    probe = ServerProbe(session, mirror.clock)
    api.answer_next("list", failing(429, **{"Retry-After": "20"}))
    async with probing(probe), mirror.running(probe=probe):
        await mirror.wait_for_backoff()
        await pass_time(mirror.clock, 19)
        assert api.count("list") == 1
        await pass_time(mirror.clock, 2)
        await mirror.wait_until_fresh()


async def test_a_reflector_whose_call_outlasts_the_outage_does_not_wait(
    session: Session, clock: ManualClock, api: ScriptedApi
) -> None:
    probe = ServerProbe(session, clock)
    api.answer_next("GET", CUT)
    async with probing(probe), anyio.create_task_group() as waiting:
        waiting.start_soon(probe.wait, 1000, 0)
        await wait_until(lambda: 0.5 in clock.pending_waits_s)
        clock.advance(1.0)
        await wait_until(lambda: probe.recoveries == 1)
        assert await probe.wait(1000, recoveries=0)
        await wait_until(lambda: min(clock.pending_waits_s) < 1.0)  # it asks a moment later
        clock.advance(1.0)


async def test_a_server_that_starts_denies_requests_until_it_has_read_the_roles(
    api: ScriptedApi, session: Session, mirror: ReflectorHarness
) -> None:
    probe, clock = ServerProbe(session, mirror.clock), mirror.clock
    async with probing(probe), mirror.running(probe=probe):
        await mirror.wait_until_fresh()
        await pass_time(clock, 60)
        for kind in ("list", "watch", "GET"):
            api.answer_next(kind, *[CUT] * 1000)
        api.cut_watches()
        await pass_time(clock, 20)
        api.clear_script()
        for kind in ("list", "watch"):
            api.answer_next(kind, *[failing(403)] * 1000)
        api.answer_next("GET", *[failing(403)] * 4)
        await pass_time(clock, 1.5)
        assert probe.recoveries == 0
        api.clear_script()
        await pass_time(clock, RECOVERY_S)
        assert mirror.is_fresh
