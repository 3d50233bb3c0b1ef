"""What every list and watch says of us and of what we want."""

import pytest

from reactive_desched.kube.codec import METADATA_ONLY
from reactive_desched.kube.watch.settings import ReflectorSettings
from tests.support.fake_resource import FakeCodec
from tests.support.reflector_harness import PAGED_LIST, STREAMING_LIST, ReflectorHarness
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


@pytest.mark.parametrize("settings", [PAGED_LIST, STREAMING_LIST], ids=["paged", "streamed"])
async def test_a_codec_says_which_form_of_answer_is_asked_for(
    api: ScriptedApi, mirror: ReflectorHarness, settings: ReflectorSettings
) -> None:
    class Lean(FakeCodec):
        accept = METADATA_ONLY

    api.streaming = settings.streaming
    async with mirror.running(settings, codec=Lean()):
        await mirror.wait_until_fresh()
    asked = {each.kind: each.headers["Accept"] for each in api.requests}
    if not settings.streaming:
        assert asked.pop("list").startswith("application/json;as=PartialObjectMetadataList;")
    assert set(asked) == {"watch"}
    assert asked["watch"].startswith("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")


async def test_whole_objects_are_asked_for_unless_a_codec_says_otherwise(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    async with mirror.running():
        await mirror.wait_until_fresh()
    assert [asked.headers["Accept"] for asked in api.requests] == ["application/json"] * 2
