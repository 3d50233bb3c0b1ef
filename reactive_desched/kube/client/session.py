"""The connection to the API server: limits for every call, a rate limit, fresh credentials."""

import asyncio
import os
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from http import HTTPStatus
from typing import Final, Protocol
from urllib.parse import urlencode

import aiohttp
import anyio
from anyio.lowlevel import checkpoint
from msgspec import Struct
from yarl import URL

from reactive_desched._version import __version__
from reactive_desched.errors import RateLimited, Unreachable
from reactive_desched.kube.auth.client_config import ClientConfig
from reactive_desched.kube.auth.credentials import IN_THE_HANDSHAKE, Credentials
from reactive_desched.kube.auth.kubeconfig import KubeConfigOptions, locate_config
from reactive_desched.kube.client.clock import Clock, SystemClock
from reactive_desched.kube.client.cluster_guard import (
    NAMESPACES,
    OF_A_PROXY,
    ONE_NAMESPACE,
    ClusterGuard,
    GuardedConnector,
)
from reactive_desched.kube.client.failures import (
    ClusterNotConfirmed,
    is_response_timeout,
    may_have_been_sent,
)
from reactive_desched.kube.client.rate_limiter import RateLimit, RateLimiter, RequestPriority
from reactive_desched.kube.client.raw_http import MAX_HEADER_BYTES, MAX_HEADERS
from reactive_desched.kube.client.responses import ApiResponse, Body
from reactive_desched.primitives.http_failures import (
    CONNECTION_ERRORS,
    describe_error,
    is_certificate_refused,
    is_closed,
    proxy_refusal,
)
from reactive_desched.telemetry.metrics import Metric, counter, gauge

__all__ = [
    "KubeConfigOptions",
    "RequestLimits",
    "Session",
    "Transport",
    "WatchStream",
    "open_session",
]

_JSON = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
"""The content type of a patch that names members with their new values, null to remove one."""
_READ_BUFFER_BYTES = 2**21
_HELD_BUFFER_BYTES = 2**16
_BODY_PART_BYTES = 2**19
_MAX_ERROR_BODY_BYTES = 2**16
_MAX_CONNECTIONS = 100
CONTINUE: Final = "continue"
"""The parameter of a list that says which page comes next; its first page has none."""
_KEEPALIVE_S = 30.0
_DATES = 16
_CONFIRM_EVERY_S, _CONFIRM_IN_DOUBT_EVERY_S = 5.0, 1.0


class RequestLimits(Struct, frozen=True, gc=False):
    """The longest duration of a call, and the most bytes of its response.

    `total_s` does not apply to a stream; opening one may take `open_s`. A larger body ends the
    call, a longer line of a stream is skipped.
    """

    connect_s: float = 10.0
    read_s: float = 30.0
    total_s: float = 60.0
    open_s: float = 20.0
    body_bytes: int = 2**28
    line_bytes: int = 2**23


class WatchStream(Struct, frozen=True):
    """A watch with status 200; `readline` returns one line, empty at the end.

    `readline` raises aiohttp's errors when the connection breaks; `received_bytes` counts bytes.
    """

    headers: Mapping[str, str]
    readline: Callable[[], Awaitable[bytes]]
    received_bytes: Callable[[], int]


class Transport(Protocol):
    """A request with a whole response, or a stream of lines."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = _JSON,
        limits: RequestLimits | None = None,
        priority: RequestPriority = RequestPriority.BACKGROUND,
        into: Callable[[], Awaitable[bytearray]] | None = None,
    ) -> ApiResponse:
        """Send one request and read the response; raises Unreachable or RateLimited.

        With `into` the body replaces the content of that buffer, and is it: memory that is used
        again costs a large body a fraction of what new memory does. The buffer is awaited when the
        response has begun; until then the body waits where the system keeps what has arrived.
        """
        ...

    def stream(
        self,
        path: str,
        params: Mapping[str, str],
        *,
        open_s: float | None = None,
    ) -> AbstractAsyncContextManager[WatchStream | ApiResponse]:
        """Open a watch, in `open_s` or the time of the session's limits.

        A response that is no 200 with JSON is returned as ApiResponse.
        """
        ...


REQUESTS = counter(
    "api_requests",
    "Requests to the API server by HTTP status; `none` is the code of those without an answer.",
    "method",
    "code",
)


CLUSTER_FAULT = gauge(
    "cluster_fault",
    "1 since the address of the API server led to another cluster: nothing is sent any more.",
)


class ServerClock:
    """Computes the API server's time of day by the header Date of its responses.

    A date is cut to the second, and as old as its response took; so of the last ones the one
    counts that is furthest ahead of `clock`, in monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._date = ""
        self._ahead_s: deque[float] = deque(maxlen=_DATES)

    def read(self, date: str) -> None:
        """Read the Date header of a response that has just arrived; an invalid date is ignored."""
        if date == self._date:  # later in the same second: nothing new
            return
        self._date = date
        with suppress(ValueError):
            self._ahead_s.append(parsedate_to_datetime(date).timestamp() - self._clock())

    def now(self) -> datetime | None:
        """Return the server's time of day, rather too early; None before the first response."""
        if not self._ahead_s:
            return None
        return datetime.fromtimestamp(self._clock() + max(self._ahead_s), UTC)


class Session:
    """The connection pools of the process; `cluster` keeps all connections to one cluster.

    `pages` is that of the later pages of lists, and of further lists of what had several. A
    connection keeps buffers as long as the longest response it had, half a mebibyte after a page,
    and aiohttp takes that connection first which has waited longest: in one pool the pages of lists
    would go through each connection that evictions opened, and no connection would ever be idle for
    long enough to be closed.
    """

    def __init__(
        self,
        http: aiohttp.ClientSession,
        pages: aiohttp.ClientSession,
        credentials: Credentials,
        rate_limiter: RateLimiter,
        limits: RequestLimits,
        server_clock: ServerClock,
        cluster: ClusterGuard,
    ) -> None:
        self.server_clock = server_clock
        self.cluster = cluster
        self.rate_limiter = rate_limiter
        self.credentials = credentials
        self._http = http
        self._pages = pages
        self._long_lists: set[str] = set()  # the paths of lists of several pages: there are few
        self.limits = limits
        self._requests: Counter[tuple[str, ...]] = Counter()

    def collect(self) -> Iterator[Metric]:
        """Yield how requests ended, whether another cluster was met, and how credentials are."""
        yield REQUESTS.by_labels(self._requests + self.cluster.requests)
        yield CLUSTER_FAULT.value(bool(self.cluster.fault))
        yield from self.credentials.collect()

    @property
    def server(self) -> str:
        """The server's address, for messages."""
        return self.credentials.config.server

    @property
    def description(self) -> str:
        """The server with the context by which it was found, for people."""
        return f"context {self.context}, {self.server}" if self.context else self.server

    @property
    def context(self) -> str | None:
        """The kubeconfig's context; None where the service account of our pod is used."""
        return self.credentials.config.context

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = _JSON,
        limits: RequestLimits | None = None,
        priority: RequestPriority = RequestPriority.BACKGROUND,
        into: Callable[[], Awaitable[bytearray]] | None = None,
    ) -> ApiResponse:
        """Send one request and read the response; raises Unreachable or RateLimited."""
        limits = limits or self.limits
        if not self.rate_limiter.try_accept(priority):
            await self.rate_limiter.wait(priority)
        timeout = _request_timeout(limits)
        read_buffer_bytes = _READ_BUFFER_BYTES if into is None else _HELD_BUFFER_BYTES
        call = _Request(method, path, params, body, content_type, timeout, read_buffer_bytes)
        stream: aiohttp.StreamReader | None = None
        access = self.credentials.config
        try:
            async with await self._send(call) as reply:
                stream = reply.content
                buffer = None if into is None else await into()
                content = await read_body(reply, limits.body_bytes, buffer)
                answer = ApiResponse(reply.status, reply.headers, content)
        except CONNECTION_ERRORS as error:
            is_partial = stream is not None and stream.total_raw_bytes > 0
            raise self._unreachable(call.method, call.path, error, is_partial=is_partial) from error
        self._look_at_status(access, answer)
        return answer

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        params: Mapping[str, str],
        *,
        open_s: float | None = None,
    ) -> AsyncIterator[WatchStream | ApiResponse]:
        """Open a watch, in `open_s` or the time of the session's limits.

        A response that is no 200 with JSON is returned as ApiResponse.
        """
        limits = self.limits
        await self.rate_limiter.wait(RequestPriority.WATCH)
        call = _Request("GET", path, params, None, _JSON, _stream_timeout(limits))
        access = self.credentials.config
        reply = await self._open(call, open_s or limits.open_s)
        try:
            if reply.status == HTTPStatus.OK and _is_json(reply):
                self.credentials.accept(access)
                readline = partial(reply.content.readline, max_line_length=limits.line_bytes)
                yield WatchStream(reply.headers, readline, lambda: reply.content.total_raw_bytes)
            else:
                refusal = await self._read_refusal(call, reply, limits.read_s)
                self._look_at_status(access, refusal)
                yield refusal
        finally:
            if reply.content.exception() is not None:
                self.cluster.doubt()
            _abort(reply)

    async def confirm_cluster(self) -> None:
        """Ask the server which cluster it is; raises Unreachable where it is not known."""
        response = await self.request("GET", NAMESPACES, params=ONE_NAMESPACE)
        if response.status == HTTPStatus.TOO_MANY_REQUESTS:
            return  # it is too busy to say it again; the connection was asked before this request
        try:
            self.cluster.confirm(response)
        except ClusterNotConfirmed as error:
            raise self._unreachable("GET", NAMESPACES, error) from error

    async def _open(self, call: "_Request", limit_s: float) -> aiohttp.ClientResponse:
        try:
            with anyio.fail_after(limit_s):
                return await self._send(call)
        except CONNECTION_ERRORS as error:
            raise self._unreachable(call.method, call.path, error) from error

    async def _read_refusal(
        self, call: "_Request", reply: aiohttp.ClientResponse, limit_s: float
    ) -> ApiResponse:
        try:
            with anyio.fail_after(limit_s):
                content = await reply.content.read(_MAX_ERROR_BODY_BYTES)
        except CONNECTION_ERRORS as error:
            raise self._unreachable(call.method, call.path, error) from error
        return ApiResponse(reply.status, reply.headers, content)

    def _unreachable(
        self, method: str, path: str, error: Exception, *, is_partial: bool = False
    ) -> Unreachable:
        self.cluster.doubt()
        if is_certificate_refused(error) or (is_closed(error) and self.credentials.have_ended):
            self.credentials.invalidate(self.credentials.config, IN_THE_HANDSHAKE)
        elif isinstance(error, aiohttp.ClientSSLError):
            self.credentials.note_distrust()
        return Unreachable(
            f"{method} {path}",
            describe_error(error, self.credentials.config.proxy),
            sent=may_have_been_sent(error),
            is_partial=is_partial,
            is_late=is_response_timeout(error),
        )

    def _look_at_status(self, access: ClientConfig, response: ApiResponse) -> None:
        """Reload rejected credentials; the caller repeats the request.

        Where a proxy answered for the server, each connection has to say where it leads now.
        """
        if response.status == HTTPStatus.UNAUTHORIZED:
            self.credentials.invalidate(access)
            return
        self.credentials.accept(access)
        if response.status in OF_A_PROXY and not response.error.reason:
            self.cluster.doubt()

    def _pool_of(self, call: "_Request") -> aiohttp.ClientSession:
        """Return the pool that a request takes its connection from; watches take the common one."""
        params = call.params or {}
        if CONTINUE in params:
            self._long_lists.add(call.path)
        is_list = call.method == "GET" and "watch" not in params
        return self._pages if is_list and call.path in self._long_lists else self._http

    async def _send(self, call: "_Request") -> aiohttp.ClientResponse:
        access = self.credentials.config
        headers = [*access.headers.items(), *access.impersonation, ("Accept", _JSON)]
        if call.body is not None:
            headers.append(("Content-Type", call.content_type))
        query = f"?{urlencode(call.params)}" if call.params else ""
        code = "none"
        try:
            reply = await self._pool_of(call).request(
                call.method,
                URL(f"{access.server}{call.path}{query}", encoded=True),
                data=call.body,
                headers=headers,
                timeout=call.timeout,
                read_bufsize=call.read_buffer_bytes,
                ssl=access.tls or True,
                server_hostname=access.tls_server_name,
                proxy=None if access.proxy is None else access.proxy.url,
                allow_redirects=False,  # our credentials go nowhere else
            )
            code = str(reply.status)
            if reply.status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED and access.proxy:
                reply.close()
                raise proxy_refusal(reply)
            self.server_clock.read(reply.headers.get("Date", ""))
        except ValueError as error:  # aiohttp finds something in it that it does not send
            raise self._unreachable(call.method, call.path, error) from error
        finally:
            self._requests[call.method, code] += 1
        return reply


@asynccontextmanager
async def open_session(
    config: KubeConfigOptions,
    *,
    limits: RequestLimits | None = None,
    rate_limit: RateLimit | None = None,
    clock: Clock | None = None,
    environ: Mapping[str, str] = os.environ,
    cluster: ClusterGuard | None = None,
    on_credentials: Callable[[str | None], None] = lambda _: None,
) -> AsyncIterator[Session]:
    """Find the cluster, read the credentials and keep a connection pool for the block.

    With `cluster` each connection is asked to which cluster it leads, one of them every five
    seconds. `on_credentials` is called with what is wrong when the credentials cannot be renewed,
    and with None at its end. Raises ConfigError when no configuration is found. Without a request
    it opens none.
    """
    clock = clock or SystemClock()
    guard = cluster or ClusterGuard(asks=False)
    credentials = Credentials(locate_config(config, environ), clock, environ, on_credentials)
    await credentials.load()
    guard.attach(
        lambda: credentials.config.server, lambda: credentials.invalidate(credentials.config)
    )
    async with (
        _pool(guard) as http,
        _pool(guard) as pages,
        _background_task(credentials.refresh_forever()),
    ):
        session = Session(
            http,
            pages,
            credentials,
            RateLimiter(rate_limit or RateLimit(), clock),
            limits or RequestLimits(),
            ServerClock(clock.now),
            guard,
        )
        async with _background_task(_confirm_forever(session, clock)):
            yield session


async def _confirm_forever(session: Session, clock: Clock) -> None:
    """Ask every five seconds which cluster the server is, and soon after a connection broke.

    Another cluster ends it.
    """
    guard, confirmed_at = session.cluster, clock.now()
    while guard.asks and not guard.fault:
        await clock.sleep(_CONFIRM_IN_DOUBT_EVERY_S)
        if guard.is_in_doubt or clock.now() - confirmed_at >= _CONFIRM_EVERY_S:
            confirmed_at = clock.now()
            with suppress(Unreachable, RateLimited):
                await session.confirm_cluster()


def _pool(guard: ClusterGuard) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=GuardedConnector(guard, limit=_MAX_CONNECTIONS, keepalive_timeout=_KEEPALIVE_S),
        cookie_jar=aiohttp.DummyCookieJar(),
        max_line_size=MAX_HEADER_BYTES,
        max_field_size=MAX_HEADER_BYTES,
        max_headers=MAX_HEADERS,
        headers={
            "User-Agent": f"reactive-desched/{__version__}",
            "Accept-Encoding": "identity",  # inflating costs as much as the whole decoding
        },
    )


@asynccontextmanager
async def _background_task(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Run a task beside the block; unlike a task group it does not wrap the block's errors."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class _Request(Struct, frozen=True, gc=False):
    method: str
    path: str
    params: Mapping[str, str] | None
    body: bytes | None
    content_type: str
    timeout: aiohttp.ClientTimeout
    read_buffer_bytes: int = _READ_BUFFER_BYTES


def _request_timeout(limits: RequestLimits) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(
        total=limits.total_s, connect=limits.connect_s, sock_read=limits.read_s
    )


def _stream_timeout(limits: RequestLimits) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, connect=limits.connect_s)


def _is_json(reply: aiohttp.ClientResponse) -> bool:
    return reply.headers.get("Content-Type", _JSON).startswith(_JSON)


def _abort(reply: aiohttp.ClientResponse) -> None:
    """Close the connection at once: a server that streams on delays TLS's own close for long."""
    if (connection := reply.connection) is not None and connection.transport is not None:
        connection.transport.abort()
    reply.close()


async def read_body(reply: aiohttp.ClientResponse, max_bytes: int, into: bytearray | None) -> Body:
    """Read a response's body, in turns where much of it has arrived; raises aiohttp's errors."""
    body, size = bytearray() if into is None else into, 0
    while part := await reply.content.read(_BODY_PART_BYTES):
        begin, size = size, size + len(part)
        if size > max_bytes:
            reply.close()
            raise aiohttp.ClientPayloadError(f"the reply is longer than {max_bytes} bytes")
        body[begin:size] = part
        if len(part) == _BODY_PART_BYTES:  # more has arrived already: reading on would not wait
            await checkpoint()
    del body[size:]
    return bytes(body) if into is None else body
