"""A bound on connections: the descriptors they would use up are those of the cluster's watches."""

import asyncio
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from typing import Final, cast

from aiohttp import web

from reactive_desched.telemetry.metrics import Metric, counter
from reactive_desched.web.connection import MAX_LIFETIME_S, HttpConnection, HttpCounters

MALFORMED: Final = counter(
    "http_malformed_requests", "Requests that could not be read, answered with 400."
)
CROWDED_OUT: Final = counter(
    "http_connections_crowded_out", "Connections closed because there were too many."
)

MAX_CONNECTIONS: Final = 128
"""So many there may be besides the places of the stream."""

_SWEEP_EVERY_S: Final = 1.0
_FLUSH_TIMEOUT_S: Final = 5.0


class _ConnectionHandoff(asyncio.Protocol):
    """Hands a new connection on as soon as there is one."""

    def __init__(self, on_connected: Callable[[asyncio.Transport], None]) -> None:
        self._on_connected = on_connected

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._on_connected(cast("asyncio.Transport", transport))


class ConnectionLimiter:
    """Lets everybody in: when there are more than `most`, the oldest without a request ends.

    So whoever asks at once is answered, however many come and say nothing. Connections in
    `streams` are not ended, as long as they are in it; who puts them there bounds them. The
    others end when their time is up.
    """

    def __init__(
        self,
        server: web.Server,
        loop: asyncio.AbstractEventLoop,
        limit: int = MAX_CONNECTIONS,
        streams: AbstractSet[object] = frozenset(),
    ) -> None:
        self.counters = HttpCounters()
        self._server = server
        self._loop = loop
        self._limit = limit
        self._streams = streams
        self._open: dict[HttpConnection, None] = {}
        self._timer = loop.call_later(_SWEEP_EVERY_S, self._sweep)

    def collect(self) -> Iterator[Metric]:
        """Yield what was refused."""
        yield MALFORMED.value(self.counters.malformed)
        yield CROWDED_OUT.value(self.counters.crowded_out)

    def new_protocol(self) -> asyncio.Protocol:
        """Return the protocol for a new connection."""
        return _ConnectionHandoff(self._add)

    def close_expired(self, now: float) -> None:
        """End the connections whose time is up."""
        self._prune_closed()
        for connection in self._open:
            if connection in self._streams:
                connection.deadline = now + MAX_LIFETIME_S  # once its stream has ended
            elif now > connection.deadline:
                close_connection(connection, self._loop)

    def close(self) -> None:
        """Stop sweeping."""
        self._timer.cancel()

    def _add(self, transport: asyncio.Transport) -> None:
        connection = HttpConnection(self._server, self._loop, self.counters)
        transport.set_protocol(connection)
        connection.connection_made(transport)
        self._close_oldest_if_full()
        self._open[connection] = None

    def _close_oldest_if_full(self) -> None:
        """End the oldest that has no request under way; the oldest of all if there is none."""
        if len(self._open) >= self._limit:
            self._prune_closed()
        if len(self._open) >= self._limit:
            others = [one for one in self._open if one not in self._streams]
            close_connection(min(others, key=lambda one: one.is_busy), self._loop)
            self.counters.crowded_out += 1

    def _prune_closed(self) -> None:
        self._open = {one: None for one in self._open if one.transport is not None}

    def _sweep(self) -> None:
        self.close_expired(self._loop.time())
        self._timer = self._loop.call_later(_SWEEP_EVERY_S, self._sweep)


def close_connection(
    connection: web.RequestHandler,
    loop: asyncio.AbstractEventLoop,
    flush_timeout_s: float | None = None,
) -> None:
    """Close a connection; what was written has `flush_timeout_s`, or 5 s, to be taken."""
    transport = connection.transport
    connection.force_close()
    if transport is not None and transport.get_write_buffer_size():
        loop.call_later(
            _FLUSH_TIMEOUT_S if flush_timeout_s is None else flush_timeout_s, transport.abort
        )
