import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

import aiohttp
import anyio
import anyio.abc
import pytest
from yarl import URL

from reactive_desched.api.event import DATA
from reactive_desched.journal.envelope import epoch_of
from reactive_desched.journal.records import Entry
from reactive_desched.journal.summary import Filter, short, summary
from reactive_desched.journal.tail import Tail
from reactive_desched.testing.journals import SOURCE, some_events
from reactive_desched.web import connections, latest, link

pytestmark = pytest.mark.anyio

EPOCH = epoch_of(SOURCE)
Serving = Callable[..., Any]  # the fixture's context manager


class Event(NamedTuple):
    """What an EventSource dispatches."""

    id: str
    type: str
    data: str


class EventSource:
    """Reads a stream as the WHATWG's standard says, as strictly as a browser does."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        assert response.status == 200
        assert response.headers["Content-Type"].split(";")[0] == "text/event-stream"
        self._content = response.content
        self._buffer = ""
        self._lines: list[str] = []
        self.last_id = ""
        self.retry_ms: int | None = None
        self.comments: list[str] = []

    async def __aiter__(self) -> AsyncIterator[Event]:
        type_, data = "", list[str]()
        async for line in self._by_line():
            if not line:
                if data:
                    yield Event(self.last_id, type_ or "message", "\n".join(data))
                type_, data = "", []
                continue
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            match field:
                case "":
                    self.comments.append(value)
                case "event":
                    type_ = value
                case "data":
                    data.append(value)
                case "id" if "\0" not in value:
                    self.last_id = value
                case "retry" if value.isascii() and value.isdigit():
                    self.retry_ms = int(value)
                case _:
                    raise AssertionError(f"no field of an event: {line!r}")

    async def _by_line(self) -> AsyncIterator[str]:
        rest = b""
        async for chunk in self._content.iter_any():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                assert b"\r" not in line
                yield line.decode("utf-8", "strict")


async def take(source: EventSource, count: int) -> list[Event]:
    """Return the next events, heartbeats left out."""
    found: list[Event] = []
    with anyio.fail_after(10):
        async for event in source:
            if event.type != "heartbeat":
                found.append(event)
            if len(found) == count:
                break
    return found


def as_event(record: Entry) -> Event:
    """Return what a client must get for a record."""
    line = summary(record.raw)
    assert line is not None
    return Event(f"{EPOCH}.{record.seq}", short(line.type), record.raw.decode())


async def everything(url: str, query: str = "", **headers: str) -> list[Event]:
    """Return all there is for a client that does not follow, heartbeats left out."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{url}/events?follow=false{query}", headers=headers) as response,
    ):
        return [event async for event in EventSource(response) if event.type != "heartbeat"]


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(10):
        while not condition():  # noqa: ASYNC110  # there is no event to wait on
            await anyio.sleep(0.005)


async def test_a_new_client_hears_at_once_that_the_stream_is_up_and_then_what_comes(
    serving: Serving,
) -> None:
    async with (
        serving(there=5) as served,
        aiohttp.ClientSession(served.url) as session,
        session.get("/events") as response,
    ):
        source = EventSource(response)
        events = aiter(source)

        assert await anext(events) == Event(f"{EPOCH}.5", "heartbeat", '{"sequence":5}')
        assert source.retry_ms == 3000
        for record in served.records[5:8]:
            served.publish()
            assert await anext(events) == as_event(record)
        assert served.stream.clients.numbers.sent == 3


async def test_from_the_oldest_every_line_comes_unchanged_and_the_answer_ends(
    serving: Serving,
) -> None:
    async with serving(250) as served:
        assert await everything(served.url, "&from=oldest") == list(map(as_event, served.records))


@pytest.mark.parametrize(
    ("query", "first"),
    [
        pytest.param("&from=7", 8, id="a sequence"),
        pytest.param("&from=00000000000000000007", 8, id="a sequence as events have it"),
        pytest.param(f"&from={EPOCH}.7", 8, id="an id"),
        pytest.param("&from=0", 1, id="before the first"),
        pytest.param("&from=now", 24, id="now"),
        pytest.param("", 24, id="nothing said"),
        pytest.param("&from=2026-03-29T01:30:07Z", 7, id="a time"),
        pytest.param("&from=2026-03-29T03:30:06.5%2B02:00", 7, id="a time in another zone"),
        pytest.param("&from=2026-03-29", 1, id="a day"),
        pytest.param("&from=2026-03-30", 24, id="a day to come"),
        pytest.param("&from=59m50s", 10, id="a while ago"),
        pytest.param("&from=2020-01-01T00:00:00Z", 1, id="a time before everything"),
        pytest.param("&from=2030-01-01T00:00:00Z", 24, id="a time to come"),
    ],
)
async def test_a_client_begins_behind_the_place_it_names(
    serving: Serving, query: str, first: int
) -> None:
    async with serving(22) as served:
        assert len(served.records) == 23
        expected = served.records[first - 1 :]

        assert await everything(served.url, query) == list(map(as_event, expected))


async def test_the_place_a_reconnecting_client_sends_counts_more_than_that_of_its_address(
    serving: Serving,
) -> None:
    async with serving(20) as served:
        found = await everything(served.url, "&from=oldest", **{"Last-Event-ID": f"{EPOCH}.18"})

        assert found == list(map(as_event, served.records[18:]))


@pytest.mark.parametrize("query", ["", "&type=eviction"], ids=["all", "filtered"])
async def test_a_client_that_is_cut_again_and_again_misses_nothing_and_gets_nothing_twice(
    serving: Serving, query: str
) -> None:
    found: list[Event] = []
    async with serving(900, there=1) as served, anyio.create_task_group() as group:

        async def write() -> None:
            while served.tail.last < len(served.records):
                served.publish(7)
                await anyio.sleep(0.002)

        last_id = f"{EPOCH}.0"
        wanted = [
            event
            for event in map(as_event, served.records)
            if not query or event.type.startswith("eviction.")
        ]
        group.start_soon(write)
        for taken in (1, 2, 40, 3, 100, 1, 17) * 20:
            async with (
                aiohttp.ClientSession(served.url) as session,
                session.get(f"/events?{query}", headers={"Last-Event-ID": last_id}) as response,
            ):
                source = EventSource(response)
                found += await take(source, min(taken, len(wanted) - len(found)))
                last_id = source.last_id
            if len(found) == len(wanted):
                break

    assert found == wanted


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        pytest.param(f"{EPOCH}.3", "record 4 was removed", id="removed"),
        pytest.param("3", "record 4 was removed", id="removed, a bare sequence"),
        pytest.param("another.15", "that is an id of another journal", id="another journal"),
        pytest.param(f"{EPOCH}.99", "there is no record 99 yet", id="not there yet"),
        pytest.param("Grüße".encode().decode("latin-1"), "another journal", id="no id at all"),
    ],
)
async def test_a_place_that_is_gone_is_told_once_and_the_oldest_comes_next(
    serving: Serving, place: str, reason: str
) -> None:
    async with serving(20, oldest=11) as served:
        reset, *events = await everything(served.url, **{"Last-Event-ID": place})

        assert reset.type == "reset"
        assert reset.id == f"{EPOCH}.10"
        told = json.loads(reset.data)
        assert (told["oldest"], told["next"]) == (11, 11)
        assert reason in told["reason"]
        assert events == list(map(as_event, served.records[10:]))
        assert served.stream.clients.numbers.resets == 1
        again = await everything(served.url, **{"Last-Event-ID": reset.id})
        assert again == events


async def test_what_is_removed_while_a_client_is_behind_is_told_too(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(700) as served:
        after = Tail.after

        async def removing(tail: Tail, seq: int, most: int = 500) -> list[Entry]:
            found = await after(tail, seq, most)
            tail.removed_before(601)
            return found

        monkeypatch.setattr(Tail, "after", removing)
        events = await everything(served.url, "&from=oldest")

        resets = [event for event in events if event.type == "reset"]
        assert [json.loads(reset.data)["next"] for reset in resets] == [601]
        at = events.index(resets[0])
        assert events[:at] == list(map(as_event, served.records[:at]))
        assert events[at + 1 :] == list(map(as_event, served.records[600:]))


@pytest.mark.parametrize(
    ("query", "filter_"),
    [
        ("&namespace=shop", Filter(namespaces=("shop",))),
        ("&namespace=shop,bank&node=n1", Filter(namespaces=("shop", "bank"), nodes=("n1",))),
        ("&node=n1&node=n2", Filter(nodes=("n1", "n2"))),
        ("&owner=Deployment/web", Filter(owners=("Deployment/web",))),
        ("&plugin=PodLifeTime", Filter(plugins=("PodLifeTime",))),
        ("&pod=shop/web-6d4b75cb6d-00000", Filter(pods=("shop/web-6d4b75cb6d-00000",))),
        ("&type=eviction", Filter(types=("eviction",))),
        ("&type=policy.loaded,decision.defer", Filter(types=("policy.loaded", "decision.defer"))),
        ("&outcome=gone", Filter(outcomes=("gone",))),
        (
            "&outcome=refused%20by%20disruption%20budget",
            Filter(outcomes=("refused by disruption budget",)),
        ),
        ("&namespace=nowhere", Filter(namespaces=("nowhere",))),
    ],
)
async def test_a_filter_leaves_exactly_what_was_asked_for(
    serving: Serving, query: str, filter_: Filter
) -> None:
    async with serving(150) as served:
        lines = ((record, summary(record.raw)) for record in served.records)
        wanted = [as_event(one) for one, line in lines if line is not None and filter_.wants(line)]
        assert 0 < len(wanted) < 150 or "nowhere" in query

        assert await everything(served.url, f"&from=oldest{query}") == wanted
        async with (
            aiohttp.ClientSession(served.url) as session,
            session.get(f"/events?from=oldest{query}") as response,
        ):
            assert (
                await take(EventSource(response), len(wanted) or -1) == wanted if wanted else True
            )


@pytest.mark.parametrize(
    ("query", "told"),
    [
        pytest.param("type=evicton", "eviction.succeeded", id="a type"),
        pytest.param("typ=eviction", "namespace, owner, plugin, type, pod, node", id="a key"),
        pytest.param("from=yesterday", "oldest", id="a place"),
        pytest.param("from=3d", "72h", id="a unit"),
        pytest.param("from=1&from=2", "only one", id="two places"),
        pytest.param(
            "from=2026-03-29T03:30:00+02:00",
            "write %2B, as in from=2026-03-29T03:30:00%2B02:00",
            id="a plus that became a space",
        ),
        pytest.param("follow=maybe", "true nor false", id="whether to follow"),
        pytest.param("pod=a,,b", "empty word", id="an empty word"),
    ],
)
async def test_what_cannot_be_asked_is_refused_with_what_can(
    serving: Serving, query: str, told: str
) -> None:
    async with (
        serving() as served,
        aiohttp.ClientSession(served.url) as session,
        session.get(URL(f"/events?{query}", encoded=True)) as response,
    ):
        assert response.status == 400
        assert told in await response.text()


async def test_a_heartbeat_tells_how_far_was_looked_so_that_nothing_is_searched_twice(
    serving: Serving,
) -> None:
    async with (
        serving(30, there=5, heartbeat_s=0.03) as served,
        aiohttp.ClientSession(served.url) as session,
        session.get("/events?namespace=nowhere") as response,
    ):
        beats: list[Event] = []
        with anyio.fail_after(10):
            async for event in EventSource(response):
                beats.append(event)
                served.publish()
                if len(beats) == 10:
                    break

        assert {event.type for event in beats} == {"heartbeat"}
        assert [json.loads(beat.data)["sequence"] for beat in beats] == [
            int(beat.id.rpartition(".")[2]) for beat in beats
        ]
        assert beats[0].id == f"{EPOCH}.5"
        assert json.loads(beats[-1].data)["sequence"] > 8


async def test_an_answer_that_ends_tells_last_how_far_it_looked(serving: Serving) -> None:
    async with (
        serving(30) as served,
        aiohttp.ClientSession(served.url) as session,
        session.get("/events?namespace=nowhere&from=oldest&follow=false") as response,
    ):
        *_, last = [event async for event in EventSource(response)]

        assert last == Event(f"{EPOCH}.31", "heartbeat", '{"sequence":31}')


async def test_heartbeats_come_while_events_do(serving: Serving) -> None:
    async with (
        serving(300, there=5, heartbeat_s=0.05) as served,
        aiohttp.ClientSession(served.url) as session,
        session.get("/events") as response,
    ):
        beats = 0
        with anyio.fail_after(10):
            async for event in EventSource(response):
                beats += event.type == "heartbeat"
                served.publish(1 if served.tail.last < len(served.records) else 0)
                if beats == 4:
                    break

        assert served.stream.clients.numbers.sent > 0


async def test_lines_come_as_they_are_to_whoever_asks_for_them(serving: Serving) -> None:
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


async def test_a_heartbeat_between_lines_is_an_empty_one(serving: Serving) -> None:
    async with (
        serving(20, there=3, heartbeat_s=0.02) as served,
        aiohttp.ClientSession(served.url) as session,
        session.get("/events", headers={"Accept": "application/x-ndjson"}) as response,
    ):
        with anyio.fail_after(10):
            assert [await response.content.readline() for _ in range(3)] == [b"\n"] * 3
            served.publish()
            while (line := await response.content.readline()) == b"\n":
                pass

        assert line == served.records[3].raw + b"\n"


async def test_a_client_too_many_is_asked_to_come_back_and_a_place_is_given_back_at_once(
    serving: Serving,
) -> None:
    async with (
        serving(max_clients=1, heartbeat_s=60) as served,
        aiohttp.ClientSession(served.url) as session,
    ):
        async with session.get("/events") as first:
            await anext(aiter(EventSource(first)))
            async with session.get("/events") as second:
                assert (second.status, second.headers["Retry-After"]) == (503, "5")
        numbers = served.stream.clients.numbers
        assert (numbers.turned_away, numbers.sent) == (1, 0)
        await until(lambda: numbers.clients == 0)
        async with session.get("/events") as third:
            assert third.status == 200
        await until(lambda: not served.stream.clients.connections)


async def lazy(url: str, query: str = "from=oldest", room: int = 4096) -> socket.socket:
    """Ask for the stream on a connection with little room, and read nothing."""
    address = URL(url)
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    one.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(one, (address.host, address.port))
    await loop.sock_sendall(one, f"GET /events?{query} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
    return one


async def rest_of(one: socket.socket) -> bytes:
    """Read what still comes."""
    found = b""
    with anyio.fail_after(10):
        while chunk := await asyncio.get_running_loop().sock_recv(one, 1 << 16):
            found += chunk
    return found


async def test_a_client_that_takes_nothing_is_cut_with_its_place_and_nobody_waits_for_it(
    serving: Serving,
) -> None:
    async with serving(3000, stalled_after_s=0.4) as served:
        numbers = served.stream.clients.numbers
        with await lazy(served.url) as one:
            await until(lambda: numbers.clients == 1)
            others = await everything(served.url, "&from=oldest")
            assert others == list(map(as_event, served.records))
            assert numbers.cut == 0
            (held,) = served.stream.clients.connections
            assert (
                0
                < held.transport.get_write_buffer_size()
                <= (
                    link.WAITING_BYTES
                    + latest.PIECE_BYTES
                    + max(len(r.raw) for r in served.records)
                )
            )

            await until(lambda: numbers.cut == 1)
            text = await rest_of(one)

        assert numbers.clients == 0
        (line,) = [values for event, values in served.log.lines if event.startswith("cut")]
        last_words = text.split(b"\n\n")[-2].decode()
        assert f"the last id is {EPOCH}.{line['at']}" in last_words
        ids = [part for part in text.split(b"\n") if part.startswith(b"id: ")]
        assert ids[-1] == f"id: {EPOCH}.{line['at']}".encode()
        found = await everything(served.url, **{"Last-Event-ID": f"{EPOCH}.{line['at']}"})
        assert found == list(map(as_event, served.records[line["at"] :]))


async def test_a_client_that_takes_a_little_now_and_then_is_not_cut(serving: Serving) -> None:
    async with serving(3000, stalled_after_s=0.4) as served:
        with await lazy(served.url, room=1 << 16) as one:
            for _ in range(20):
                await asyncio.get_running_loop().sock_recv(one, 1 << 16)
                await anyio.sleep(0.1)

            assert served.tail.last > served.stream.clients.numbers.sent
            assert served.stream.clients.numbers.cut == 0
            assert served.stream.clients.numbers.clients == 1


async def test_a_client_stuck_on_a_few_bytes_is_cut_though_there_is_hardly_any_news(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latest, "PIECE_BYTES", 1)
    monkeypatch.setattr(link, "SYSTEM_BYTES", 4096)
    async with serving(300, there=1, stalled_after_s=0.4, heartbeat_s=60) as served:
        with await lazy(served.url, "from=now"):
            await until(lambda: served.stream.clients.numbers.clients == 1)
            (held,) = served.stream.clients.connections
            transport = held.transport
            while not transport.get_write_buffer_size():
                served.publish()
                await anyio.sleep(0.06)
            assert transport.get_write_buffer_size() < link.WAITING_BYTES

            await until(lambda: served.stream.clients.numbers.cut == 1)


async def test_however_many_clients_there_are_each_record_is_read_and_parsed_once(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[bytes] = []

    def parse(raw: bytes) -> Any:
        parsed.append(raw)
        return summary(raw)

    monkeypatch.setattr(latest, "summary", parse)
    told: dict[str, list[Event]] = {}
    async with serving(60, there=10) as served, anyio.create_task_group() as group:

        async def follow(query: str, *, task_status: anyio.abc.TaskStatus[None]) -> None:
            async with (
                aiohttp.ClientSession(served.url) as session,
                session.get(f"/events?{query}") as response,
            ):
                source = EventSource(response)
                await anext(aiter(source))
                task_status.started()
                told[query] = await take(source, len(wanted[query]))

        new = [as_event(record) for record in served.records[10:60]]
        wanted = {
            "": new,
            "type=eviction": [event for event in new if event.type.startswith("eviction.")],
            "type=decision": [event for event in new if event.type.startswith("decision.")],
            "node=n1": [event for event in new if '"node":"n1"' in event.data],
        }
        for query in [*wanted, ""]:
            await group.start(follow, query)
        served.publish(50)

    assert told == wanted
    assert sorted(parsed) == sorted(record.raw for record in served.records[10:60])


async def test_streams_neither_end_after_a_minute_nor_take_places_from_probes(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 2)
    monkeypatch.setattr(connections, "LIFETIME_S", 0.05)
    monkeypatch.setattr(connections, "_SWEEP_EVERY_S", 0.02)
    connector = aiohttp.TCPConnector(force_close=True)
    async with (
        serving(there=5) as served,
        aiohttp.ClientSession(served.url, connector=connector) as session,
        session.get("/events") as one,
        session.get("/events") as two,
        session.get("/events") as three,
    ):
        sources = [aiter(EventSource(response)) for response in (one, two, three)]
        for source in sources:
            await anext(source)
        await anyio.sleep(0.3)
        async with session.get("/livez") as probe:
            assert probe.status == 200

        served.publish()
        for source in sources:
            assert await anext(source) == as_event(served.records[5])


async def test_when_the_server_ends_so_do_the_streams_at_once_and_whole(serving: Serving) -> None:
    async with aiohttp.ClientSession() as session:
        async with serving(3000, heartbeat_s=60) as served:
            quiet = await session.get(f"{served.url}/events")
            source = aiter(EventSource(quiet))
            await anext(source)
            stuck = await lazy(served.url)
            await until(lambda: served.stream.clients.numbers.sent > 100)
            began = anyio.current_time()
        took_s = anyio.current_time() - began

        assert [event async for event in source] == []  # a cut answer raises
        assert took_s < 1
        assert served.stream.clients.numbers.clients == 0
        stuck.close()
        quiet.close()


async def test_head_tells_the_headers_and_takes_no_place(serving: Serving) -> None:
    async with (
        serving(max_clients=1) as served,
        aiohttp.ClientSession(served.url) as session,
        session.get("/events") as taken,
    ):
        await anext(aiter(EventSource(taken)))
        async with session.head("/events?from=oldest") as head:
            assert (head.status, await head.read()) == (200, b"")
            assert head.headers["Content-Type"] == "text/event-stream; charset=utf-8"


async def test_another_site_cannot_read_the_stream_and_no_proxy_keeps_it(serving: Serving) -> None:
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


async def test_a_journal_that_cannot_be_read_ends_that_answer_and_is_logged(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(20) as served:

        async def fails(*_: object) -> list[Entry]:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(Tail, "after", fails)
        with await lazy(served.url) as one:
            text = await rest_of(one)

        assert b": the journal cannot be read" in text
        assert "Input/output error" in served.log.lines[0][1]["because"]
        assert served.stream.clients.numbers.clients == 0


async def test_what_is_told_of_every_type_has_its_short_name(serving: Serving) -> None:
    async with serving(some_events(400)) as served:
        events = await everything(served.url, "&from=oldest")

    assert {event.type for event in events} == set(map(short, DATA))
