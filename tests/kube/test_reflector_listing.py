"""The first picture and how it is listed: page by page, in the most recent state."""

from collections.abc import Iterator

import anyio
import pytest
from anyio.lowlevel import checkpoint

from tests.support.manual_clock import wait_until
from tests.support.reflector_harness import ReflectorHarness
from tests.support.scripted_api import ScriptedApi, ScriptedReply, error_line

pytestmark = pytest.mark.anyio


async def test_the_first_list_becomes_the_picture_and_the_watch_keeps_it_true(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    api.put("a", "1")
    async with mirror.running():
        await mirror.wait_until_fresh()
        assert mirror.objects == {"a": "1"}

        api.put("a", "2")
        api.put("b", "1")
        api.delete("a")

        await wait_until(lambda: mirror.objects == {"b": "1"})
    assert mirror.handler.calls == [
        *("begin", "upsert a=1", "end", "fresh"),
        *("upsert a=2", "upsert b=1", "remove a"),
    ]


async def test_a_list_of_several_pages_is_swapped_in_as_one(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    for number in range(2003):
        api.put(f"t{number}", "1")
    async with mirror.running():
        await mirror.wait_until_fresh()
    assert mirror.objects == api.objects
    assert mirror.handler.calls.count("begin") == 1
    assert [asked.query["limit"] for asked in api.requests if asked.kind == "list"] == ["500"] * 5


async def test_what_a_list_lacks_is_removed_in_turns(
    api: ScriptedApi, mirror: ReflectorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[int] = []

    async def others() -> None:
        while True:
            turns.append(0)
            await checkpoint()

    def remove_unlisted() -> Iterator[None]:
        for _ in range(1000):
            turns[-1] += 1
            yield

    monkeypatch.setattr(mirror.handler, "remove_unlisted", remove_unlisted)
    async with anyio.create_task_group() as both:
        both.start_soon(others)
        await checkpoint()
        async with mirror.running():
            await mirror.wait_until_fresh()
        both.cancel_scope.cancel()

    assert sum(turns) == 1000
    assert max(turns) == 100


async def test_the_watch_begins_where_the_first_page_was(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    api.answer_next(
        "list",
        ScriptedReply(body=b'{"metadata":{"resourceVersion":"101","continue":"x"},"items":[]}'),
        ScriptedReply(body=b'{"metadata":{"resourceVersion":"109"},"items":[]}'),
    )
    async with mirror.running():
        await mirror.wait_until_fresh()
    assert api.requests[-1].query["resourceVersion"] == "101"


async def test_a_relist_takes_smaller_pages(api: ScriptedApi, mirror: ReflectorHarness) -> None:
    api.put("a", "1")
    async with mirror.running():
        await mirror.wait_until_fresh()
        mirror.clock.advance(40)
        api.send_raw(error_line(410, "Expired", "too old"))
        await wait_until(lambda: api.count("list") == 2)
    assert [asked.query["limit"] for asked in api.requests if asked.kind == "list"] == [
        "500",
        "150",
    ]


async def test_no_list_asks_for_anything_but_the_most_recent_state(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    async with mirror.running():
        await mirror.wait_until_fresh()
    assert set(api.requests[0].query) == {"limit"}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"<html>please log in</html>", id="html"),
        pytest.param(b'{"metadata":{},"items":[]}', id="no version"),
    ],
)
async def test_a_page_that_is_none_is_asked_for_again(
    api: ScriptedApi, mirror: ReflectorHarness, body: bytes
) -> None:
    api.put("a", "1")
    api.answer_next("list", ScriptedReply(body=body))
    async with mirror.running():
        await mirror.wait_for_backoff()
        assert "begin" not in mirror.handler.calls
        mirror.clock.advance(2)
        await wait_until(lambda: mirror.objects == {"a": "1"})


@pytest.mark.parametrize(
    ("tokens", "requests"),
    [
        pytest.param("x", 2, id="one"),
        pytest.param("xy", 3, id="two in turn"),
        pytest.param("abcxyxy", 6, id="two in turn after others"),
    ],
)
async def test_a_server_that_repeats_its_continue_token_is_not_followed_for_ever(
    api: ScriptedApi, mirror: ReflectorHarness, tokens: str, requests: int
) -> None:
    page = '{"metadata":{"resourceVersion":"1","continue":"%s"},"items":[]}'
    pages = [ScriptedReply(body=(page % token).encode()) for token in tokens * 50]
    api.answer_next("list", *pages)
    async with mirror.running():
        await mirror.wait_for_backoff()
    assert api.count("list") == requests
    assert "repeats its continue token" in mirror.handler.reason
