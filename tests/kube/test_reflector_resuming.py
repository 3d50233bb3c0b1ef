"""A watch that ended goes on from the last version we know of."""

import pytest

from tests.support.manual_clock import wait_until
from tests.support.reflector_harness import ReflectorHarness
from tests.support.scripted_api import ScriptedApi, ScriptedReply, bookmark_line

pytestmark = pytest.mark.anyio


async def test_a_regular_end_is_resumed_at_once_from_the_last_version_and_stays_fresh(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    async with mirror.running():
        await mirror.wait_until_fresh()
        api.put("a", "1")
        await wait_until(lambda: mirror.objects == {"a": "1"})
        mirror.clock.advance(2)
        api.end_watches()
        await wait_until(lambda: api.count("watch") == 2)
        assert api.requests[-1].query["resourceVersion"] == "101"
        await wait_until(lambda: mirror.status.reconnects == 1)
    assert "stale" not in mirror.handler.calls
    assert api.count("list") == 1


async def test_a_bookmark_moves_the_version_that_is_resumed_from(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    async with mirror.running():
        await mirror.wait_until_fresh()
        api.bookmark(180)
        await wait_until(lambda: mirror.status.bookmarks == 1)
        mirror.clock.advance(2)
        api.end_watches()
        await wait_until(lambda: api.count("watch") == 2)
    assert api.requests[-1].query["resourceVersion"] == "180"


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(b"", id="between two lines"),
        pytest.param(b'{"type":"ADDED","object":{"metadata":{"na', id="in a line"),
    ],
)
async def test_a_broken_connection_is_stale_until_it_is_resumed(
    api: ScriptedApi, mirror: ReflectorHarness, after: bytes
) -> None:
    async with mirror.running():
        await mirror.wait_until_fresh()
        mirror.clock.advance(2)
        api.cut_watches(after)
        await mirror.wait_until_stale()
        api.put("a", "1")
        assert 0.8 <= await mirror.wait_for_backoff() < 1.6
        mirror.clock.advance(1.6)
        await mirror.wait_until_confirmed()
        assert mirror.objects == {"a": "1"}
    assert api.count("list") == 1
    assert mirror.handler.unreadable == []


async def test_a_line_cut_off_by_a_regular_end_is_not_applied(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    whole = b'{"type":"ADDED","object":{"metadata":{"name":"x","resourceVersion":"999"}}}'
    api.answer_next("watch", ScriptedReply(body=whole))
    async with mirror.running():
        await mirror.wait_for_backoff()
        mirror.clock.advance(2)
        await wait_until(lambda: api.count("watch") == 2)
    assert api.requests[-1].query["resourceVersion"] == "100"
    assert mirror.objects == {}


async def test_a_resumed_watch_that_is_refused_at_once_was_never_fresh(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    async with mirror.running():
        await mirror.wait_until_fresh()
        mirror.clock.advance(2)
        api.cut_watches()
        await mirror.wait_for_backoff()
        api.compact()
        mirror.clock.advance(2)
        await mirror.wait_for_backoff(2)
        mirror.clock.advance(4)
        await mirror.wait_until_fresh()
    assert mirror.handler.calls == [
        "begin",
        "end",
        "fresh",
        "stale",
        "stale",
        "begin",
        "end",
        "fresh",
    ]


async def test_a_picture_that_took_long_to_list_is_not_fresh_before_the_watch_caught_up(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    async def slowly() -> None:
        if api.requests[-1].kind != "catch-up":
            mirror.clock.advance(0.6)

    api.before_answering = slowly
    async with mirror.running():
        await mirror.wait_until_confirmed()


async def test_a_watch_that_is_cut_in_a_line_after_it_lived_is_opened_again_at_once(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    async with mirror.running():
        await mirror.wait_until_fresh()
        mirror.clock.advance(10)
        api.cut_watches(b'{"type":"ADDED","object":{"metad')
        await mirror.wait_until_stale()
        wait_s = await mirror.wait_for_backoff()
        assert wait_s < 0.2
        mirror.clock.advance(wait_s)
        await mirror.wait_until_confirmed()
    assert api.count("list") == 1


async def test_a_bookmark_whose_version_is_no_number_is_not_resumed_from(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    async with mirror.running():
        await mirror.wait_until_fresh()
        api.send_raw(bookmark_line("1e30"))
        await wait_until(lambda: mirror.status.bookmarks == 1)
        mirror.clock.advance(2)
        api.end_watches()
        await wait_until(lambda: api.count("watch") == 2)
    assert api.requests[-1].query["resourceVersion"] == "100"


async def test_a_burst_of_changes_leaves_the_picture_in_sync(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    async with mirror.running():
        await mirror.wait_until_fresh()
        for number in range(5000):
            api.put(f"t{number % 7}", str(number))
        await wait_until(lambda: mirror.objects == api.objects)
    assert "stale" not in mirror.handler.calls
