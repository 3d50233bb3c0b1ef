from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from email.utils import formatdate
from itertools import pairwise

import anyio
import msgspec
import pytest

from reactive_desched.kube.codec import METADATA
from reactive_desched.kube.reflect import Reflector
from reactive_desched.kube.reflect_settings import ReflectSettings
from reactive_desched.kube.revival import Revival
from reactive_desched.kube.session import Session
from reactive_desched.testing.manual_clock import ManualClock, until
from reactive_desched.testing.scripted_api import Reply, ScriptedApi, error_line, status
from reactive_desched.testing.things import RememberingFeed, Thing, ThingCodec

pytestmark = pytest.mark.anyio

Reflecting = Callable[..., AbstractAsyncContextManager[Reflector[Thing]]]
PAGED = ReflectSettings(streaming=False)
JSON = {"Content-Type": "application/json"}
LOOK_FOR_SILENCE_S = 5.0


def failing(code: int, reason: str = "", **headers: str) -> Reply:
    body = msgspec.json.encode(status(reason, code, "as scripted"))
    return Reply(code, body, JSON | headers)


async def pause(reflector: Reflector[Thing], clock: ManualClock, nth: int = 1) -> float:
    """Wait until the reflector pauses for the nth time, and say for how long it means to."""
    await until(lambda: reflector.status.failures == nth and bool(clock.waits))
    return clock.waits[0]


async def settled(feed: RememberingFeed, clock: ManualClock) -> None:
    """See a resumed watch become fresh a second after it is open, and not before."""
    await until(lambda: any(abs(wait - 1.0) < 1e-6 for wait in clock.waits))
    assert not feed.is_fresh
    clock.advance(1.0)
    await until(lambda: feed.is_fresh)


async def test_the_first_list_becomes_the_picture_and_the_watch_keeps_it_true(
    api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting
) -> None:
    api.put("a", "1")
    async with reflecting(PAGED):
        await until(lambda: feed.is_fresh)
        assert feed.things == {"a": "1"}

        api.put("a", "2")
        api.put("b", "1")
        api.delete("a")

        await until(lambda: feed.things == {"b": "1"})
    assert feed.story == [
        *("begin", "upsert a=1", "end", "fresh"),
        *("upsert a=2", "upsert b=1", "remove a"),
    ]


async def test_a_list_of_several_pages_is_swapped_in_as_one(
    api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting
) -> None:
    for number in range(1203):
        api.put(f"t{number}", "1")
    async with reflecting(PAGED):
        await until(lambda: feed.is_fresh)
    assert feed.things == api.objects
    assert feed.story.count("begin") == 1
    assert [asked.query["limit"] for asked in api.asked if asked.kind == "list"] == ["300"] * 5


async def test_the_watch_begins_where_the_first_page_was(
    api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting
) -> None:
    api.answer_next(
        "list",
        Reply(body=b'{"metadata":{"resourceVersion":"101","continue":"x"},"items":[]}'),
        Reply(body=b'{"metadata":{"resourceVersion":"109"},"items":[]}'),
    )
    async with reflecting(PAGED):
        await until(lambda: feed.is_fresh)
    assert api.asked[-1].query["resourceVersion"] == "101"


async def test_a_relist_takes_smaller_pages(
    api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting, clock: ManualClock
) -> None:
    api.put("a", "1")
    async with reflecting(PAGED):
        await until(lambda: feed.is_fresh)
        clock.advance(40)
        api.tell(error_line(410, "Expired", "too old"))
        await until(lambda: api.count("list") == 2)
    assert [asked.query["limit"] for asked in api.asked if asked.kind == "list"] == ["300", "250"]


async def test_no_list_asks_for_anything_but_the_most_recent_state(
    api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting
) -> None:
    async with reflecting(PAGED):
        await until(lambda: feed.is_fresh)
    assert set(api.asked[0].query) == {"limit"}


async def test_a_watch_asks_for_bookmarks_and_a_random_time(
    api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting
) -> None:
    async with reflecting(PAGED):
        await until(lambda: feed.is_fresh)
    query = api.asked[1].query
    assert query["allowWatchBookmarks"] == "true"
    assert query["resourceVersion"] == "100"
    assert 300 <= int(query["timeoutSeconds"]) < 600


async def test_every_call_names_us_and_refuses_compression(
    api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting
) -> None:
    async with reflecting(PAGED):
        await until(lambda: feed.is_fresh)
    for asked in api.asked:
        assert asked.headers["User-Agent"].startswith("reactive-desched/")
        assert asked.headers["Accept-Encoding"] == "identity"
        assert asked.headers["Authorization"] == "Bearer secret"


@pytest.mark.parametrize("streaming", [False, True], ids=["paged", "streamed"])
async def test_a_codec_says_which_form_of_answer_is_asked_for(
    api: ScriptedApi, session: Session, feed: RememberingFeed, *, streaming: bool
) -> None:
    class Lean(ThingCodec):
        forms = METADATA

    api.streaming = streaming
    async with anyio.create_task_group() as beside:
        beside.start_soon(Reflector(session, Lean(), feed).run)
        await until(lambda: feed.is_fresh)
        beside.cancel_scope.cancel()
    asked = {each.kind: each.headers["Accept"] for each in api.asked}
    if not streaming:
        assert asked.pop("list").startswith("application/json;as=PartialObjectMetadataList;")
    assert set(asked) == {"watch"}
    assert asked["watch"].startswith("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")


async def test_whole_objects_are_asked_for_unless_a_codec_says_otherwise(
    api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting
) -> None:
    async with reflecting(PAGED):
        await until(lambda: feed.is_fresh)
    assert [asked.headers["Accept"] for asked in api.asked] == ["application/json"] * 2


class TestStreamingList:
    async def test_is_used_where_the_server_offers_it(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting
    ) -> None:
        api.streaming = True
        api.put("a", "1")
        api.put("b", "1")
        async with reflecting():
            await until(lambda: feed.is_fresh)
            api.put("a", "2")
            await until(lambda: feed.things == {"a": "2", "b": "1"})
        assert api.count("list") == 0
        assert api.count("watch") == 1
        assert feed.story[:5] == ["begin", "upsert a=1", "upsert b=1", "end", "fresh"]

    async def test_a_refusal_means_pages_and_is_remembered_for_a_while(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting, clock: ManualClock
    ) -> None:
        def streams() -> int:
            return sum("sendInitialEvents" in asked.query for asked in api.asked)

        async with reflecting(ReflectSettings(streaming_refused_s=100)):
            await until(lambda: feed.is_fresh)
            assert (streams(), api.count("list")) == (1, 1)
            clock.advance(40)
            api.tell(error_line(410, "Expired", "too old"))
            await until(lambda: api.count("list") == 2 and feed.is_fresh)
            assert streams() == 1
            clock.advance(100)
            api.tell(error_line(410, "Expired", "too old"))
            await until(lambda: api.count("list") == 3 and feed.is_fresh)
            assert streams() == 2

    async def test_nothing_reaches_the_feed_before_the_end_mark(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting
    ) -> None:
        half = b'{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"7"}}}\n'
        api.put("b", "1")
        api.answer_next("watch", Reply(body=half, then="cut"))
        async with reflecting():
            await until(lambda: feed.is_fresh)
        assert "upsert a=" not in feed.story
        assert feed.things == {"b": "1"}

    async def test_an_object_deleted_before_the_end_mark_is_not_in_the_picture(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting
    ) -> None:
        thing = b'{"metadata":{"name":"a","resourceVersion":"7"}}'
        end = b'{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}'
        lines = (
            b'{"type":"ADDED","object":%b}\n{"type":"DELETED","object":%b}\n' % (thing, thing)
            + b'{"type":"BOOKMARK","object":{"metadata":%b}}\n' % end
        )
        api.answer_next("watch", Reply(body=lines, then="hang", headers=JSON))
        async with reflecting():
            await until(lambda: feed.is_fresh)
        assert feed.things == {}

    async def test_the_version_of_an_initial_event_is_never_resumed_from(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting, clock: ManualClock
    ) -> None:
        api.streaming = True
        api.put("a", "1")
        async with reflecting() as reflector:
            await until(lambda: feed.is_fresh)
            assert reflector.status.resource_version == str(api.version)
            clock.advance(2)
            api.end()
            await until(lambda: api.count("watch") == 2)
        assert api.asked[-1].query["resourceVersion"] == str(api.version)

    async def test_a_server_that_ignores_the_wish_is_given_up_after_a_quiet_while(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting, clock: ManualClock
    ) -> None:
        api.answer_next("watch", Reply(then="hang"))
        async with reflecting():
            for _ in range(6):
                await until(lambda: LOOK_FOR_SILENCE_S in clock.waits)
                assert api.count("list") == 0
                clock.advance(LOOK_FOR_SILENCE_S)
            await until(lambda: feed.is_fresh)
            clock.advance(40)
            api.tell(error_line(410, "Expired", "too old"))
            await until(lambda: api.count("list") == 2 and feed.is_fresh)
        assert sum("sendInitialEvents" in asked.query for asked in api.asked) == 1

    async def test_a_plain_bookmark_before_the_end_mark_counts_as_a_refusal(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting
    ) -> None:
        line = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"100"}}}\n'
        api.answer_next("watch", Reply(body=line, then="hang"))
        async with reflecting():
            await until(lambda: feed.is_fresh)
        assert api.count("list") == 1

    @pytest.mark.parametrize("code", [401, 429, 503])
    async def test_a_server_that_will_not_answer_now_is_not_asked_for_pages_instead(
        self,
        api: ScriptedApi,
        feed: RememberingFeed,
        reflecting: Reflecting,
        clock: ManualClock,
        code: int,
    ) -> None:
        api.answer_next("watch", failing(code))
        async with reflecting() as reflector:
            await pause(reflector, clock)
            assert api.count("list") == 0


class TestResuming:
    async def test_a_regular_end_is_resumed_at_once_from_the_last_version_and_stays_fresh(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting, clock: ManualClock
    ) -> None:
        async with reflecting(PAGED) as reflector:
            await until(lambda: feed.is_fresh)
            api.put("a", "1")
            await until(lambda: feed.things == {"a": "1"})
            clock.advance(2)
            api.end()
            await until(lambda: api.count("watch") == 2)
            assert api.asked[-1].query["resourceVersion"] == "101"
            assert reflector.status.reconnects <= 1
        assert "stale" not in feed.story
        assert api.count("list") == 1

    async def test_a_bookmark_moves_the_version_that_is_resumed_from(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting, clock: ManualClock
    ) -> None:
        async with reflecting(PAGED) as reflector:
            await until(lambda: feed.is_fresh)
            api.bookmark(180)
            await until(lambda: reflector.status.bookmarks == 1)
            clock.advance(2)
            api.end()
            await until(lambda: api.count("watch") == 2)
        assert api.asked[-1].query["resourceVersion"] == "180"

    @pytest.mark.parametrize(
        "after",
        [
            pytest.param(b"", id="between two lines"),
            pytest.param(b'{"type":"ADDED","object":{"metadata":{"na', id="in a line"),
        ],
    )
    async def test_a_broken_connection_is_stale_until_it_is_resumed(
        self,
        api: ScriptedApi,
        feed: RememberingFeed,
        reflecting: Reflecting,
        clock: ManualClock,
        after: bytes,
    ) -> None:
        async with reflecting(PAGED) as reflector:
            await until(lambda: feed.is_fresh)
            clock.advance(2)
            api.cut(after)
            await until(lambda: not feed.is_fresh)
            api.put("a", "1")
            assert 0.8 <= await pause(reflector, clock) < 1.6
            clock.advance(1.6)
            await settled(feed, clock)
            assert feed.things == {"a": "1"}
        assert api.count("list") == 1
        assert feed.unreadable == []

    async def test_a_line_cut_off_by_a_regular_end_is_not_applied(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting, clock: ManualClock
    ) -> None:
        whole = b'{"type":"ADDED","object":{"metadata":{"name":"x","resourceVersion":"999"}}}'
        api.answer_next("watch", Reply(body=whole))
        async with reflecting(PAGED) as reflector:
            await pause(reflector, clock)
            clock.advance(2)
            await until(lambda: api.count("watch") == 2)
        assert api.asked[-1].query["resourceVersion"] == "100"
        assert feed.things == {}

    async def test_a_resumed_watch_that_is_refused_at_once_was_never_fresh(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting, clock: ManualClock
    ) -> None:
        async with reflecting(PAGED) as reflector:
            await until(lambda: feed.is_fresh)
            clock.advance(2)
            api.cut()
            await pause(reflector, clock)
            api.compact()
            clock.advance(2)
            await pause(reflector, clock, 2)
            clock.advance(4)
            await until(lambda: feed.is_fresh)
        assert feed.story == ["begin", "end", "fresh", "stale", "stale", "begin", "end", "fresh"]

    async def test_a_picture_that_took_long_to_list_is_not_fresh_before_the_watch_caught_up(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting, clock: ManualClock
    ) -> None:
        async def slowly() -> None:
            clock.advance(0.6)

        api.before_answering = slowly
        async with reflecting(PAGED):
            await settled(feed, clock)


class TestGone:
    async def test_in_the_stream_it_means_a_new_list_that_finds_what_was_missed(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting, clock: ManualClock
    ) -> None:
        api.put("a", "1")
        api.put("b", "1")
        async with reflecting(PAGED) as reflector:
            await until(lambda: feed.is_fresh)
            clock.advance(40)
            api.lose("a")
            api.compact()
            api.end()
            await until(lambda: reflector.status.relists == 1 and feed.is_fresh)
            assert feed.things == {"b": "1"}
        assert feed.story[-4:] == ["begin", "upsert b=1", "end", "fresh"]

    async def test_as_an_http_status_it_means_the_same(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting, clock: ManualClock
    ) -> None:
        async with reflecting(PAGED) as reflector:
            await until(lambda: feed.is_fresh)
            clock.advance(40)
            api.answer_next("watch", failing(410, "Expired"))
            api.end()
            await until(lambda: reflector.status.relists == 1 and feed.is_fresh)

    async def test_soon_after_a_list_it_is_not_answered_at_once(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting, clock: ManualClock
    ) -> None:
        api.answer_next("watch", *[failing(410, "Expired")] * 3)
        async with reflecting(PAGED) as reflector:
            await pause(reflector, clock)
            assert api.count("list") == 1
            assert await pause(reflector, clock) >= 0.8

    async def test_the_old_picture_stays_until_the_new_one_is_whole(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting, clock: ManualClock
    ) -> None:
        api.put("a", "1")
        async with reflecting(PAGED):
            await until(lambda: feed.is_fresh)
            clock.advance(40)
            first_page = (
                b'{"metadata":{"resourceVersion":"200","continue":"x"},'
                b'"items":[{"metadata":{"name":"half"}}]}'
            )
            api.answer_next("list", Reply(body=first_page), failing(410, "Expired"))
            api.tell(error_line(410, "Expired", "too old"))
            await until(lambda: api.count("list") == 3 and feed.is_fresh is False)
            assert feed.things == {"a": "1"}
            assert feed.story.count("begin") == 1


class TestTrouble:
    @pytest.mark.parametrize("kind", ["list", "watch"])
    @pytest.mark.parametrize("code", [429, 503])
    async def test_retry_after_in_seconds_is_obeyed(
        self,
        api: ScriptedApi,
        feed: RememberingFeed,
        reflecting: Reflecting,
        clock: ManualClock,
        kind: str,
        code: int,
    ) -> None:
        text = Reply(code, b"Too many requests, please try again later.\n", {"Retry-After": "17"})
        api.answer_next(kind, text)
        async with reflecting(PAGED) as reflector:
            assert await pause(reflector, clock) == pytest.approx(17.0)
            before = api.count(kind)
            clock.advance(17.001)
            await (until(lambda: feed.is_fresh) if kind == "list" else settled(feed, clock))
            assert api.count(kind) == before + 1
        assert "Too many requests" in feed.reason

    async def test_retry_after_as_a_date_is_obeyed(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting, clock: ManualClock
    ) -> None:
        date = formatdate(clock.wall() + 25, usegmt=True)
        api.answer_next("list", failing(503, **{"Retry-After": date}))
        async with reflecting(PAGED) as reflector:
            assert await pause(reflector, clock) == pytest.approx(25.0)

    @pytest.mark.parametrize("text", ["0", "-5", "soon", "Thu, 01 Jan 1970 00:00:00 GMT"])
    async def test_a_senseless_retry_after_still_means_a_pause(
        self,
        api: ScriptedApi,
        feed: RememberingFeed,
        reflecting: Reflecting,
        clock: ManualClock,
        text: str,
    ) -> None:
        api.answer_next("list", failing(503, **{"Retry-After": text}))
        async with reflecting(PAGED) as reflector:
            await pause(reflector, clock)
            assert 0.8 <= await pause(reflector, clock) < 1.6

    async def test_an_absurd_retry_after_is_cut_to_ten_minutes(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting, clock: ManualClock
    ) -> None:
        api.answer_next("list", failing(503, **{"Retry-After": "999999999"}))
        async with reflecting(PAGED) as reflector:
            assert await pause(reflector, clock) == pytest.approx(600.0)

    async def test_a_throttling_event_pauses_as_asked_and_resumes_without_a_list(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting, clock: ManualClock
    ) -> None:
        async with reflecting(PAGED) as reflector:
            await until(lambda: feed.is_fresh)
            api.tell(error_line(429, "TooManyRequests", "later", retryAfterSeconds=9))
            await until(lambda: not feed.is_fresh)
            assert await pause(reflector, clock) == pytest.approx(9.0)
            clock.advance(9.001)
            await settled(feed, clock)
        assert api.count("list") == 1

    async def test_an_internal_error_event_means_a_new_list_after_a_pause(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting, clock: ManualClock
    ) -> None:
        async with reflecting(PAGED) as reflector:
            await until(lambda: feed.is_fresh)
            api.tell(error_line(500, "InternalError", "etcd"))
            await until(lambda: not feed.is_fresh)
            assert 0.8 <= await pause(reflector, clock) < 1.6
            clock.advance(2)
            await until(lambda: feed.is_fresh)
        assert api.count("list") == 2

    async def test_failures_are_asked_again_ever_more_seldom_up_to_half_a_minute(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting, clock: ManualClock
    ) -> None:
        api.answer_next("list", *[failing(500)] * 9)
        pauses = []
        async with reflecting(PAGED) as reflector:
            for attempt in range(1, 10):
                pauses.append(await pause(reflector, clock, attempt))
                assert api.count("list") == attempt
                clock.advance(pauses[-1])
            await until(lambda: feed.is_fresh)
        lowest = [0.8, 1.6, 3.2, 6.4, 12.8, 15, 15, 15, 15]
        assert all(low <= wait < 2 * low for low, wait in zip(lowest, pauses, strict=True))

    async def test_the_feed_is_told_once_why_it_is_stale(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting, clock: ManualClock
    ) -> None:
        api.answer_next("list", *[failing(500)] * 3, failing(403))
        async with reflecting(PAGED) as reflector:
            for attempt in range(1, 4):
                clock.advance(await pause(reflector, clock, attempt))
                assert feed.story == ["stale"]
            await pause(reflector, clock, 4)
            assert feed.story == ["stale", "stale"]

    async def test_a_success_makes_the_next_pause_short_again(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting, clock: ManualClock
    ) -> None:
        api.answer_next("list", *[failing(500)] * 4)
        async with reflecting(PAGED) as reflector:
            for attempt in range(1, 5):
                clock.advance(await pause(reflector, clock, attempt))
            await until(lambda: feed.is_fresh)
            clock.advance(2)
            api.cut()
            await until(lambda: not feed.is_fresh)
            assert await pause(reflector, clock, 5) < 1.6

    @pytest.mark.parametrize(
        "reply",
        [
            pytest.param(Reply(), id="an empty 200"),
            pytest.param(Reply(503, b"upstream connect error", {}), id="503 as text"),
            pytest.param(Reply(body=b"<html>", headers={"Content-Type": "text/html"}), id="html"),
            pytest.param(Reply(then="cut"), id="a reset"),
            pytest.param(
                Reply(body=b'{"type":"BOOKMARK","object":{"metadata":{}}}\n'), id="very short"
            ),
        ],
    )
    async def test_no_answer_to_a_watch_makes_a_hot_loop(
        self,
        api: ScriptedApi,
        feed: RememberingFeed,
        reflecting: Reflecting,
        clock: ManualClock,
        reply: Reply,
    ) -> None:
        api.answer_next("watch", *[reply] * 1000)
        asked_at = []
        async with reflecting(PAGED) as reflector:
            for attempt in range(1, 12):
                wait_s = await pause(reflector, clock, attempt)
                asked_at.append(clock.now())
                clock.advance(wait_s)
        assert all(later - earlier >= 0.8 for earlier, later in pairwise(asked_at))

    async def test_a_web_page_in_place_of_a_watch_is_told_as_what_it_is(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting, clock: ManualClock
    ) -> None:
        page = Reply(body=b"<html>\nplease log in\n", headers={"Content-Type": "text/html"})
        api.answer_next("watch", page)
        async with reflecting(PAGED) as reflector:
            await pause(reflector, clock)
        assert "200 <html> please log in" in feed.reason
        assert feed.unreadable == []

    async def test_a_forbidden_resource_names_itself_and_is_asked_for_seldom(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting, clock: ManualClock
    ) -> None:
        why = 'things is forbidden: User "x" cannot list resource "things"'
        body = msgspec.json.encode(status("Forbidden", 403, why))
        for _ in range(5):
            api.answer_next("list", Reply(403, body))
        async with reflecting(PAGED) as reflector:
            for nth in range(1, 5):
                wait_s = await pause(reflector, clock, nth)
                assert feed.reason == f"list {api.path}: 403 {why}"
                assert wait_s < 30  # a server that has just started denies in passing
                assert "denied" not in feed.story
                clock.advance(wait_s)
            assert 60 <= await pause(reflector, clock, 5) < 120
            assert feed.story[-1] == "denied"
            clock.advance(120)
            await until(lambda: feed.is_fresh)

    async def test_who_waits_for_the_server_is_woken_when_it_answers_another(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting, clock: ManualClock
    ) -> None:
        revival = Revival()
        api.answer_next("list", Reply(then="cut"))
        async with reflecting(PAGED, revival=revival) as reflector:
            await pause(reflector, clock)
            assert not feed.is_fresh
            revival.told()
            await until(lambda: feed.is_fresh)

    async def test_a_reflector_that_is_fresh_again_tells_the_others(
        self, feed: RememberingFeed, reflecting: Reflecting, clock: ManualClock
    ) -> None:
        revival, woken = Revival(), anyio.Event()

        async def wait() -> None:
            await revival.wait(clock.sleep, 1000)
            woken.set()

        async with anyio.create_task_group() as waiting:
            waiting.start_soon(wait)
            await until(lambda: bool(clock.waits))
            async with reflecting(PAGED, revival=revival):
                await until(woken.is_set)
        assert feed.is_fresh

    @pytest.mark.parametrize("kind", ["list", "watch"])
    async def test_an_unknown_caller_has_its_credentials_read_again_and_asks_soon(
        self,
        api: ScriptedApi,
        session: Session,
        feed: RememberingFeed,
        reflecting: Reflecting,
        clock: ManualClock,
        kind: str,
    ) -> None:
        api.answer_next(kind, failing(401, "Unauthorized"))
        async with reflecting(PAGED) as reflector:
            assert 0.8 <= await pause(reflector, clock) < 1.6
            assert session.credentials._doubted.is_set()
            clock.advance(2)
            await (until(lambda: feed.is_fresh) if kind == "list" else settled(feed, clock))
        assert api.count("list") == (2 if kind == "list" else 1)

    async def test_an_unreachable_server_is_waited_for(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting, clock: ManualClock
    ) -> None:
        api.answer_next("list", Reply(then="cut"))
        api.answer_next("watch", Reply(then="cut"))
        async with reflecting() as reflector:
            await pause(reflector, clock)
            assert not feed.is_fresh
            clock.advance(2)
            await until(lambda: api.count("list") + api.count("watch") >= 3)

    async def test_several_watches_that_bring_nothing_are_answered_with_a_list(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting, clock: ManualClock
    ) -> None:
        async with reflecting(PAGED) as reflector:
            for opened in (1, 2, 3):
                await until(lambda n=opened: api.count("watch") == n and api.watching == 1)  # type: ignore[misc]  # a default binds the loop's value
                await until(lambda: bool(clock.waits))
                clock.advance(2)
                api.end()
            await pause(reflector, clock)
            clock.advance(2)
            await until(lambda: api.count("list") == 2)


class TestSilence:
    async def _seconds_until_given_up(self, feed: RememberingFeed, clock: ManualClock) -> float:
        began = clock.now()
        while feed.is_fresh:
            await until(lambda: bool(clock.waits))
            clock.advance(LOOK_FOR_SILENCE_S)
            await until(lambda: bool(clock.waits))
        return clock.now() - began

    async def test_after_a_bookmark_it_means_a_dead_link_within_two_and_a_half_minutes(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting, clock: ManualClock
    ) -> None:
        async with reflecting(PAGED) as reflector:
            await until(lambda: feed.is_fresh)
            api.bookmark()
            await until(lambda: reflector.status.bookmarks == 1)
            assert 150 <= await self._seconds_until_given_up(feed, clock) <= 160
            clock.advance(2)
            await settled(feed, clock)
        assert api.count("list") == 1

    async def test_without_bookmarks_it_is_borne_until_the_watch_should_have_ended(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting, clock: ManualClock
    ) -> None:
        async with reflecting(PAGED):
            await until(lambda: feed.is_fresh)
            asked = int(api.asked[-1].query["timeoutSeconds"])
            given_up_after = await self._seconds_until_given_up(feed, clock)
        assert asked + 30 <= given_up_after <= asked + 41

    async def test_any_byte_starts_the_wait_anew(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting, clock: ManualClock
    ) -> None:
        async with reflecting(PAGED) as reflector:
            await until(lambda: feed.is_fresh)
            for bookmarks in range(1, 6):
                api.bookmark()
                await until(lambda n=bookmarks: reflector.status.bookmarks == n)  # type: ignore[misc]  # a default binds the loop's value
                for _ in range(25):
                    await until(lambda: bool(clock.waits))
                    clock.advance(LOOK_FOR_SILENCE_S)
            assert feed.is_fresh
            assert api.count("watch") == 1


class TestALyingServer:
    async def test_an_event_told_twice_is_applied_once(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting
    ) -> None:
        async with reflecting(PAGED):
            await until(lambda: feed.is_fresh)
            api.put("a", "1")
            api.repeat(-1)
            api.put("b", "1")
            await until(lambda: feed.things == {"a": "1", "b": "1"})
        assert feed.story.count("upsert a=1") == 1

    async def test_time_going_back_means_a_new_list_and_no_ghosts(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting, clock: ManualClock
    ) -> None:
        ghost = b'{"type":"ADDED","object":{"metadata":{"name":"ghost","resourceVersion":"99"}}}\n'
        async with reflecting(PAGED) as reflector:
            await until(lambda: feed.is_fresh)
            api.tell(ghost)
            await pause(reflector, clock)
            clock.advance(2)
            await until(lambda: feed.is_fresh)
        assert feed.things == {}
        assert api.count("list") == 2

    async def test_a_list_older_than_what_was_seen_is_disbelieved_twice(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting, clock: ManualClock
    ) -> None:
        old = Reply(body=b'{"metadata":{"resourceVersion":"50"},"items":[]}')
        api.put("a", "1")
        async with reflecting(PAGED) as reflector:
            await until(lambda: feed.is_fresh)
            api.answer_next("list", old, old)
            api.tell(error_line(500, "InternalError", "etcd"))
            for attempt in (1, 2, 3):
                await pause(reflector, clock, attempt)
                assert feed.things == {"a": "1"}
                clock.advance(30)
            await until(lambda: feed.is_fresh)
        assert feed.story.count("begin") == 2

    async def test_a_restored_server_is_believed_in_the_end(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting, clock: ManualClock
    ) -> None:
        old = Reply(body=b'{"metadata":{"resourceVersion":"50"},"items":[]}')
        api.put("a", "1")
        async with reflecting(PAGED) as reflector:
            await until(lambda: feed.is_fresh)
            api.answer_next("list", old, old, old)
            api.tell(error_line(500, "InternalError", "etcd"))
            for attempt in (1, 2, 3):
                await pause(reflector, clock, attempt)
                assert feed.things == {"a": "1"}
                clock.advance(30)
            await until(lambda: feed.things == {})


class TestWhatCannotBeRead:
    async def test_a_line_is_counted_and_the_next_ones_are_read(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting
    ) -> None:
        async with reflecting(PAGED) as reflector:
            await until(lambda: feed.is_fresh)
            api.tell(b'{"type":"ADDED","object":{"metadata":7}}\nnonsense\n\n')
            api.put("a", "1")
            await until(lambda: feed.things == {"a": "1"})
            assert reflector.status.malformed == len(feed.unreadable) == 2
            assert feed.is_fresh

    async def test_a_line_longer_than_eight_mebibytes_is_skipped_and_the_watch_goes_on(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting
    ) -> None:
        async with reflecting(PAGED):
            await until(lambda: feed.is_fresh)
            api.put("huge", "x" * 9_000_000)
            api.put("a", "1")
            api.put("long", "x" * 5_000_000)
            await until(lambda: set(feed.things) == {"a", "long"})
        assert feed.unreadable == [
            "Thing (no name) cannot be read: its watch line is longer than we read"
        ]
        assert api.count("watch") == 1

    async def test_a_listed_object_is_counted_and_left_out(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting
    ) -> None:
        items = b'[{"metadata":{"name":"bad"},"value":7},{"metadata":{"name":"good"},"value":"1"}]'
        page = b'{"metadata":{"resourceVersion":"100"},"items":%b}' % items
        api.answer_next("list", Reply(body=page))
        async with reflecting(PAGED):
            await until(lambda: feed.is_fresh)
        assert feed.things == {"good": "1"}
        assert len(feed.unreadable) == 1

    @pytest.mark.parametrize(
        "body",
        [
            pytest.param(b"<html>please log in</html>", id="html"),
            pytest.param(b'{"metadata":{},"items":[]}', id="no version"),
        ],
    )
    async def test_a_page_that_is_none_is_asked_for_again(
        self,
        api: ScriptedApi,
        feed: RememberingFeed,
        reflecting: Reflecting,
        clock: ManualClock,
        body: bytes,
    ) -> None:
        api.put("a", "1")
        api.answer_next("list", Reply(body=body))
        async with reflecting(PAGED) as reflector:
            await pause(reflector, clock)
            assert "begin" not in feed.story
            clock.advance(2)
            await until(lambda: feed.things == {"a": "1"})

    async def test_a_server_that_repeats_its_continue_token_is_not_followed_for_ever(
        self, api: ScriptedApi, feed: RememberingFeed, reflecting: Reflecting, clock: ManualClock
    ) -> None:
        page = b'{"metadata":{"resourceVersion":"1","continue":"x"},"items":[]}'
        api.answer_next("list", *[Reply(body=page)] * 100)
        async with reflecting(PAGED) as reflector:
            await pause(reflector, clock)
        assert api.count("list") == 2
        assert "repeats its continue token" in feed.reason
