"""The connection of one client of the stream: bounded in memory, and cut when it stalls."""

import asyncio
import socket
from contextlib import suppress
from typing import Final

import anyio
from aiohttp.http import StreamWriter
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import StreamResponse

from reactive_desched.web.connections import add_security_headers, close_connection

MAX_UNSENT_BYTES: Final = 64 << 10
"""A client's own buffer in our memory: beyond it we wait, and it is cut if that does not help."""

SOCKET_BUFFER_BYTES: Final = 64 << 10
"""What the operating system may hold for a client besides; it takes this about twice.

It passes on that a client takes something when about a third of this is free again.
"""

_MIN_CLOSE_TIMEOUT_S: Final = 5.0
"""A client that is cut has its stall timeout again to take the rest, and at least this."""

_CHECKS_PER_TIMEOUT: Final = 8
"""Whether a client takes anything is looked at so often before it is cut."""


class ClientStalled(Exception):  # noqa: N818  it is raised as the fact it names
    """The client has taken nothing for too long."""


class StreamConnection:
    """Writes to one client; holds MAX_UNSENT_BYTES and the last piece handed over at most.

    A client that takes nothing for `stall_timeout_s`, while there is something for it, is
    stalled; one that takes a little now and then is slow, and is not.
    """

    def __init__(self, request: BaseRequest, stall_timeout_s: float) -> None:
        self._request = request
        self._writer: StreamWriter | None = None
        self._stall_timeout_s = stall_timeout_s
        self._close_timeout_s = max(_MIN_CLOSE_TIMEOUT_S, stall_timeout_s)
        self._written_bytes = self._sent_bytes = 0
        self._progress_at = anyio.current_time()

    async def open(self, response: StreamResponse) -> None:
        """Begin the answer; raises ConnectionError when the client has gone."""
        if (transport := self._request.transport) is None:
            raise ConnectionResetError
        _configure_socket(transport, self._stall_timeout_s + self._close_timeout_s)
        add_security_headers(response)
        writer = await response.prepare(self._request)
        assert isinstance(writer, StreamWriter), "aiohttp's server has no other"
        self._writer = writer

    @property
    def _open_writer(self) -> StreamWriter:
        assert self._writer is not None, "it was opened"
        return self._writer

    @property
    def check_interval_s(self) -> float:
        """Return how soon to look again whether a client that has something to take does so."""
        return self._stall_timeout_s / _CHECKS_PER_TIMEOUT

    @property
    def unsent_bytes(self) -> int:
        """Return how much the client has not taken yet."""
        transport = self._request.transport
        return 0 if transport is None else transport.get_write_buffer_size()

    async def send(self, data: bytes) -> None:
        """Hand bytes over; raises ClientStalled, or ConnectionError when the client has gone."""
        self.check_progress()
        self._written_bytes += len(data)
        await self._open_writer.write(data, drain=False)
        if self.unsent_bytes > MAX_UNSENT_BYTES:
            await self._drain()

    async def _drain(self) -> None:
        """Wait in a task of its own: what waits for room in aiohttp must not be cancelled."""
        drained = asyncio.ensure_future(self._open_writer.drain())
        try:
            while not drained.done():
                await asyncio.wait({drained}, timeout=self.check_interval_s)
                self.check_progress()
            drained.result()
        finally:
            drained.cancel()

    def check_progress(self) -> None:
        """Raise ClientStalled when the client has taken nothing for too long."""
        waiting, now = self.unsent_bytes, anyio.current_time()
        if not waiting or self._written_bytes - waiting > self._sent_bytes:
            self._sent_bytes, self._progress_at = self._written_bytes - waiting, now
        elif now - self._progress_at >= self._stall_timeout_s:
            raise ClientStalled

    async def disconnect(self, message: bytes) -> None:
        """End the connection, after this message if the client takes what comes before it."""
        if self._writer is None or not message:
            close_connection(self._request.protocol)
            return
        with suppress(ConnectionError):
            await self._writer.write(message, drain=False)
        close_connection(self._request.protocol, self._close_timeout_s)


def _configure_socket(transport: asyncio.Transport, user_timeout_s: float) -> None:
    """Bound the buffers of a client, and have TCP notice a dead link even under low traffic."""
    transport.set_write_buffer_limits(high=MAX_UNSENT_BYTES)
    sock = transport.get_extra_info("socket")
    with suppress(OSError):  # these make it better; a system that has them not is no reason to fail
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER_BYTES)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            timeout_ms = int(1000 * user_timeout_s)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout_ms)
