"""The first picture and how it is listed: page by page, in the most recent state."""

import pytest

from reactive_desched.testing.manual_clock import until
from tests.support.mirror import Mirror
from tests.support.scripted_api import Reply, ScriptedApi, error_line

pytestmark = pytest.mark.anyio


async def test_the_first_list_becomes_the_picture_and_the_watch_keeps_it_true(
    api: ScriptedApi, mirror: Mirror
) -> None:
    api.put("a", "1")
    async with mirror.running():
        await mirror.fresh()
        assert mirror.things == {"a": "1"}

        api.put("a", "2")
        api.put("b", "1")
        api.delete("a")

        await until(lambda: mirror.things == {"b": "1"})
    assert mirror.feed.story == [
        *("begin", "upsert a=1", "end", "fresh"),
        *("upsert a=2", "upsert b=1", "remove a"),
    ]


async def test_a_list_of_several_pages_is_swapped_in_as_one(
    api: ScriptedApi, mirror: Mirror
) -> None:
    for number in range(1203):
        api.put(f"t{number}", "1")
    async with mirror.running():
        await mirror.fresh()
    assert mirror.things == api.objects
    assert mirror.feed.story.count("begin") == 1
    assert [asked.query["limit"] for asked in api.asked if asked.kind == "list"] == ["300"] * 5


async def test_the_watch_begins_where_the_first_page_was(api: ScriptedApi, mirror: Mirror) -> None:
    api.answer_next(
        "list",
        Reply(body=b'{"metadata":{"resourceVersion":"101","continue":"x"},"items":[]}'),
        Reply(body=b'{"metadata":{"resourceVersion":"109"},"items":[]}'),
    )
    async with mirror.running():
        await mirror.fresh()
    assert api.asked[-1].query["resourceVersion"] == "101"


async def test_a_relist_takes_smaller_pages(api: ScriptedApi, mirror: Mirror) -> None:
    api.put("a", "1")
    async with mirror.running():
        await mirror.fresh()
        mirror.clock.advance(40)
        api.tell(error_line(410, "Expired", "too old"))
        await until(lambda: api.count("list") == 2)
    assert [asked.query["limit"] for asked in api.asked if asked.kind == "list"] == ["300", "250"]


async def test_no_list_asks_for_anything_but_the_most_recent_state(
    api: ScriptedApi, mirror: Mirror
) -> None:
    async with mirror.running():
        await mirror.fresh()
    assert set(api.asked[0].query) == {"limit"}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"<html>please log in</html>", id="html"),
        pytest.param(b'{"metadata":{},"items":[]}', id="no version"),
    ],
)
async def test_a_page_that_is_none_is_asked_for_again(
    api: ScriptedApi, mirror: Mirror, body: bytes
) -> None:
    api.put("a", "1")
    api.answer_next("list", Reply(body=body))
    async with mirror.running():
        await mirror.pause()
        assert "begin" not in mirror.feed.story
        mirror.clock.advance(2)
        await until(lambda: mirror.things == {"a": "1"})


async def test_a_server_that_repeats_its_continue_token_is_not_followed_for_ever(
    api: ScriptedApi, mirror: Mirror
) -> None:
    page = b'{"metadata":{"resourceVersion":"1","continue":"x"},"items":[]}'
    api.answer_next("list", *[Reply(body=page)] * 100)
    async with mirror.running():
        await mirror.pause()
    assert api.count("list") == 2
    assert "repeats its continue token" in mirror.feed.reason
