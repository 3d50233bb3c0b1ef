"""After this process stood still no picture is trusted before a new watch is open on it."""

import pytest

from reactive_desched.testing.mirror import Mirror
from reactive_desched.testing.scripted_api import ScriptedApi

pytestmark = pytest.mark.anyio

ASLEEP = "this process stood still for 40 s"


async def test_a_picture_is_distrusted_at_once_and_trusted_when_a_new_watch_has_settled(
    api: ScriptedApi, mirror: Mirror
) -> None:
    async with mirror.running():
        await mirror.fresh()
        mirror.renew(ASLEEP)
        assert not mirror.is_fresh
        assert 0.8 <= await mirror.pause() < 1.6
        api.put("a", "1")
        mirror.clock.advance(1.6)
        await mirror.settled()
        assert mirror.things == {"a": "1"}
    assert api.count("list") == 1
    assert api.count("watch") == 2
    assert ASLEEP in mirror.status.last_error


async def test_what_was_just_listed_is_no_younger_for_the_sleep_that_followed(
    api: ScriptedApi, mirror: Mirror
) -> None:
    """The monotonic clock stands still while a machine sleeps."""

    async def fall_asleep_over_the_watch() -> None:
        if api.count("watch") == 1:
            mirror.renew(ASLEEP)

    api.before_answering = fall_asleep_over_the_watch
    async with mirror.running():
        await mirror.settled()
