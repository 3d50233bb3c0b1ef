"""What a client of the event stream is told, and how."""

import json

import aiohttp
import pytest
from yarl import URL

from reactive_desched.api.event import DATA_TYPES
from reactive_desched.journal.summary import EventFilter, parse_summary
from reactive_desched.model.event_types import short_type
from tests.support.event_source import DispatchedEvent, EventSource, read_all_events, take_events
from tests.support.journals import some_events
from tests.support.served_journal import EPOCH, ServeStream, to_sse_event

pytestmark = pytest.mark.anyio


async def test_a_new_client_learns_at_once_that_the_stream_is_up_and_then_what_comes(
    serving: ServeStream,
) -> None:
    async with (
        serving(there=5) as served,
        aiohttp.ClientSession(served.url) as session,
        session.get("/events") as response,
    ):
        source = EventSource(response)
        events = aiter(source)

        assert await anext(events) == DispatchedEvent(f"{EPOCH}.5", "heartbeat", '{"sequence":5}')
        assert source.retry_ms == 3000
        for record in served.records[5:8]:
            served.publish()
            assert await anext(events) == to_sse_event(record)
        assert served.stream.clients.counters.sent == 3


async def test_from_the_oldest_every_line_comes_unchanged_and_the_answer_ends(
    serving: ServeStream,
) -> None:
    async with serving(250) as served:
        assert await read_all_events(served.url, "&from=oldest") == list(
            map(to_sse_event, served.records)
        )


@pytest.mark.parametrize(
    ("query", "filter_"),
    [
        ("&namespace=shop", EventFilter(namespaces=("shop",))),
        ("&namespace=shop,bank&node=n1", EventFilter(namespaces=("shop", "bank"), nodes=("n1",))),
        ("&node=n1&node=n2", EventFilter(nodes=("n1", "n2"))),
        ("&owner=Deployment/web", EventFilter(owners=("Deployment/web",))),
        ("&plugin=PodLifeTime", EventFilter(plugins=("PodLifeTime",))),
        ("&pod=shop/web-6d4b75cb6d-00000", EventFilter(pods=("shop/web-6d4b75cb6d-00000",))),
        ("&type=eviction", EventFilter(types=("eviction",))),
        (
            "&type=policy.loaded,decision.defer",
            EventFilter(types=("policy.loaded", "decision.defer")),
        ),
        ("&outcome=not_found", EventFilter(outcomes=("not_found",))),
        (
            "&outcome=pdb_refused",
            EventFilter(outcomes=("pdb_refused",)),
        ),
    ],
)
async def test_a_filter_leaves_exactly_what_was_asked_for(
    serving: ServeStream, query: str, filter_: EventFilter
) -> None:
    async with serving(150) as served:
        lines = ((record, parse_summary(record.raw)) for record in served.records)
        wanted = [
            to_sse_event(one) for one, line in lines if line is not None and filter_.matches(line)
        ]
        assert 0 < len(wanted) < 150

        assert await read_all_events(served.url, f"&from=oldest{query}") == wanted
        async with (
            aiohttp.ClientSession(served.url) as session,
            session.get(f"/events?from=oldest{query}") as response,
        ):
            assert await take_events(EventSource(response), len(wanted)) == wanted


async def test_a_filter_that_nothing_passes_leaves_nothing(serving: ServeStream) -> None:
    async with serving(150) as served:
        assert await read_all_events(served.url, "&from=oldest&namespace=nowhere") == []


@pytest.mark.parametrize(
    ("query", "told"),
    [
        pytest.param("type=evicton", "eviction.succeeded", id="a type"),
        pytest.param("typ=eviction", "namespace, owner, plugin, type, pod, node", id="a key"),
        pytest.param("from=yesterday", "oldest", id="a place"),
        pytest.param("from=3y", "2h ago", id="a unit"),
        pytest.param("from=1&from=2", "only one", id="two places"),
        pytest.param(
            "from=2026-03-29T03:30:00+02:00",
            "write %2B, as in from=2026-03-29T03:30:00%2B02:00",
            id="a plus that became a space",
        ),
        pytest.param("follow=maybe", "true nor false", id="whether to follow"),
        pytest.param("follow=false&follow=maybe", "given twice", id="to follow, twice"),
        pytest.param("follow=false&follow=false", "given twice", id="to follow, twice the same"),
        pytest.param("pod=a,,b", "empty word", id="an empty word"),
        pytest.param("outcome=evcited", "did you mean evicted?", id="an outcome"),
        pytest.param("reason=DisruptionBudgets", "did you mean DisruptionBudget?", id="a reason"),
    ],
)
async def test_what_cannot_be_asked_is_refused_with_what_can(
    serving: ServeStream, query: str, told: str
) -> None:
    async with (
        serving() as served,
        aiohttp.ClientSession(served.url) as session,
        session.get(URL(f"/events?{query}", encoded=True)) as response,
    ):
        assert response.status == 400
        assert told in await response.text()


async def test_lines_come_as_they_are_to_a_client_that_asks_for_them(serving: ServeStream) -> None:
    accept = {"Accept": "text/plain, application/x-ndjson;q=0.9"}
    async with (
        serving(20, oldest=11) as served,
        aiohttp.ClientSession(served.url) as session,
        session.get("/events?from=3&follow=false", headers=accept) as response,
    ):
        assert response.headers["Content-Type"] == "application/x-ndjson"
        reset, *lines = (await response.read()).split(b"\n")

    assert json.loads(reset) == {
        "reset": {"next": 11, "oldest": 11, "reason": "record 4 was removed"}
    }
    assert [line for line in lines if line] == [record.raw for record in served.records[10:]]


async def test_head_sends_the_headers_and_takes_no_place(serving: ServeStream) -> None:
    async with (
        serving(max_clients=1) as served,
        aiohttp.ClientSession(served.url) as session,
        session.get("/events") as taken,
    ):
        await anext(aiter(EventSource(taken)))
        async with session.head("/events?from=oldest") as head:
            assert (head.status, await head.read()) == (200, b"")
            assert head.headers["Content-Type"] == "text/event-stream; charset=utf-8"


async def test_another_site_cannot_read_the_stream_and_no_proxy_keeps_it(
    serving: ServeStream,
) -> None:
    origin = {"Origin": "https://example.org"}
    async with serving() as served, aiohttp.ClientSession(served.url) as session:
        async with session.get("/events", headers=origin) as response:
            headers = response.headers
            assert [name for name in headers if name.startswith("Access-Control")] == []
            assert headers["Cache-Control"] == "no-store"
            assert headers["X-Accel-Buffering"] == "no"
            assert headers["Content-Security-Policy"].startswith("default-src 'none'")
        async with session.post("/events") as posted:
            assert posted.status == 405
        async with session.get("/") as index:
            assert "/events" in await index.text()


async def test_every_type_has_a_short_name(serving: ServeStream) -> None:
    async with serving(some_events(400)) as served:
        events = await read_all_events(served.url, "&from=oldest")

    assert {event.type for event in events} == set(map(short_type, DATA_TYPES))
