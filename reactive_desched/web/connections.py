"""Bounds what clients of an HTTP server hold: descriptors are for the watches first."""

import asyncio
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from aiohttp.web_protocol import RequestHandler
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import Response, StreamResponse
from aiohttp.web_server import Server

from reactive_desched.telemetry.metrics import Metric, counter

MALFORMED: Final = counter(
    "http_malformed_requests", "Requests that could not be read, answered with 400."
)
CROWDED_OUT: Final = counter(
    "http_connections_crowded_out", "Connections closed because there were too many of them."
)

REQUEST_HEAD_TIMEOUT_S: Final = 5.0
"""A connection without a whole request is closed after this."""

MAX_LIFETIME_S: Final = 60.0
"""A connection that is no event stream takes no request later; a client opens another."""

LAST_ANSWER_S: Final = 120.0
"""So long an answer that is then under way may take: longer than one about an earlier moment."""

MAX_LINE_BYTES, MAX_HEADERS = 4096, 64
"""A request with a longer line, or with more headers, is answered with 400."""

_FLUSH_TIMEOUT_S: Final = 5.0
_NOTHING_LOADS: Final = "default-src 'none'; frame-ancestors 'none'"
_SECURITY_HEADERS: Final = {
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Server": "reactive-desched",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_MALFORMED: Final = (
    f"this is not a request, or one of its lines is longer than {MAX_LINE_BYTES} bytes,"
    f" or it has more than {MAX_HEADERS} of them\n"
)


class Connections:
    """The open connections of a server, `limit` of them.

    At the limit the oldest connection without a request under way is closed for the new one, so
    that a client that asks is answered however many connect and send nothing. Connections in
    `streams`, which are fewer than the limit, are not closed here.
    """

    def __init__(
        self, server: Server, limit: int, streams: AbstractSet[object] = frozenset()
    ) -> None:
        self.malformed = 0
        self.crowded_out = 0
        self.streams = streams
        self._server = server
        self._limit = limit
        self._open: dict[HttpConnection, None] = {}  # oldest first

    def new(self) -> "HttpConnection":
        """Return the protocol of a new connection."""
        return HttpConnection(self, self._server)

    def add(self, connection: "HttpConnection") -> None:
        """Add a new connection, in place of an old one where there are too many."""
        if len(self._open) >= self._limit:
            others = [one for one in self._open if one not in self.streams]
            close_connection(min(others, key=lambda one: one.is_busy))
            self.crowded_out += 1
        self._open[connection] = None

    def remove(self, connection: "HttpConnection") -> None:
        """Forget a connection that is closed."""
        self._open.pop(connection, None)

    def collect(self) -> Iterator[Metric]:
        """Yield what was refused."""
        yield MALFORMED.value(self.malformed)
        yield CROWDED_OUT.value(self.crowded_out)


class HttpConnection(RequestHandler):
    """One connection, closed when its time is up; `is_busy` while a request is under way."""

    def __init__(self, connections: Connections, server: Server) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type]  # aiohttp's word for none
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_LINE_BYTES,
            max_headers=MAX_HEADERS,
            lingering_time=0.0,
        )
        self.is_busy = False
        self._connections = connections
        self._timer = loop.call_later(REQUEST_HEAD_TIMEOUT_S, self._expire)
        self._asked = self._is_last = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection."""
        super().connection_made(transport)
        self._connections.add(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget the connection."""
        self._timer.cancel()
        self._connections.remove(self)
        super().connection_lost(exc)

    def mark_request_started(self) -> None:
        """Note that a request was read and is being answered."""
        self.is_busy = True
        if not self._asked:
            self._asked = True
            self._restart_timer(MAX_LIFETIME_S)

    async def finish_response(
        self, request: BaseRequest, resp: StreamResponse, start_time: float | None
    ) -> tuple[StreamResponse, bool]:
        """Send what is left of an answer; no request is under way then.

        An answer that sends its own head, as a stream does, has the security headers already.
        """
        if not resp.prepared:
            add_security_headers(resp)
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            self.is_busy = False

    def handle_error(
        self,
        request: BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> StreamResponse:
        """Return the answer to a failure; bytes that are not a request are counted, not logged."""
        if self.is_busy:
            return super().handle_error(request, status, exc, message)
        self._connections.malformed += 1
        response = Response(status=400, text=_MALFORMED)
        response.force_close()
        return response

    def _expire(self) -> None:
        if self in self._connections.streams:
            self._restart_timer(MAX_LIFETIME_S)
        elif self.is_busy and not self._is_last:
            self._is_last = True
            self.close()  # behind the answer that is under way
            self._restart_timer(LAST_ANSWER_S)
        else:
            close_connection(self)

    def _restart_timer(self, seconds: float) -> None:
        self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._expire)


def close_connection(connection: RequestHandler, flush_timeout_s: float | None = None) -> None:
    """Close a connection; the client has `flush_timeout_s`, or 5 s, to take what was written."""
    transport = connection.transport
    connection.force_close()
    if transport is not None and transport.get_write_buffer_size():
        timeout_s = _FLUSH_TIMEOUT_S if flush_timeout_s is None else flush_timeout_s
        asyncio.get_running_loop().call_later(timeout_s, _abort_unflushed, transport)


def _abort_unflushed(transport: asyncio.WriteTransport) -> None:
    if transport.get_write_buffer_size():  # else asyncio has closed it, and fails on an abort
        transport.abort()


def add_security_headers(response: StreamResponse) -> None:
    """Add the headers that every answer has; a page may have a Content-Security-Policy itself."""
    response.headers.update(_SECURITY_HEADERS)
    response.headers.setdefault("Content-Security-Policy", _NOTHING_LOADS)
    response.headers.setdefault("Cache-Control", "no-store")
