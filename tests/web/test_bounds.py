"""What the stream holds of the journal and for each client, and that it lets go of it."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import aiohttp
import anyio
import anyio.lowlevel
import pytest
from aiohttp import web
from yarl import URL

from reactive_desched.journal.records import JournalRecord
from reactive_desched.journal.summary import EventFilter
from reactive_desched.journal.tail import LiveTail
from reactive_desched.web import connections, stream_connection
from reactive_desched.web import live_buffer as module
from reactive_desched.web.framing import NdjsonFraming
from reactive_desched.web.live_buffer import LiveBuffer
from tests.support.event_source import EventSource
from tests.support.journals import SOURCE, some_events, write_journal
from tests.support.manual_clock import wait_until
from tests.support.served_journal import ServedStream, ServeStream

pytestmark = pytest.mark.anyio

Following = Callable[[], AbstractAsyncContextManager[LiveBuffer]]


@pytest.fixture
def entries(tmp_path: Path) -> list[JournalRecord]:
    return write_journal(tmp_path, some_events(60))


@pytest.fixture
def following(tmp_path: Path, entries: list[JournalRecord]) -> Following:
    """Return a way to follow a journal, from record 21 on, until it has 50."""

    @asynccontextmanager
    async def follow() -> AsyncIterator[LiveBuffer]:
        tail = LiveTail(tmp_path, SOURCE, 1, 20)
        latest = LiveBuffer(tail)
        async with anyio.create_task_group() as group:
            latest.add_client()
            group.start_soon(latest.run)
            tail.publish(entries[20:50])
            await latest.wait_for_records(20)
            yield latest
            group.cancel_scope.cancel()

    return follow


async def stuck(url: str) -> socket.socket:
    """Ask for everything on a connection with little room, and read nothing."""
    address = URL(url)
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    one.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(one, (address.host, address.port))
    await loop.sock_sendall(one, b"GET /events?from=oldest HTTP/1.1\r\nHost: h\r\n\r\n")
    return one


async def connection_of_the_only_client(served: ServedStream) -> asyncio.Transport:
    await wait_until(lambda: served.stream.clients.counters.clients == 1)
    [held] = served.stream.clients.connections
    assert isinstance(held, web.RequestHandler)
    assert held.transport is not None
    return held.transport


@pytest.mark.parametrize("bound", ["MAX_RECORDS", "MAX_BYTES"])
async def test_only_the_newest_records_are_kept(
    following: Following, entries: list[JournalRecord], monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    five = entries[45:50]
    most = {"MAX_RECORDS": 5, "MAX_BYTES": sum(len(entry.raw) for entry in five)}
    monkeypatch.setattr(module, bound, most[bound])
    async with following() as latest:
        found = await latest.chunk(45, EventFilter(), NdjsonFraming())

        assert found is not None
        assert found.data.splitlines() == [entry.raw for entry in five]
        assert await latest.chunk(44, EventFilter(), NdjsonFraming()) is None


async def test_only_so_many_pieces_are_shared(
    following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK_CACHE_SIZE", 2)
    async with following() as latest:
        filters = [EventFilter(nodes=(f"n{number}",)) for number in range(3)]
        once = [await latest.chunk(20, wanted, NdjsonFraming()) for wanted in filters]
        again = [await latest.chunk(20, wanted, NdjsonFraming()) for wanted in filters]

    assert once == again
    assert [one is other for one, other in zip(once, again, strict=True)] == [True, True, False]


async def test_after_the_last_client_the_journal_is_not_read_any_more(
    serving: ServeStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "NOTIFY_INTERVAL_S", 0.001)
    read_at: list[int] = []
    after = LiveTail.read_after

    async def watched(tail: LiveTail, seq: int, most: int = 500) -> list[JournalRecord]:
        read_at.append(seq)
        return await after(tail, seq, most)

    monkeypatch.setattr(LiveTail, "read_after", watched)
    async with serving(20, there=5) as served:
        async with aiohttp.ClientSession(served.url) as session, session.get("/events") as one:
            await anext(aiter(EventSource(one)))
        await wait_until(lambda: served.stream.clients.counters.clients == 0)
        served.publish()  # what it still waited for
        await wait_until(lambda: bool(read_at))
        read_at.clear()
        for _ in range(5):
            served.publish()
            await anyio.sleep(0.02)

    assert read_at == []


async def test_what_a_stuck_client_does_not_take_at_the_end_is_let_go(
    serving: ServeStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_FLUSH_TIMEOUT_S", 0.01)
    async with serving(3000, heartbeat_s=60, stall_timeout_s=60) as served:
        one = await stuck(served.url)
        transport = await connection_of_the_only_client(served)
        await wait_until(lambda: transport.get_write_buffer_size() > 0)

    await wait_until(lambda: not transport.get_write_buffer_size())
    one.close()


async def test_what_waits_in_our_memory_for_a_client_is_bounded(
    serving: ServeStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_connection, "MAX_UNSENT_BYTES", 4096)
    monkeypatch.setattr(stream_connection, "SOCKET_BUFFER_BYTES", 4096)
    monkeypatch.setattr(module, "CHUNK_BYTES", 1)
    async with serving(300, stall_timeout_s=0.4, heartbeat_s=60) as served:
        longest = max(len(record.raw) for record in served.records)
        with await stuck(served.url):
            most = 0
            transport = await connection_of_the_only_client(served)
            while not transport.is_closing():
                most = max(most, transport.get_write_buffer_size())
                await anyio.lowlevel.checkpoint()

    assert 0 < most < 4096 + 2 * longest
