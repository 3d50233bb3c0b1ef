"""Whatever goes wrong, the server is asked again, and ever more seldom."""

import pytest

from tests.support.manual_clock import wait_until
from tests.support.reflector_harness import ReflectorHarness
from tests.support.scripted_api import ScriptedApi, ScriptedReply, error_line, failing

pytestmark = pytest.mark.anyio


async def test_failures_are_asked_again_ever_more_seldom_up_to_half_a_minute(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    api.answer_next("list", *[failing(500)] * 9)
    pauses = []
    async with mirror.running():
        for attempt in range(1, 10):
            pauses.append(await mirror.wait_for_backoff(attempt))
            assert api.count("list") == attempt
            mirror.clock.advance(pauses[-1])
        await mirror.wait_until_fresh()
    lowest = [0.8, 1.6, 3.2, 6.4, 12.8, 15, 15, 15, 15]
    assert all(low <= wait < 2 * low for low, wait in zip(lowest, pauses, strict=True))


async def test_a_success_makes_the_next_pause_short_again(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    api.answer_next("list", *[failing(500)] * 4)
    async with mirror.running():
        for attempt in range(1, 5):
            mirror.clock.advance(await mirror.wait_for_backoff(attempt))
        await mirror.wait_until_fresh()
        mirror.clock.advance(2)
        api.cut_watches()
        await mirror.wait_until_stale()
        assert await mirror.wait_for_backoff(5) < 1.6


async def test_the_feed_learns_once_why_it_is_stale(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    api.answer_next("list", *[failing(500)] * 3, failing(403))
    async with mirror.running():
        for attempt in range(1, 4):
            mirror.clock.advance(await mirror.wait_for_backoff(attempt))
            assert mirror.handler.calls == ["stale"]
        await mirror.wait_for_backoff(4)
        assert mirror.handler.calls == ["stale", "stale"]


async def test_an_internal_error_event_means_a_new_list_after_a_pause(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    async with mirror.running():
        await mirror.wait_until_fresh()
        api.send_raw(error_line(500, "InternalError", "etcd"))
        await mirror.wait_until_stale()
        assert 0.8 <= await mirror.wait_for_backoff() < 1.6
        mirror.clock.advance(2)
        await mirror.wait_until_fresh()
    assert api.count("list") == 2


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(ScriptedReply(), id="an empty 200"),
        pytest.param(ScriptedReply(503, b"upstream connect error", {}), id="503 as text"),
        pytest.param(
            ScriptedReply(body=b"<html>", headers={"Content-Type": "text/html"}), id="html"
        ),
        pytest.param(ScriptedReply(after_body="cut"), id="a reset"),
        pytest.param(
            ScriptedReply(body=b'{"type":"BOOKMARK","object":{"metadata":{}}}\n'), id="very short"
        ),
    ],
)
async def test_no_answer_to_a_watch_makes_a_hot_loop(
    api: ScriptedApi, mirror: ReflectorHarness, reply: ScriptedReply
) -> None:
    api.answer_next("watch", *[reply] * 1000)
    async with mirror.running():
        for attempt in range(1, 12):
            wait_s = await mirror.wait_for_backoff(attempt)
            assert wait_s >= 0.8
            mirror.clock.advance(wait_s)


async def test_several_watches_that_bring_nothing_are_answered_with_a_list(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    async def opened(nth: int) -> None:
        await wait_until(lambda: mirror.status.watches == nth and api.open_watches == 1)
        await wait_until(lambda: bool(mirror.clock.pending_waits_s))

    async with mirror.running():
        for nth in (1, 2, 3):
            await opened(nth)
            mirror.clock.advance(2)
            api.end_watches()
        await mirror.wait_for_backoff()
        mirror.clock.advance(2)
        await wait_until(lambda: api.count("list") == 2)
