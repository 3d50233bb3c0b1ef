"""What cannot be read is counted and named; all else is read on."""

import pytest

from reactive_desched.testing.manual_clock import until
from tests.support.mirror import Mirror
from tests.support.scripted_api import Reply, ScriptedApi

pytestmark = pytest.mark.anyio


class TestWhatCannotBeRead:
    async def test_a_line_is_counted_and_the_next_ones_are_read(
        self, api: ScriptedApi, mirror: Mirror
    ) -> None:
        async with mirror.running():
            await mirror.fresh()
            api.tell(b'{"type":"ADDED","object":{"metadata":7}}\nnonsense\n\n')
            api.put("a", "1")
            await until(lambda: mirror.things == {"a": "1"})
            assert mirror.status.malformed == len(mirror.feed.unreadable) == 2
            assert mirror.is_fresh

    async def test_a_line_longer_than_eight_mebibytes_is_skipped_and_the_watch_goes_on(
        self, api: ScriptedApi, mirror: Mirror
    ) -> None:
        async with mirror.running():
            await mirror.fresh()
            api.put("huge", "x" * 9_000_000)
            api.put("a", "1")
            api.put("long", "x" * 5_000_000)
            await until(lambda: set(mirror.things) == {"a", "long"})
        assert mirror.feed.unreadable == [
            "Thing (no name) cannot be read: its watch line is longer than we read"
        ]
        assert api.count("watch") == 1

    async def test_a_listed_object_is_counted_and_left_out(
        self, api: ScriptedApi, mirror: Mirror
    ) -> None:
        items = b'[{"metadata":{"name":"bad"},"value":7},{"metadata":{"name":"good"},"value":"1"}]'
        page = b'{"metadata":{"resourceVersion":"100"},"items":%b}' % items
        api.answer_next("list", Reply(body=page))
        async with mirror.running():
            await mirror.fresh()
        assert mirror.things == {"good": "1"}
        [told] = mirror.feed.unreadable
        assert "$.value" in told
