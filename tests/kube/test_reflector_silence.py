"""A watch on which nothing comes may be quiet, or dead."""

import pytest

from tests.support.manual_clock import wait_until
from tests.support.reflector_harness import ReflectorHarness
from tests.support.scripted_api import ScriptedApi

pytestmark = pytest.mark.anyio

LOOK_FOR_SILENCE_S = 5.0


async def seconds_until_given_up(mirror: ReflectorHarness) -> float:
    def is_looking() -> bool:
        return LOOK_FOR_SILENCE_S in mirror.clock.pending_waits_s or not mirror.is_fresh

    began = mirror.clock.now()
    while mirror.is_fresh:
        await wait_until(is_looking)
        mirror.clock.advance(LOOK_FOR_SILENCE_S)
        await wait_until(is_looking)
    return mirror.clock.now() - began


async def bookmarked(api: ScriptedApi, mirror: ReflectorHarness, nth: int) -> None:
    api.bookmark()
    await wait_until(lambda: mirror.status.bookmarks == nth)


class TestSilence:
    async def test_after_a_bookmark_it_means_a_dead_link_within_two_and_a_half_minutes(
        self, api: ScriptedApi, mirror: ReflectorHarness
    ) -> None:
        async with mirror.running():
            await mirror.wait_until_fresh()
            await bookmarked(api, mirror, 1)
            assert 150 <= await seconds_until_given_up(mirror) <= 160
            assert "nothing came for 150 s" in mirror.status.last_error
            mirror.clock.advance(await mirror.wait_for_backoff())
            await mirror.wait_until_confirmed()
        assert api.count("list") == 1

    async def test_without_bookmarks_it_is_borne_until_the_watch_should_have_ended(
        self, api: ScriptedApi, mirror: ReflectorHarness
    ) -> None:
        async with mirror.running():
            await mirror.wait_until_fresh()
            asked = int(api.requests[-1].query["timeoutSeconds"])
            given_up_after = await seconds_until_given_up(mirror)
        assert asked + 30 <= given_up_after <= asked + 41

    async def test_any_byte_starts_the_wait_anew(
        self, api: ScriptedApi, mirror: ReflectorHarness
    ) -> None:
        async with mirror.running():
            await mirror.wait_until_fresh()
            for nth in range(1, 6):
                await bookmarked(api, mirror, nth)
                for _ in range(25):
                    await wait_until(lambda: bool(mirror.clock.pending_waits_s))
                    mirror.clock.advance(LOOK_FOR_SILENCE_S)
            assert mirror.is_fresh
            assert api.count("watch") == 1
