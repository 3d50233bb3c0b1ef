"""What cannot be read is counted and named; all else is read on."""

import pytest

from tests.support.golden import Golden
from tests.support.manual_clock import wait_until
from tests.support.reflector_harness import ReflectorHarness
from tests.support.scripted_api import ScriptedApi, ScriptedReply

pytestmark = pytest.mark.anyio


class TestWhatCannotBeRead:
    async def test_a_line_is_counted_and_the_next_ones_are_read(
        self, api: ScriptedApi, mirror: ReflectorHarness
    ) -> None:
        async with mirror.running():
            await mirror.wait_until_fresh()
            api.send_raw(b'{"type":"ADDED","object":{"metadata":7}}\nnonsense\n\n')
            api.put("a", "1")
            await wait_until(lambda: mirror.objects == {"a": "1"})
            assert mirror.status.malformed == len(mirror.handler.unreadable) == 2
            assert mirror.is_fresh

    async def test_a_line_longer_than_eight_mebibytes_is_skipped_and_the_watch_continues(
        self, api: ScriptedApi, mirror: ReflectorHarness, golden: Golden
    ) -> None:
        async with mirror.running():
            await mirror.wait_until_fresh()
            api.put("huge", "x" * 9_000_000)
            api.put("a", "1")
            api.put("long", "x" * 5_000_000)
            await wait_until(lambda: set(mirror.objects) == {"a", "long"})
        assert mirror.handler.unreadable == [golden()]
        assert api.count("watch") == 1

    async def test_a_listed_object_is_counted_and_left_out(
        self, api: ScriptedApi, mirror: ReflectorHarness
    ) -> None:
        items = b'[{"metadata":{"name":"bad"},"value":7},{"metadata":{"name":"good"},"value":"1"}]'
        page = b'{"metadata":{"resourceVersion":"100"},"items":%b}' % items
        api.answer_next("list", ScriptedReply(body=page))
        async with mirror.running():
            await mirror.wait_until_fresh()
        assert mirror.objects == {"good": "1"}
        [told] = mirror.handler.unreadable
        assert "$.value" in told
