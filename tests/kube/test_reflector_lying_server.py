"""A server that says the same twice, or goes back in time."""

import pytest

from reactive_desched.testing.manual_clock import until
from tests.support.mirror import Mirror
from tests.support.scripted_api import Reply, ScriptedApi, error_line

pytestmark = pytest.mark.anyio


async def test_an_event_told_twice_is_applied_once(api: ScriptedApi, mirror: Mirror) -> None:
    async with mirror.running():
        await mirror.fresh()
        api.put("a", "1")
        api.repeat(-1)
        api.put("b", "1")
        await until(lambda: mirror.things == {"a": "1", "b": "1"})
    assert mirror.feed.story.count("upsert a=1") == 1


async def test_time_going_back_means_a_new_list_and_no_ghosts(
    api: ScriptedApi, mirror: Mirror
) -> None:
    ghost = b'{"type":"ADDED","object":{"metadata":{"name":"ghost","resourceVersion":"99"}}}\n'
    async with mirror.running():
        await mirror.fresh()
        api.tell(ghost)
        await mirror.pause()
        mirror.clock.advance(2)
        await mirror.fresh()
    assert mirror.things == {}
    assert api.count("list") == 2


async def disbelieving(mirror: Mirror) -> None:
    """See a picture survive an internal error and two lists."""
    before = dict(mirror.things)
    for attempt in (1, 2, 3):
        await mirror.pause(attempt)
        assert mirror.things == before
        mirror.clock.advance(30)


async def test_a_list_older_than_what_was_seen_is_disbelieved_twice(
    api: ScriptedApi, mirror: Mirror
) -> None:
    old = Reply(body=b'{"metadata":{"resourceVersion":"50"},"items":[]}')
    api.put("a", "1")
    async with mirror.running():
        await mirror.fresh()
        api.answer_next("list", old, old)
        api.tell(error_line(500, "InternalError", "etcd"))
        await disbelieving(mirror)
        await mirror.fresh()
    assert mirror.things == {"a": "1"}
    assert mirror.feed.story.count("begin") == 2


async def test_a_restored_server_is_believed_in_the_end(api: ScriptedApi, mirror: Mirror) -> None:
    api.put("a", "1")
    async with mirror.running():
        await mirror.fresh()
        api.restore(50, b="2")
        api.tell(error_line(500, "InternalError", "etcd"))
        await disbelieving(mirror)
        await mirror.fresh()
    assert mirror.things == {"b": "2"}
    assert mirror.feed.story.count("begin") == 2
