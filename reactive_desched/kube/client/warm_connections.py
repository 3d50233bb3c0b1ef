"""Connections kept open for POST requests that leave in the turn of the event loop that made them.

aiohttp opens and closes these connections and parses what comes back. Its own way to a request's
first byte serves every kind of request: it takes ten times as long, and another turn of the loop
for the body.
"""

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

import aiohttp
import anyio
from aiohttp.connector import Connection
from yarl import URL

from reactive_desched.kube.auth.client_config import ClientConfig
from reactive_desched.kube.client.cluster_guard import ClusterGuard
from reactive_desched.kube.client.raw_http import begin_request, protocol_of, read_response
from reactive_desched.kube.client.responses import ApiResponse
from reactive_desched.primitives.loop_clock import loop_clock

__all__ = ["PostLimits", "SentPost", "WarmConnections"]

MAX_WARM: Final = 8
"""So many unused connections are kept here; further ones go back to aiohttp's pool."""

MAX_UNUSED_S: Final = 30.0
"""A connection that was not used for so long is not used again: a proxy may have dropped it."""

_NO_HEADER_CHARS: Final = ("\r", "\n", "\0")
_JSON_HEADERS: Final = {"Accept": "application/json", "Content-Type": "application/json"}


class PostLimits(NamedTuple):
    """How long a request may take, and how many bytes its response may have."""

    connect_s: float
    read_s: float
    total_s: float
    body_bytes: int


class _Target(NamedTuple):
    """The API server's address for aiohttp, and the headers that each request begins with."""

    request: aiohttp.ClientRequest
    path_prefix: str
    headers: str

    def is_same_way(self, other: "_Target") -> bool:
        """Say whether connections made for one are good for the other."""
        return self.request.connection_key == other.request.connection_key


class SentPost:
    """A request that was written to a connection."""

    def __init__(
        self, connections: "WarmConnections", target: _Target, connection: Connection, path: str
    ) -> None:
        self.path = path
        self._connections = connections
        self._target = target
        self._connection = connection
        self._until = connections.now() + connections.limits.total_s

    async def response(self) -> ApiResponse:
        """Return the response.

        Raises aiohttp's errors and TimeoutError; the request may have reached the server then.
        """
        try:
            with anyio.fail_after(self._until - self._connections.now()):
                response = await read_response(
                    self._connection,
                    self._target.request.request_info,
                    self._connections.limits.body_bytes,
                )
        except BaseException:
            self._connections.discard(self._connection)
            raise
        self._connections.keep(self._target, self._connection)
        return response


class WarmConnections:
    """The unused connections to the API server, and how a request is written to one.

    They do not reach a server behind a proxy, or one with credentials in its address. Of a
    connection that the guard has to ask anew no request leaves at once.
    """

    def __init__(
        self, http: aiohttp.ClientSession, limits: PostLimits, guard: ClusterGuard
    ) -> None:
        self.limits = limits
        self._guard = guard
        self.now = loop_clock()
        self._http = http
        self._unused: list[tuple[Connection, float]] = []
        self._in_use: set[Connection] = set()
        self._access: ClientConfig | None = None
        self._target: _Target | None = None

    def close(self) -> None:
        """Close all connections, also those that wait for a response."""
        self._close_unused()
        for connection in self._in_use:
            connection.close()
        self._in_use.clear()

    def reaches(self, access: ClientConfig) -> bool:
        """Say whether requests to this server can be sent here."""
        return self._target_of(access) is not None

    def has_unused(self, access: ClientConfig) -> bool:
        """Say whether a request to this server could be sent without a wait."""
        if self._target_of(access) is None:
            return False
        oldest = self.now() - MAX_UNUSED_S
        while self._unused and not _is_usable(*self._unused[-1], oldest):
            self._unused.pop()[0].close()
        return bool(self._unused) and self._guard.trusts(self._unused[-1][0])

    def send_now(self, access: ClientConfig, path: str, body: bytes) -> SentPost:
        """Write a request to an unused connection; call it after `has_unused` alone."""
        target = self._target_of(access)
        assert target is not None
        connection, _ = self._unused.pop()
        return self._write(target, connection, path, body)

    async def send(self, access: ClientConfig, path: str, body: bytes) -> SentPost:
        """Write a request to a connection, a new one if none is unused.

        Raises aiohttp's errors when it cannot connect.
        """
        if self.has_unused(access):
            return self.send_now(access, path, body)
        target, connection = await self._connect(access)
        return self._write(target, connection, path, body)

    async def ask_again(self, access: ClientConfig) -> None:
        """Have a connection asked which cluster it leads to, and keep it for the next request.

        Raises aiohttp's errors when it cannot connect.
        """
        if self.has_unused(access):
            target, (connection, _) = self._target_of(access), self._unused.pop()
            assert target is not None, "else no connection would be unused"
        else:
            target, connection = await self._connect(access)
        self._in_use.add(connection)
        try:
            await self._guard.ask(connection, target.request, self.limits.connect_s)
        except BaseException:
            self.discard(connection)
            raise
        self.keep(target, connection)

    async def _connect(self, access: ClientConfig) -> tuple[_Target, Connection]:
        """Open a connection, which the connector has asked which cluster it leads to."""
        self._release_doubtful()
        target = self._target_of(access)
        assert target is not None, "callers ask `reaches`"
        assert self._http.connector is not None
        timeout = aiohttp.ClientTimeout(total=None, connect=self.limits.connect_s)
        try:
            connection = await self._http.connector.connect(target.request, [], timeout)
        except TimeoutError as error:
            raise aiohttp.ConnectionTimeoutError("no connection in time") from error
        return target, connection

    def _release_doubtful(self) -> None:
        """Give what has to be asked anew back to aiohttp's pool, whose connector asks."""
        for connection, _ in self._unused:
            if not self._guard.trusts(connection):
                connection.release()
        self._unused = [each for each in self._unused if not each[0].closed]

    def keep(self, target: _Target, connection: Connection) -> None:
        """Take a connection back, whose response was read to its end."""
        if self._target is None or not target.is_same_way(self._target):
            self.discard(connection)
            return
        self._in_use.discard(connection)
        if len(self._unused) < MAX_WARM and not protocol_of(connection).should_close:
            self._unused.append((connection, self.now()))
        else:
            connection.release()  # aiohttp closes what it cannot use again

    def discard(self, connection: Connection) -> None:
        """Close a connection that broke, or on which a response may still come."""
        self._in_use.discard(connection)
        connection.close()

    def _write(self, target: _Target, connection: Connection, path: str, body: bytes) -> SentPost:
        self._in_use.add(connection)
        head = (
            f"POST {target.path_prefix}{path} HTTP/1.1\r\n"
            f"{target.headers}Content-Length: {len(body)}\r\n\r\n"
        )
        try:
            begin_request(connection, head.encode() + body, self.limits.read_s)
        except aiohttp.ServerDisconnectedError:
            self.discard(connection)
            raise
        return SentPost(self, target, connection, path)

    def _target_of(self, access: ClientConfig) -> _Target | None:
        """Return the target for what requests use now: credentials are read again each minute."""
        before = self._target
        if access is not self._access:
            self._access, self._target = access, _target(access, self._http.headers)
            if before is None or self._target is None or not before.is_same_way(self._target):
                self._close_unused()
        return self._target

    def _close_unused(self) -> None:
        while self._unused:
            self._unused.pop()[0].close()


def _target(access: ClientConfig, common: Mapping[str, str]) -> _Target | None:
    url = URL(f"{access.server}/", encoded=True)
    if access.proxy is not None or url.raw_user is not None or url.raw_password is not None:
        return None
    own = {**common, **access.headers, **_JSON_HEADERS}
    request = aiohttp.ClientRequest(
        "POST",
        url,
        headers=[*own.items(), *access.impersonation],
        loop=asyncio.get_running_loop(),
        ssl=access.tls or True,
        server_hostname=access.tls_server_name,
    )
    del request.headers["Content-Length"]  # each request has its own
    headers = [f"{name}: {value}" for name, value in request.headers.items()]
    if any(char in header for header in headers for char in _NO_HEADER_CHARS):
        return None
    lines = "".join([f"{header}\r\n" for header in headers])
    return _Target(request, url.raw_path.removesuffix("/"), lines)


def _is_usable(connection: Connection, unused_since: float, oldest: float) -> bool:
    protocol = connection.protocol
    return (
        protocol is not None
        and unused_since >= oldest
        and protocol.is_connected()
        and not protocol.should_close
        and not protocol.writing_paused
    )
