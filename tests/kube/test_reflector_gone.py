"""The server has forgotten the version we would go on from."""

import pytest

from tests.support.manual_clock import wait_until
from tests.support.reflector_harness import ReflectorHarness
from tests.support.scripted_api import ScriptedApi, ScriptedReply, error_line, failing

pytestmark = pytest.mark.anyio


class TestGone:
    async def test_in_the_stream_it_means_a_new_list_that_finds_what_was_missed(
        self, api: ScriptedApi, mirror: ReflectorHarness
    ) -> None:
        api.put("a", "1")
        api.put("b", "1")
        async with mirror.running():
            await mirror.wait_until_fresh()
            mirror.clock.advance(40)
            api.delete_silently("a")
            api.compact()
            api.end_watches()
            await wait_until(lambda: mirror.status.relists == 1 and mirror.is_fresh)
            assert mirror.objects == {"b": "1"}
        assert mirror.handler.calls[-4:] == ["begin", "upsert b=1", "end", "fresh"]

    async def test_as_an_http_status_it_means_the_same(
        self, api: ScriptedApi, mirror: ReflectorHarness
    ) -> None:
        async with mirror.running():
            await mirror.wait_until_fresh()
            mirror.clock.advance(40)
            api.answer_next("watch", failing(410, "Expired"))
            api.end_watches()
            await wait_until(lambda: mirror.status.relists == 1 and mirror.is_fresh)

    async def test_soon_after_a_list_it_is_not_answered_at_once(
        self, api: ScriptedApi, mirror: ReflectorHarness
    ) -> None:
        api.answer_next("watch", *[failing(410, "Expired")] * 3)
        async with mirror.running():
            assert await mirror.wait_for_backoff() >= 0.8
            assert api.count("list") == 1

    async def test_the_old_picture_stays_until_the_new_one_is_whole(
        self, api: ScriptedApi, mirror: ReflectorHarness
    ) -> None:
        api.put("a", "1")
        async with mirror.running():
            await mirror.wait_until_fresh()
            mirror.clock.advance(40)
            first_page = (
                b'{"metadata":{"resourceVersion":"200","continue":"x"},'
                b'"items":[{"metadata":{"name":"half"}}]}'
            )
            never = ScriptedReply(body=b'{"metadata":', after_body="hang")
            api.answer_next("list", ScriptedReply(body=first_page), failing(410, "Expired"), never)
            api.send_raw(error_line(410, "Expired", "too old"))
            await wait_until(lambda: api.count("list") == 4)
            assert not mirror.is_fresh
            assert mirror.objects == {"a": "1"}
            assert mirror.handler.calls.count("begin") == 1
