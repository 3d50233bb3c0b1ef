"""A server that says the same twice, or goes back in time."""

import pytest

from tests.support.manual_clock import wait_until
from tests.support.reflector_harness import ReflectorHarness
from tests.support.scripted_api import ScriptedApi, ScriptedReply, error_line

pytestmark = pytest.mark.anyio


async def test_an_event_received_twice_is_applied_once(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    async with mirror.running():
        await mirror.wait_until_fresh()
        api.put("a", "1")
        api.replay_event(-1)
        api.put("b", "1")
        await wait_until(lambda: mirror.objects == {"a": "1", "b": "1"})
    assert mirror.handler.calls.count("upsert a=1") == 1


async def test_time_going_back_means_a_new_list_and_no_ghosts(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    ghost = b'{"type":"ADDED","object":{"metadata":{"name":"ghost","resourceVersion":"99"}}}\n'
    async with mirror.running():
        await mirror.wait_until_fresh()
        api.send_raw(ghost)
        await mirror.wait_for_backoff()
        mirror.clock.advance(2)
        await mirror.wait_until_fresh()
    assert mirror.objects == {}
    assert api.count("list") == 2


async def disbelieving(mirror: ReflectorHarness) -> None:
    """See a picture survive an internal error and two lists."""
    before = dict(mirror.objects)
    for attempt in (1, 2, 3):
        await mirror.wait_for_backoff(attempt)
        assert mirror.objects == before
        mirror.clock.advance(30)


async def test_a_list_older_than_what_was_seen_is_disbelieved_twice(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    old = ScriptedReply(body=b'{"metadata":{"resourceVersion":"50"},"items":[]}')
    api.put("a", "1")
    async with mirror.running():
        await mirror.wait_until_fresh()
        api.answer_next("list", old, old)
        api.send_raw(error_line(500, "InternalError", "etcd"))
        await disbelieving(mirror)
        await mirror.wait_until_fresh()
    assert mirror.objects == {"a": "1"}
    assert mirror.handler.calls.count("begin") == 2


async def test_a_restored_server_is_accepted_in_the_end(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    api.put("a", "1")
    async with mirror.running():
        await mirror.wait_until_fresh()
        api.restore(50, b="2")
        api.send_raw(error_line(500, "InternalError", "etcd"))
        await disbelieving(mirror)
        await mirror.wait_until_fresh()
    assert mirror.objects == {"b": "2"}
    assert mirror.handler.calls.count("begin") == 2
