"""A list that comes as the first events of a watch."""

import pytest

from reactive_desched.kube.watch.late_watches import LateWatches
from reactive_desched.kube.watch.settings import ReflectorSettings
from tests.support.manual_clock import pass_time, wait_until
from tests.support.reflector_harness import STREAMING_LIST, ReflectorHarness
from tests.support.scripted_api import ScriptedApi, ScriptedReply, error_line, failing

pytestmark = pytest.mark.anyio

LOOK_FOR_SILENCE_S = 5.0


class TestStreamingList:
    async def test_is_used_where_the_server_offers_it(
        self, api: ScriptedApi, mirror: ReflectorHarness
    ) -> None:
        api.streaming = True
        api.put("a", "1")
        api.put("b", "1")
        async with mirror.running(STREAMING_LIST):
            await mirror.wait_until_fresh()
            api.put("a", "2")
            await wait_until(lambda: mirror.objects == {"a": "2", "b": "1"})
        assert api.count("list") == 0
        assert api.count("watch") == 1
        assert mirror.handler.calls[:5] == ["begin", "upsert a=1", "upsert b=1", "end", "fresh"]

    async def test_a_refusal_means_pages_and_is_remembered_for_a_while(
        self, api: ScriptedApi, mirror: ReflectorHarness
    ) -> None:
        def streams() -> int:
            return sum("sendInitialEvents" in asked.query for asked in api.requests)

        async with mirror.running(ReflectorSettings(streaming_retry_s=100)):
            await mirror.wait_until_fresh()
            assert (streams(), api.count("list")) == (1, 1)
            mirror.clock.advance(40)
            api.send_raw(error_line(410, "Expired", "too old"))
            await wait_until(lambda: api.count("list") == 2 and mirror.is_fresh)
            assert streams() == 1
            mirror.clock.advance(100)
            api.send_raw(error_line(410, "Expired", "too old"))
            await wait_until(lambda: api.count("list") == 3 and mirror.is_fresh)
            assert streams() == 2

    async def test_nothing_reaches_the_feed_before_the_end_mark(
        self, api: ScriptedApi, mirror: ReflectorHarness
    ) -> None:
        half = b'{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"7"}}}\n'
        api.put("b", "1")
        api.answer_next("watch", ScriptedReply(body=half, after_body="cut"))
        async with mirror.running(STREAMING_LIST):
            await mirror.wait_until_fresh()
        assert "upsert a=" not in mirror.handler.calls
        assert mirror.objects == {"b": "1"}

    async def test_an_object_deleted_before_the_end_mark_is_not_in_the_picture(
        self, api: ScriptedApi, mirror: ReflectorHarness
    ) -> None:
        thing = b'{"metadata":{"name":"a","resourceVersion":"7"}}'
        end = b'{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}'
        lines = (
            b'{"type":"ADDED","object":%b}\n{"type":"DELETED","object":%b}\n' % (thing, thing)
            + b'{"type":"BOOKMARK","object":{"metadata":%b}}\n' % end
        )
        api.answer_next("watch", ScriptedReply(body=lines, after_body="hang"))
        async with mirror.running(STREAMING_LIST):
            await mirror.wait_until_fresh()
        assert mirror.objects == {}

    async def test_the_version_of_an_initial_event_is_never_resumed_from(
        self, api: ScriptedApi, mirror: ReflectorHarness
    ) -> None:
        api.streaming = True
        api.put("a", "1")
        async with mirror.running(STREAMING_LIST):
            await mirror.wait_until_fresh()
            assert mirror.status.resource_version == str(api.version)
            mirror.clock.advance(2)
            api.end_watches()
            await wait_until(lambda: api.count("watch") == 2)
        assert api.requests[-1].query["resourceVersion"] == str(api.version)

    async def test_a_server_that_ignores_the_wish_is_given_up_after_a_quiet_while(
        self, api: ScriptedApi, mirror: ReflectorHarness
    ) -> None:
        api.answer_next("watch", ScriptedReply(after_body="hang"))
        async with mirror.running(STREAMING_LIST):
            await wait_until(lambda: LOOK_FOR_SILENCE_S in mirror.clock.pending_waits_s)
            assert api.count("list") == 0
            mirror.clock.advance(LOOK_FOR_SILENCE_S)
            await wait_until(lambda: api.count("watch") == 2)
            while not (api.count("watch") == 3 and mirror.is_fresh):
                await pass_time(mirror.clock, LateWatches.FIRST_S)
            mirror.clock.advance(40)
            api.send_raw(error_line(410, "Expired", "too old"))
            await wait_until(lambda: api.count("list") == 2 and mirror.is_fresh)
        assert sum("sendInitialEvents" in asked.query for asked in api.requests) == 1

    async def test_a_plain_bookmark_before_the_end_mark_counts_as_a_refusal(
        self, api: ScriptedApi, mirror: ReflectorHarness
    ) -> None:
        line = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"100"}}}\n'
        api.answer_next("watch", ScriptedReply(body=line, after_body="hang"))
        async with mirror.running(STREAMING_LIST):
            await mirror.wait_until_fresh()
        assert api.count("list") == 1

    @pytest.mark.parametrize("code", [401, 429, 503])
    async def test_a_server_that_will_not_answer_now_is_not_asked_for_pages_instead(
        self, api: ScriptedApi, mirror: ReflectorHarness, code: int
    ) -> None:
        api.answer_next("watch", failing(code))
        async with mirror.running(STREAMING_LIST):
            await mirror.wait_for_backoff()
            assert api.count("list") == 0
