"""The connection of one client of the stream: it takes what it can, and nobody waits for it."""

import asyncio
import socket
from contextlib import suppress
from typing import Final

import anyio
from aiohttp import web
from aiohttp.http import StreamWriter

from reactive_desched.web.connections import end

WAITING_BYTES: Final = 64 << 10
"""A client's own buffer in our memory: beyond it we wait, and it is cut if that does not help."""

SYSTEM_BYTES: Final = 64 << 10
"""What the operating system may hold for a client besides; it takes this about twice.

It passes on that a client takes something when about a third of this is free again.
"""

_LOOKS: Final = 8
"""Whether a client takes anything is looked at so often before it is cut."""


class Stalled(Exception):  # noqa: N818  it is raised as the fact it names
    """The client has taken nothing for too long."""


class Link:
    """Writes to one client; holds WAITING_BYTES and the last piece handed over at most.

    A client that takes nothing for `stalled_after_s`, while there is something for it, is
    stalled; one that takes a little now and then is slow, and is not.
    """

    def __init__(self, request: web.Request, stalled_after_s: float) -> None:
        self._request = request
        self._writer: StreamWriter | None = None
        self._stalled_after_s = stalled_after_s
        self._handed = self._taken = 0
        self._taken_at = anyio.current_time()

    async def open(self, response: web.StreamResponse) -> None:
        """Begin the answer; raises ConnectionError when the client has gone."""
        if (transport := self._request.transport) is None:
            raise ConnectionResetError
        _tune(transport, self._stalled_after_s)
        writer = await response.prepare(self._request)
        assert isinstance(writer, StreamWriter), "aiohttp's server has no other"
        self._writer = writer

    @property
    def _opened(self) -> StreamWriter:
        assert self._writer is not None, "it was opened"
        return self._writer

    @property
    def look_after_s(self) -> float:
        """How soon to look again whether a client that has something to take does so."""
        return self._stalled_after_s / _LOOKS

    @property
    def waiting_bytes(self) -> int:
        """How much the client has not taken yet."""
        transport = self._request.transport
        return 0 if transport is None else transport.get_write_buffer_size()

    async def send(self, data: bytes) -> None:
        """Hand something over; raises Stalled, or ConnectionError when the client has gone."""
        self.look()
        self._handed += len(data)
        await self._opened.write(data, drain=False)
        if self.waiting_bytes > WAITING_BYTES:
            await self._wait_for_room()

    async def _wait_for_room(self) -> None:
        """Wait in a task of its own: what waits for room in aiohttp must not be cancelled."""
        room = asyncio.ensure_future(self._opened.drain())
        try:
            while not room.done():
                await asyncio.wait({room}, timeout=self.look_after_s)
                self.look()
            room.result()
        finally:
            room.cancel()

    def look(self) -> None:
        """Raise Stalled when the client has taken nothing for too long."""
        waiting, now = self.waiting_bytes, anyio.current_time()
        if not waiting or self._handed - waiting > self._taken:
            self._taken, self._taken_at = self._handed - waiting, now
        elif now - self._taken_at >= self._stalled_after_s:
            raise Stalled

    async def cut(self, words: bytes) -> None:
        """End the connection, after these words if they can still be written within seconds."""
        if self._writer is not None and words:
            with suppress(ConnectionError):
                await self._writer.write(words, drain=False)
        end(self._request.protocol, asyncio.get_running_loop())


def _tune(transport: asyncio.Transport, stalled_after_s: float) -> None:
    """Bound what is held for a client, and have a dead link noticed even if little is said."""
    transport.set_write_buffer_limits(high=WAITING_BYTES)
    sock = transport.get_extra_info("socket")
    with suppress(OSError):  # these make it better; a system that has them not is no reason to fail
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SYSTEM_BYTES)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            patience_ms = int(2000 * stalled_after_s)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, patience_ms)
