"""Whose connection ends, and when, if there are too many or one lasts too long."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from reactive_desched.testing.manual_clock import wait_until
from reactive_desched.web import connections as module
from reactive_desched.web.connection import MAX_LIFETIME_S, REQUEST_HEAD_TIMEOUT_S, HttpConnection
from reactive_desched.web.connections import ConnectionLimiter

pytestmark = pytest.mark.anyio

REQUEST = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"


class Wire(asyncio.Transport):
    """A connection's other end; `untaken` is what it has not taken yet."""

    def __init__(self) -> None:
        super().__init__()
        self.answered = b""
        self.untaken = 0
        self.is_closed = self.is_aborted = False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, HttpConnection)
        self.connection = protocol

    def ask(self) -> None:
        self.connection.data_received(REQUEST)

    def hang_up(self) -> None:
        asyncio.get_running_loop().call_soon(self.connection.connection_lost, None)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.answered += data

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True
        if not self.untaken:
            self.hang_up()

    def abort(self) -> None:
        self.is_aborted = True
        self.hang_up()

    def get_write_buffer_size(self) -> int:
        return self.untaken


class Counter:
    """A server whose answers come when it is told, and the connections that it lets in."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.streams: set[object] = set()
        self.loop = asyncio.get_running_loop()
        self.server = web.Server(self._answer)
        self.connections = ConnectionLimiter(self.server, self.loop, 2, self.streams)

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        assert isinstance(request.protocol, HttpConnection)
        request.protocol.mark_request_started()
        await self.may_answer.wait()
        return web.Response(text="yes")

    def let_in(self) -> Wire:
        wire = Wire()
        self.connections.new_protocol().connection_made(wire)
        return wire

    async def let_in_busy(self) -> Wire:
        """Let one in whose answer is not there yet."""
        self.may_answer.clear()
        wire = self.let_in()
        wire.ask()
        await wait_until(lambda: wire.connection.is_busy)
        return wire

    async def close(self) -> None:
        self.connections.close()
        self.may_answer.set()
        await self.server.shutdown(0.1)

    def sweep(self, after_s: float) -> None:
        self.connections.close_expired(self.loop.time() + after_s)


@pytest.fixture
async def counter() -> AsyncIterator[Counter]:
    counter = Counter()
    yield counter
    await counter.close()


async def test_who_says_nothing_ends_soon_and_who_asked_stays_a_while(counter: Counter) -> None:
    silent, asking = counter.let_in(), counter.let_in()
    asking.ask()
    await wait_until(lambda: asking.answered.endswith(b"yes"))

    counter.sweep(REQUEST_HEAD_TIMEOUT_S - 1)
    assert not silent.is_closed
    counter.sweep(REQUEST_HEAD_TIMEOUT_S + 1)
    assert (silent.is_closed, asking.is_closed) == (True, False)
    counter.sweep(MAX_LIFETIME_S - 1)
    assert not asking.is_closed
    counter.sweep(MAX_LIFETIME_S + 1)
    assert asking.is_closed


async def test_who_comes_when_it_is_full_is_let_in_and_the_oldest_that_asks_nothing_ends(
    counter: Counter,
) -> None:
    busy = await counter.let_in_busy()
    older = counter.let_in()
    newer = counter.let_in()
    assert [each.is_closed for each in (busy, older, newer)] == [False, True, False]

    counter.may_answer.set()
    await wait_until(lambda: not busy.connection.is_busy)
    newest = counter.let_in()
    assert [each.is_closed for each in (busy, newer, newest)] == [True, False, False]
    assert counter.connections.counters.crowded_out == 2


async def test_when_all_are_busy_the_oldest_ends(counter: Counter) -> None:
    older, newer = [await counter.let_in_busy() for _ in range(2)]

    newest = counter.let_in()

    assert [each.is_closed for each in (older, newer, newest)] == [True, False, False]


async def test_who_has_gone_takes_no_place(counter: Counter) -> None:
    stays = counter.let_in()
    for _ in range(5):
        counter.let_in().hang_up()
        await asyncio.sleep(0)
    last = counter.let_in()

    assert (stays.is_closed, last.is_closed) == (False, False)
    assert counter.connections.counters.crowded_out == 0


async def test_those_that_have_gone_are_forgotten(counter: Counter) -> None:
    counter.let_in().hang_up()
    await asyncio.sleep(0)

    counter.sweep(0)

    assert not counter.connections._open


async def test_a_stream_is_not_ended_and_has_time_to_be_taken_when_it_is_over(
    counter: Counter,
) -> None:
    stream, silent = counter.let_in(), counter.let_in()
    counter.streams.add(stream.connection)

    counter.let_in()
    assert (stream.is_closed, silent.is_closed) == (False, True)
    counter.sweep(2 * MAX_LIFETIME_S)
    counter.streams.clear()
    counter.sweep(3 * MAX_LIFETIME_S - 1)
    assert not stream.is_closed
    counter.sweep(3 * MAX_LIFETIME_S + 1)
    assert stream.is_closed


async def test_what_was_handed_over_has_a_moment_to_be_taken(
    counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FLUSH_TIMEOUT_S", 0.01)
    slow, idle = counter.let_in(), counter.let_in()
    slow.untaken = 1

    counter.sweep(REQUEST_HEAD_TIMEOUT_S + 1)

    assert (slow.is_closed, slow.is_aborted) == (True, False)
    await wait_until(lambda: slow.is_aborted)
    assert (idle.is_closed, idle.is_aborted) == (True, False)


async def test_it_looks_by_itself_whose_time_is_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_SWEEP_EVERY_S", 0.01)
    counter = Counter()
    for _ in range(2):
        wire = counter.let_in()
        wire.connection.deadline = 0
        await wait_until(lambda wire=wire: wire.is_closed)  # type: ignore[misc]  # bound here and now
    await counter.close()
