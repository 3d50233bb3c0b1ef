"""The server is away, and back: who waits for it is woken."""

import anyio
import pytest

from reactive_desched.kube.watch.reconnect import Revival
from reactive_desched.testing.manual_clock import until
from tests.support.mirror import STREAMED, Mirror
from tests.support.scripted_api import Reply, ScriptedApi

pytestmark = pytest.mark.anyio


async def test_an_unreachable_server_is_waited_for(api: ScriptedApi, mirror: Mirror) -> None:
    api.answer_next("list", Reply(then="cut"))
    api.answer_next("watch", Reply(then="cut"))
    api.put("a", "1")
    async with mirror.running(STREAMED):
        wait_s = await mirror.pause()
        assert mirror.feed.story == ["stale"]
        mirror.clock.advance(wait_s)
        await mirror.fresh()
    assert mirror.things == {"a": "1"}


async def test_who_waits_for_the_server_is_woken_when_it_answers_another(
    api: ScriptedApi, mirror: Mirror
) -> None:
    revival = Revival()
    api.answer_next("list", Reply(then="cut"))
    async with mirror.running(revival=revival):
        await mirror.pause()
        assert not mirror.is_fresh
        revival.told()
        await mirror.fresh()


async def test_a_reflector_that_is_fresh_again_tells_the_others(mirror: Mirror) -> None:
    revival, woken = Revival(), anyio.Event()

    async def wait() -> None:
        await revival.wait(mirror.clock.sleep, 1000)
        woken.set()

    async with anyio.create_task_group() as waiting:
        waiting.start_soon(wait)
        await until(lambda: bool(mirror.clock.waits))
        async with mirror.running(revival=revival):
            await until(woken.is_set)
    assert mirror.is_fresh
