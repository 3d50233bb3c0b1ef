"""A server that says when to come back is believed, within reason."""

from email.utils import formatdate

import pytest

from tests.support.golden import Golden
from tests.support.reflector_harness import ReflectorHarness
from tests.support.scripted_api import ScriptedApi, ScriptedReply, error_line, failing

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("kind", ["list", "watch"])
@pytest.mark.parametrize("code", [429, 503])
async def test_retry_after_in_seconds_is_obeyed(
    api: ScriptedApi, mirror: ReflectorHarness, kind: str, code: int
) -> None:
    text = ScriptedReply(
        code, b"Too many requests, please try again later.\n", {"Retry-After": "17"}
    )
    api.answer_next(kind, text)
    async with mirror.running():
        assert await mirror.wait_for_backoff() == pytest.approx(17.0)
        before = api.count(kind)
        mirror.clock.advance(17.001)
        await (mirror.wait_until_fresh() if kind == "list" else mirror.wait_until_confirmed())
        assert api.count(kind) == before + 1
    assert "Too many requests" in mirror.handler.reason
    assert "asked again" not in mirror.handler.reason, "short waits differ, and would fill logs"


async def test_retry_after_as_a_date_is_obeyed(api: ScriptedApi, mirror: ReflectorHarness) -> None:
    date = formatdate(mirror.clock.wall() + 25, usegmt=True)
    api.answer_next("list", failing(503, **{"Retry-After": date}))
    async with mirror.running():
        assert await mirror.wait_for_backoff() == pytest.approx(25.0)


@pytest.mark.parametrize("text", ["0", "-5", "soon", "Thu, 01 Jan 1970 00:00:00 GMT"])
async def test_a_senseless_retry_after_still_means_a_pause(
    api: ScriptedApi, mirror: ReflectorHarness, text: str
) -> None:
    api.answer_next("list", failing(503, **{"Retry-After": text}))
    async with mirror.running():
        assert 0.8 <= await mirror.wait_for_backoff() < 1.6


async def test_an_absurd_retry_after_is_cut_to_ten_minutes(
    api: ScriptedApi, mirror: ReflectorHarness, golden: Golden
) -> None:
    api.answer_next("list", failing(503, **{"Retry-After": "999999999"}))
    async with mirror.running():
        assert await mirror.wait_for_backoff() == pytest.approx(600.0)
    assert mirror.handler.reason.partition("; ")[2] == golden()


@pytest.mark.parametrize("kind", ["list", "watch"])
async def test_a_long_retry_after_is_obeyed_and_said(
    api: ScriptedApi, mirror: ReflectorHarness, kind: str, golden: Golden
) -> None:
    api.answer_next(kind, failing(429, **{"Retry-After": "300"}))
    async with mirror.running():
        assert await mirror.wait_for_backoff() == pytest.approx(300.0)
    assert mirror.handler.reason.partition("; ")[2] == golden()


async def test_a_throttling_event_pauses_as_asked_and_resumes_without_a_list(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    async with mirror.running():
        await mirror.wait_until_fresh()
        api.send_raw(error_line(429, "TooManyRequests", "later", retryAfterSeconds=9))
        await mirror.wait_until_stale()
        assert await mirror.wait_for_backoff() == pytest.approx(9.0)
        mirror.clock.advance(9.001)
        await mirror.wait_until_confirmed()
    assert api.count("list") == 1
