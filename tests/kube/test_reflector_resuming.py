"""A watch that ended goes on from the last version we know of."""

import pytest

from reactive_desched.testing.manual_clock import until
from tests.support.mirror import Mirror
from tests.support.scripted_api import Reply, ScriptedApi

pytestmark = pytest.mark.anyio


async def test_a_regular_end_is_resumed_at_once_from_the_last_version_and_stays_fresh(
    api: ScriptedApi, mirror: Mirror
) -> None:
    async with mirror.running():
        await mirror.fresh()
        api.put("a", "1")
        await until(lambda: mirror.things == {"a": "1"})
        mirror.clock.advance(2)
        api.end()
        await until(lambda: api.count("watch") == 2)
        assert api.asked[-1].query["resourceVersion"] == "101"
        await until(lambda: mirror.status.reconnects == 1)
    assert "stale" not in mirror.feed.story
    assert api.count("list") == 1


async def test_a_bookmark_moves_the_version_that_is_resumed_from(
    api: ScriptedApi, mirror: Mirror
) -> None:
    async with mirror.running():
        await mirror.fresh()
        api.bookmark(180)
        await until(lambda: mirror.status.bookmarks == 1)
        mirror.clock.advance(2)
        api.end()
        await until(lambda: api.count("watch") == 2)
    assert api.asked[-1].query["resourceVersion"] == "180"


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(b"", id="between two lines"),
        pytest.param(b'{"type":"ADDED","object":{"metadata":{"na', id="in a line"),
    ],
)
async def test_a_broken_connection_is_stale_until_it_is_resumed(
    api: ScriptedApi, mirror: Mirror, after: bytes
) -> None:
    async with mirror.running():
        await mirror.fresh()
        mirror.clock.advance(2)
        api.cut(after)
        await mirror.stale()
        api.put("a", "1")
        assert 0.8 <= await mirror.pause() < 1.6
        mirror.clock.advance(1.6)
        await mirror.settled()
        assert mirror.things == {"a": "1"}
    assert api.count("list") == 1
    assert mirror.feed.unreadable == []


async def test_a_line_cut_off_by_a_regular_end_is_not_applied(
    api: ScriptedApi, mirror: Mirror
) -> None:
    whole = b'{"type":"ADDED","object":{"metadata":{"name":"x","resourceVersion":"999"}}}'
    api.answer_next("watch", Reply(body=whole))
    async with mirror.running():
        await mirror.pause()
        mirror.clock.advance(2)
        await until(lambda: api.count("watch") == 2)
    assert api.asked[-1].query["resourceVersion"] == "100"
    assert mirror.things == {}


async def test_a_resumed_watch_that_is_refused_at_once_was_never_fresh(
    api: ScriptedApi, mirror: Mirror
) -> None:
    async with mirror.running():
        await mirror.fresh()
        mirror.clock.advance(2)
        api.cut()
        await mirror.pause()
        api.compact()
        mirror.clock.advance(2)
        await mirror.pause(2)
        mirror.clock.advance(4)
        await mirror.fresh()
    assert mirror.feed.story == ["begin", "end", "fresh", "stale", "stale", "begin", "end", "fresh"]


async def test_a_picture_that_took_long_to_list_is_not_fresh_before_the_watch_caught_up(
    api: ScriptedApi, mirror: Mirror
) -> None:
    async def slowly() -> None:
        mirror.clock.advance(0.6)

    api.before_answering = slowly
    async with mirror.running():
        await mirror.settled()
