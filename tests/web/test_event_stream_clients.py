"""Many clients at once, slow ones and stuck ones: nobody waits for another."""

import asyncio
import socket
from typing import Any

import aiohttp
import anyio
import anyio.abc
import pytest
from aiohttp import web
from yarl import URL

from reactive_desched.journal.records import JournalRecord
from reactive_desched.journal.summary import parse_summary
from reactive_desched.journal.tail import LiveTail
from reactive_desched.web import connections, live_buffer, server, stream_connection
from tests.support.event_source import DispatchedEvent, EventSource, read_all_events, take_events
from tests.support.manual_clock import wait_until
from tests.support.served_journal import EPOCH, ServedStream, ServeStream, to_sse_event

pytestmark = pytest.mark.anyio


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


def waiting_bytes(served: ServedStream) -> int:
    """Return how much of our memory the only client takes up."""
    (held,) = served.stream.clients.connections
    assert isinstance(held, web.RequestHandler)
    assert held.transport is not None
    return held.transport.get_write_buffer_size()


async def rest_of(one: socket.socket) -> bytes:
    """Read what still comes."""
    found = b""
    with anyio.fail_after(30):
        while chunk := await asyncio.get_running_loop().sock_recv(one, 1 << 16):
            found += chunk
    return found


async def test_a_client_too_many_is_asked_to_come_back_and_a_place_is_given_back_at_once(
    serving: ServeStream,
) -> None:
    async with (
        serving(max_clients=1, heartbeat_s=60) as served,
        aiohttp.ClientSession(served.url) as session,
    ):
        async with session.get("/events") as first:
            await anext(aiter(EventSource(first)))
            async with session.get("/events") as second:
                assert (second.status, second.headers["Retry-After"]) == (503, "5")
        numbers = served.stream.clients.counters
        assert (numbers.turned_away, numbers.sent) == (1, 0)
        await wait_until(lambda: numbers.clients == 0)
        async with session.get("/events") as third:
            assert third.status == 200
        await wait_until(lambda: not served.stream.clients.connections)


async def test_a_client_that_reads_nothing_holds_up_nothing_and_little_is_buffered_for_it(
    serving: ServeStream,
) -> None:
    async with serving(3000, stall_timeout_s=60) as served:
        numbers = served.stream.clients.counters
        with await lazy(served.url):
            await wait_until(lambda: numbers.clients == 1)
            others = await read_all_events(served.url, "&from=oldest")

            assert others == list(map(to_sse_event, served.records))
            assert (numbers.clients, numbers.cut) == (1, 0)
            longest = max(len(record.raw) for record in served.records)
            most = stream_connection.MAX_UNSENT_BYTES + live_buffer.CHUNK_BYTES + longest
            assert 0 < waiting_bytes(served) <= most


async def test_a_client_that_takes_nothing_is_cut_with_its_place(serving: ServeStream) -> None:
    async with serving(3000, stall_timeout_s=0.4) as served:
        numbers = served.stream.clients.counters
        with await lazy(served.url) as one:
            await wait_until(lambda: numbers.cut == 1)
            text = await rest_of(one)

        assert numbers.clients == 0
        (line,) = served.log.values_of("disconnected a client of the event stream")
        last_words = text.split(b"\n\n")[-2].decode()
        assert f"the last id is {EPOCH}.{line['at']}" in last_words
        ids = [part for part in text.split(b"\n") if part.startswith(b"id: ")]
        assert ids[-1] == f"id: {EPOCH}.{line['at']}".encode()
        found = await read_all_events(served.url, **{"Last-Event-ID": f"{EPOCH}.{line['at']}"})
        assert found == list(map(to_sse_event, served.records[line["at"] :]))


async def test_a_client_that_was_cut_has_time_to_take_its_last_words(
    serving: ServeStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_FLUSH_TIMEOUT_S", 0.0)  # other connections have no time left
    async with serving(3000, stall_timeout_s=0.4) as served:
        with await lazy(served.url) as one:
            await wait_until(lambda: served.stream.clients.counters.cut == 1)
            text = await rest_of(one)

    assert b": cut: nothing was taken for 0.4 s; the last id is" in text


async def test_a_client_that_takes_a_little_now_and_then_is_not_cut(serving: ServeStream) -> None:
    async with serving(3000, stall_timeout_s=1) as served:
        with await lazy(served.url, room=1 << 16) as one:
            for _ in range(20):
                await asyncio.get_running_loop().sock_recv(one, 1 << 16)
                await anyio.sleep(0.1)

            assert served.tail.last_seq > served.stream.clients.counters.sent
            assert served.stream.clients.counters.cut == 0
            assert served.stream.clients.counters.clients == 1


async def test_a_client_stuck_on_a_few_bytes_is_cut_though_few_events_come(
    serving: ServeStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_buffer, "CHUNK_BYTES", 1)
    monkeypatch.setattr(stream_connection, "SOCKET_BUFFER_BYTES", 4096)
    async with serving(300, there=1, stall_timeout_s=0.4, heartbeat_s=60) as served:
        with await lazy(served.url, "from=now"):
            await wait_until(lambda: served.stream.clients.counters.clients == 1)
            while not waiting_bytes(served):
                served.publish()
                await anyio.sleep(0.06)
            assert waiting_bytes(served) < stream_connection.MAX_UNSENT_BYTES

            await wait_until(lambda: served.stream.clients.counters.cut == 1)


async def test_however_many_clients_there_are_each_record_is_read_and_parsed_once(
    serving: ServeStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[bytes] = []

    def parse(raw: bytes) -> Any:
        parsed.append(raw)
        return parse_summary(raw)

    monkeypatch.setattr(live_buffer, "parse_summary", parse)
    told: dict[str, list[DispatchedEvent]] = {}
    async with serving(60, there=10) as served, anyio.create_task_group() as group:

        async def follow(query: str, *, task_status: anyio.abc.TaskStatus[None]) -> None:
            async with (
                aiohttp.ClientSession(served.url) as session,
                session.get(f"/events?{query}") as response,
            ):
                source = EventSource(response)
                await anext(aiter(source))  # its heartbeat: it is there
                task_status.started()
                told[query] = await take_events(source, len(wanted[query]))

        new = [to_sse_event(record) for record in served.records[10:60]]
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
    serving: ServeStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 1)
    monkeypatch.setattr(connections, "MAX_LIFETIME_S", 1)
    monkeypatch.setattr(connections, "REQUEST_HEAD_TIMEOUT_S", 1)
    connector = aiohttp.TCPConnector(force_close=True)
    async with (
        serving(there=5, max_clients=3) as served,
        aiohttp.ClientSession(served.url, connector=connector) as session,
        session.get("/events") as one,
        session.get("/events") as two,
        session.get("/events") as three,
    ):
        sources = [aiter(EventSource(response)) for response in (one, two, three)]
        for source in sources:
            await anext(source)
        await anyio.sleep(1.2)
        async with session.get("/livez") as probe:
            assert probe.status == 200

        served.publish()
        for source in sources:
            assert await anext(source) == to_sse_event(served.records[5])


async def test_a_crowd_that_comes_at_once_gets_the_places_and_the_others_a_refusal(
    serving: ServeStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 2)
    async with serving(max_clients=3, heartbeat_s=60) as served:
        address = URL(served.url)
        crowd = [await asyncio.open_connection(address.host, address.port) for _ in range(5)]
        for _, writer in crowd:
            writer.write(b"GET /events HTTP/1.1\r\nHost: h\r\n\r\n")

        statuses = [(await reader.readline())[9:12] for reader, _ in crowd]

        assert sorted(statuses) == [b"200"] * 3 + [b"503"] * 2
        assert served.stream.clients.counters.turned_away == 2
        for _, writer in crowd:
            writer.close()


@pytest.mark.timeout(40)  # anything that was waited for would take longer
async def test_when_the_server_ends_so_do_the_streams_at_once_and_whole(
    serving: ServeStream,
) -> None:
    async with aiohttp.ClientSession() as session:
        async with serving(3000, heartbeat_s=60, stall_timeout_s=60) as served:
            quiet = await session.get(f"{served.url}/events")
            source = aiter(EventSource(quiet))
            await anext(source)
            stuck = await lazy(served.url)
            await wait_until(lambda: served.stream.clients.counters.sent > 100)

        assert [event async for event in source] == []  # a cut answer raises
        assert served.stream.clients.counters.clients == 0
        stuck.close()
        quiet.close()


@pytest.mark.parametrize("query", ["", "?from=oldest", "?from=oldest&type=policy"])
async def test_streams_that_are_finished_end_behind_the_newest_record(
    serving: ServeStream, query: str
) -> None:
    async with (
        aiohttp.ClientSession() as session,
        serving(900, there=890, heartbeat_s=60) as served,
        session.get(f"{served.url}/events{query}") as followed,
    ):
        source = EventSource(followed)
        events = aiter(source)
        await anext(events)
        served.publish(10)
        with anyio.fail_after(40):
            await served.stream.finish(within_s=60)
            found = [event async for event in events if event.type != "heartbeat"]

        assert source.last_id == f"{EPOCH}.900"
        if "type" not in query:
            assert found[-10:] == [to_sse_event(record) for record in served.records[890:900]]
        async with session.get(f"{served.url}/events") as late:
            assert late.status == 503


async def test_finishing_does_not_wait_longer_than_it_may_for_a_client_that_takes_nothing(
    serving: ServeStream,
) -> None:
    async with serving(3000, heartbeat_s=60, stall_timeout_s=60) as served:
        with await lazy(served.url):
            await wait_until(lambda: served.stream.clients.counters.sent > 100)
            with anyio.fail_after(30):
                await served.stream.finish(within_s=0.05)


async def test_a_journal_that_cannot_be_read_ends_that_answer_and_is_logged(
    serving: ServeStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(20) as served:

        async def fails(*_: object) -> list[JournalRecord]:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(LiveTail, "read_after", fails)
        with await lazy(served.url) as one:
            text = await rest_of(one)

        assert b": the journal cannot be read" in text
        (line,) = served.log.values_of("the event stream cannot read the journal")
        assert "Input/output error" in line["message"]
        assert served.stream.clients.counters.clients == 0
