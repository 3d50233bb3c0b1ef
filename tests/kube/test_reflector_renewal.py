"""After this process stood still no picture is trusted before a new watch is open on it."""

from math import isclose

import pytest

from reactive_desched.kube.watch.settings import ReflectorSettings
from tests.support.manual_clock import wait_until
from tests.support.reflector_harness import PAGED_LIST, STREAMING_LIST, ReflectorHarness
from tests.support.scripted_api import ScriptedApi

pytestmark = pytest.mark.anyio

ASLEEP = "suspended for 40 s"


async def test_a_picture_is_distrusted_at_once_and_trusted_when_a_new_watch_has_settled(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    async with mirror.running():
        await mirror.wait_until_fresh()
        api.put("a", "1")
        mirror.epoch.advance(ASLEEP)
        await mirror.wait_until_stale()
        await mirror.wait_until_confirmed()
        assert mirror.objects == {"a": "1"}
    assert (api.count("list"), api.count("watch")) == (1, 2)
    assert (mirror.status.last_error, mirror.status.failures) == (ASLEEP, 0)


@pytest.mark.parametrize(
    "settings", [pytest.param(PAGED_LIST, id="paged"), pytest.param(STREAMING_LIST, id="streamed")]
)
async def test_a_watch_that_was_asked_for_before_the_sleep_is_not_trusted(
    api: ScriptedApi, mirror: ReflectorHarness, settings: ReflectorSettings
) -> None:
    """Nor is what was listed then younger for it: the monotonic clock stands still meanwhile."""
    api.streaming = True

    async def fall_asleep_over_the_first() -> None:
        if api.count("watch") == 1:
            mirror.epoch.advance(ASLEEP)

    api.before_answering = fall_asleep_over_the_first
    async with mirror.running(settings):
        await mirror.wait_until_confirmed()
    assert api.count("watch") == 2


async def test_a_picture_that_is_about_to_be_trusted_is_not(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    async with mirror.running():
        await mirror.wait_until_fresh()
        mirror.epoch.advance(ASLEEP)
        await wait_until(lambda: any(isclose(wait, 1.0) for wait in mirror.clock.pending_waits_s))
        mirror.clock.advance(1)
        mirror.epoch.advance(ASLEEP)  # before the timer that has just run out is noticed
        await mirror.wait_until_confirmed()
    assert api.count("watch") == 3
