"""A bound on connections: the descriptors they would use up are those of the cluster's watches."""

import asyncio
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Protocol

MAX_CONNECTIONS = 128
"""Further ones are closed at once; streams, which have a bound of their own, do not count."""

LIFETIME_S = 60.0
"""No connection but a stream lasts longer, busy, idle or silent; probes open another."""

_SWEEP_EVERY_S = 10.0
_LAST_BYTES_S = 5.0


class _Refusing(asyncio.Protocol):
    """Closes its connection without a word."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


class Connection(Protocol):
    """What aiohttp keeps for each connection, as far as it matters here."""

    transport: asyncio.Transport | None

    def force_close(self) -> None:
        """Close after the bytes already handed over."""


class Server(Protocol):
    """An aiohttp server: called for each connection, it makes the protocol that answers."""

    @property
    def connections(self) -> Iterable[Connection]:
        """The connections there are now."""

    def __call__(self) -> asyncio.Protocol:
        """Return the protocol for a new connection."""


class Connections:
    """Lets connections in while there is room and ends those that have had their time.

    `streams` are exempt from both, as long as they are in it; who puts them there bounds them.
    """

    def __init__(
        self,
        server: Server,
        loop: asyncio.AbstractEventLoop,
        streams: AbstractSet[object] = frozenset(),
    ) -> None:
        self._server = server
        self._loop = loop
        self._streams = streams
        self._since: dict[Connection, float] = {}
        self._timer = loop.call_later(_SWEEP_EVERY_S, self._sweep_again)

    def accept(self) -> asyncio.Protocol:
        """Return the protocol for a new connection."""
        if len(self._bounded()) >= MAX_CONNECTIONS:
            return _Refusing()
        return self._server()

    def sweep(self, now: float) -> None:
        """End the connections first seen more than LIFETIME_S ago."""
        self._since = {one: self._since.get(one, now) for one in self._bounded()}
        for connection, since in self._since.items():
            if now - since > LIFETIME_S:
                end(connection, self._loop)

    def close(self) -> None:
        """Stop sweeping."""
        self._timer.cancel()

    def _sweep_again(self) -> None:
        self.sweep(self._loop.time())
        self._timer = self._loop.call_later(_SWEEP_EVERY_S, self._sweep_again)

    def _bounded(self) -> list[Connection]:
        return [one for one in self._server.connections if one not in self._streams]


def end(connection: Connection, loop: asyncio.AbstractEventLoop) -> None:
    """Close a connection; what was handed over already has seconds to be taken."""
    transport = connection.transport
    connection.force_close()
    if transport is not None:
        loop.call_later(_LAST_BYTES_S, transport.abort)
