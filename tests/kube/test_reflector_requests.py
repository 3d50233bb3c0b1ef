"""What every list and watch says of us and of what we want."""

import pytest

from tests.support.reflector_harness import ReflectorHarness
from tests.support.scripted_api import ScriptedApi

pytestmark = pytest.mark.anyio


async def test_a_watch_asks_for_bookmarks_and_a_random_time(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    async with mirror.running():
        await mirror.wait_until_fresh()
    query = api.requests[1].query
    assert query["allowWatchBookmarks"] == "true"
    assert query["resourceVersion"] == "100"
    assert 300 <= int(query["timeoutSeconds"]) < 600


async def test_every_call_names_us_and_refuses_compression(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    async with mirror.running():
        await mirror.wait_until_fresh()
    for asked in api.requests:
        assert asked.headers["User-Agent"].startswith("reactive-desched/")
        assert asked.headers["Accept-Encoding"] == "identity"
        assert asked.headers["Authorization"] == "Bearer secret"


async def test_whole_objects_are_asked_for_unless_a_codec_says_otherwise(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    async with mirror.running():
        await mirror.wait_until_fresh()
    assert [asked.headers["Accept"] for asked in api.requests] == ["application/json"] * 2
