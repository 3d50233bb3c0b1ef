"""Which connection is closed, and when, if there are too many or one lasts too long."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from reactive_desched.app import past_pages
from reactive_desched.cli.recorded_controller import PAST_TIMEOUT_S
from reactive_desched.web import connections as module
from reactive_desched.web.connections import Connections, HttpConnection, close_connection
from tests.support.exposition import exposed
from tests.support.manual_clock import wait_until

pytestmark = pytest.mark.anyio

REQUEST = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"


class Wire(asyncio.Transport):
    """A connection's other end; `untaken` is how many bytes it has not taken yet."""

    def __init__(self, connection: HttpConnection) -> None:
        super().__init__()
        self.connection = connection
        self.answered = b""
        self.untaken = 0
        self.is_closed = self.is_aborted = False
        connection.connection_made(self)

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
    """A server whose answers come when the test says so, with two connections at most."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.streams: set[object] = set()
        self.server = web.Server(self._answer)
        self.connections = Connections(self.server, 2, self.streams)

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        assert isinstance(request.protocol, HttpConnection)
        request.protocol.mark_request_started()
        await self.may_answer.wait()
        return web.Response(text="yes")

    def connect(self) -> Wire:
        return Wire(self.connections.new())

    async def connect_busy(self) -> Wire:
        """Open a connection whose answer is not there yet."""
        self.may_answer.clear()
        wire = self.connect()
        wire.ask()
        await wait_until(lambda: wire.connection.is_busy)
        return wire

    def crowded_out(self) -> float:
        return exposed(self.connections)["http_connections_crowded_out_total"]


@pytest.fixture
async def counter() -> AsyncIterator[Counter]:
    counter = Counter()
    yield counter
    counter.may_answer.set()
    await counter.server.shutdown(0.1)


async def test_a_silent_connection_ends_soon(
    counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REQUEST_HEAD_TIMEOUT_S", 0.02)
    silent = counter.connect()

    await wait_until(lambda: silent.is_closed)


async def test_a_connection_with_half_a_request_ends_as_soon(
    counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REQUEST_HEAD_TIMEOUT_S", 0.02)
    slow = counter.connect()
    slow.connection.data_received(REQUEST[:10])

    await wait_until(lambda: slow.is_closed)


async def test_a_connection_that_asked_outlives_a_silent_one(
    counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REQUEST_HEAD_TIMEOUT_S", 0.4)
    asking = counter.connect()
    asking.ask()
    await wait_until(lambda: asking.answered.endswith(b"yes"))
    silent = counter.connect()
    await wait_until(lambda: silent.is_closed)
    assert not asking.is_closed


async def test_a_connection_that_asked_is_closed_when_its_time_is_up(
    counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_LIFETIME_S", 0.02)
    asking = counter.connect()
    asking.ask()

    await wait_until(lambda: asking.is_closed)
    assert asking.answered.endswith(b"yes")


async def test_an_answer_that_is_under_way_is_the_last_of_a_connection_whose_time_is_up(
    counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_LIFETIME_S", 0.02)
    idle = counter.connect()
    idle.ask()
    await wait_until(lambda: idle.answered.endswith(b"yes"))
    busy = await counter.connect_busy()
    await wait_until(lambda: idle.is_closed)
    await asyncio.sleep(0.1)
    assert not busy.is_closed

    counter.may_answer.set()

    await wait_until(lambda: busy.is_closed)
    assert busy.answered.endswith(b"yes")


async def test_the_last_answer_of_a_connection_has_its_time_as_well(
    counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_LIFETIME_S", 0.02)
    monkeypatch.setattr(module, "LAST_ANSWER_S", 0.02)
    busy = await counter.connect_busy()

    await wait_until(lambda: busy.is_closed)
    assert not busy.answered


def test_an_answer_about_an_earlier_moment_is_in_time_for_its_connection_and_its_client() -> None:
    longest_s = past_pages.WAIT_S + past_pages.TIMEOUT_S

    assert longest_s < module.LAST_ANSWER_S <= PAST_TIMEOUT_S


async def test_at_the_limit_the_oldest_without_a_request_is_closed_for_the_new_one(
    counter: Counter,
) -> None:
    busy = await counter.connect_busy()
    older = counter.connect()
    newer = counter.connect()
    assert [each.is_closed for each in (busy, older, newer)] == [False, True, False]
    await asyncio.sleep(0)

    counter.may_answer.set()
    await wait_until(lambda: not busy.connection.is_busy)
    newest = counter.connect()
    assert [each.is_closed for each in (busy, newer, newest)] == [True, False, False]
    assert counter.crowded_out() == 2


async def test_when_all_are_busy_the_oldest_is_closed(counter: Counter) -> None:
    older, newer = [await counter.connect_busy() for _ in range(2)]

    newest = counter.connect()

    assert [each.is_closed for each in (older, newer, newest)] == [True, False, False]


async def test_a_connection_that_was_closed_does_not_count(counter: Counter) -> None:
    stays = counter.connect()
    for _ in range(5):
        counter.connect().hang_up()
        await asyncio.sleep(0)
    last = counter.connect()

    assert (stays.is_closed, last.is_closed) == (False, False)
    assert counter.crowded_out() == 0


async def test_a_stream_is_not_closed_and_has_time_left_when_it_is_over(
    counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REQUEST_HEAD_TIMEOUT_S", 0.02)
    monkeypatch.setattr(module, "MAX_LIFETIME_S", 0.02)
    stream = counter.connect()
    counter.streams.add(stream.connection)
    silent, _ = counter.connect(), counter.connect()
    assert (stream.is_closed, silent.is_closed) == (False, True)

    await asyncio.sleep(0.1)
    assert not stream.is_closed
    counter.streams.clear()
    assert not stream.is_closed

    await wait_until(lambda: stream.is_closed)


async def test_bytes_that_were_written_have_a_moment_to_be_taken(counter: Counter) -> None:
    slow, idle = counter.connect(), counter.connect()
    slow.untaken = 1

    close_connection(slow.connection, 0.01)
    close_connection(idle.connection, 0.01)

    assert (slow.is_closed, slow.is_aborted) == (True, False)
    await wait_until(lambda: slow.is_aborted)
    assert (idle.is_closed, idle.is_aborted) == (True, False)


async def test_a_connection_whose_last_bytes_were_taken_is_not_aborted(counter: Counter) -> None:
    late, slow = counter.connect(), counter.connect()
    late.untaken = slow.untaken = 1

    close_connection(late.connection, 0.001)
    close_connection(slow.connection, 0.01)
    late.untaken = 0

    await wait_until(lambda: slow.is_aborted)
    assert (late.is_closed, late.is_aborted) == (True, False)
