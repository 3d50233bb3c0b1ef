"""A bound on connections: the descriptors they would use up are those of the cluster's watches."""

import asyncio
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Final, cast

from aiohttp import web

from reactive_desched.web.connection import LIFETIME_S, Connection, HttpNumbers

MAX_CONNECTIONS: Final = 128
"""So many there may be besides the places of the stream."""

_SWEEP_EVERY_S: Final = 1.0
_LAST_BYTES_S: Final = 5.0


class _Arriving(asyncio.Protocol):
    """Hands a new connection on as soon as there is one."""

    def __init__(self, arrived: Callable[[asyncio.Transport], None]) -> None:
        self._arrived = arrived

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._arrived(cast("asyncio.Transport", transport))


class Connections:
    """Lets everybody in: when there are more than `most`, the oldest without a request ends.

    So whoever asks at once is answered, however many come and say nothing. Connections in
    `streams` are not ended, as long as they are in it; who puts them there bounds them. The
    others end when their time is up.
    """

    def __init__(
        self,
        server: web.Server,
        loop: asyncio.AbstractEventLoop,
        most: int = MAX_CONNECTIONS,
        streams: AbstractSet[object] = frozenset(),
    ) -> None:
        self.numbers = HttpNumbers()
        self._server = server
        self._loop = loop
        self._most = most
        self._streams = streams
        self._open: dict[Connection, None] = {}
        self._timer = loop.call_later(_SWEEP_EVERY_S, self._sweep_again)

    def accept(self) -> asyncio.Protocol:
        """Return the protocol for a new connection."""
        return _Arriving(self._let_in)

    def sweep(self, now: float) -> None:
        """End the connections whose time is up."""
        self._forget_those_gone()
        for connection in self._open:
            if connection in self._streams:
                connection.ends_at = now + LIFETIME_S  # once its stream has ended
            elif now > connection.ends_at:
                end(connection, self._loop)

    def close(self) -> None:
        """Stop sweeping."""
        self._timer.cancel()

    def _let_in(self, transport: asyncio.Transport) -> None:
        connection = Connection(self._server, self._loop, self.numbers)
        transport.set_protocol(connection)
        connection.connection_made(transport)
        self._make_room()
        self._open[connection] = None

    def _make_room(self) -> None:
        """End the oldest that has no request under way; the oldest of all if there is none."""
        if len(self._open) >= self._most:
            self._forget_those_gone()
        if len(self._open) >= self._most:
            others = [one for one in self._open if one not in self._streams]
            end(min(others, key=lambda one: one.is_busy), self._loop)
            self.numbers.crowded_out += 1

    def _forget_those_gone(self) -> None:
        self._open = {one: None for one in self._open if one.transport is not None}

    def _sweep_again(self) -> None:
        self.sweep(self._loop.time())
        self._timer = self._loop.call_later(_SWEEP_EVERY_S, self._sweep_again)


def end(connection: web.RequestHandler, loop: asyncio.AbstractEventLoop) -> None:
    """Close a connection; what was handed over already has seconds to be taken."""
    transport = connection.transport
    connection.force_close()
    if transport is not None and transport.get_write_buffer_size():
        loop.call_later(_LAST_BYTES_S, transport.abort)
