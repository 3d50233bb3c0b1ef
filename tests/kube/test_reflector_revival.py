"""The server is away, and back: who waits for it is woken."""

import anyio
import pytest

from reactive_desched.kube.watch.reconnect import ReconnectSignal
from reactive_desched.testing.manual_clock import wait_until
from tests.support.mirror import STREAMING_LIST, ReflectorHarness
from tests.support.scripted_api import ScriptedApi, ScriptedReply

pytestmark = pytest.mark.anyio


async def test_an_unreachable_server_is_waited_for(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    api.answer_next("list", ScriptedReply(after_body="cut"))
    api.answer_next("watch", ScriptedReply(after_body="cut"))
    api.put("a", "1")
    async with mirror.running(STREAMING_LIST):
        wait_s = await mirror.wait_for_backoff()
        assert mirror.handler.calls == ["stale"]
        mirror.clock.advance(wait_s)
        await mirror.wait_until_fresh()
    assert mirror.objects == {"a": "1"}


async def test_who_waits_for_the_server_is_woken_when_it_answers_another(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    revival = ReconnectSignal()
    api.answer_next("list", ScriptedReply(after_body="cut"))
    async with mirror.running(reconnect=revival):
        await mirror.wait_for_backoff()
        assert not mirror.is_fresh
        revival.notify()
        await mirror.wait_until_fresh()


async def test_a_reflector_that_is_fresh_again_tells_the_others(mirror: ReflectorHarness) -> None:
    revival, woken = ReconnectSignal(), anyio.Event()

    async def wait() -> None:
        await revival.wait(mirror.clock.sleep, 1000)
        woken.set()

    async with anyio.create_task_group() as waiting:
        waiting.start_soon(wait)
        await wait_until(lambda: bool(mirror.clock.pending_waits_s))
        async with mirror.running(reconnect=revival):
            await wait_until(woken.is_set)
    assert mirror.is_fresh
