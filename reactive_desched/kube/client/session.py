"""Our own connection to the API server: limits on every call, a throttle, credentials kept fresh.

kubernetes_asyncio only finds out where the server is and who we are; the bytes go through an
aiohttp session of ours.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from http import HTTPStatus
from typing import Protocol
from urllib.parse import urlencode

import aiohttp
import anyio
from msgspec import Struct
from yarl import URL

from reactive_desched._version import __version__
from reactive_desched.errors import Unreachable
from reactive_desched.kube.auth.credentials import Credentials
from reactive_desched.kube.auth.kubeconfig import KubeConfig, locate
from reactive_desched.kube.client.clock import Clock, SystemClock
from reactive_desched.kube.client.failures import LINK_ERRORS, reason_of, was_sent
from reactive_desched.kube.client.rate_limiter import Lane, Rate, Throttle
from reactive_desched.kube.client.responses import Answer

__all__ = ["KubeConfig", "Limits", "Session", "Stream", "Transport", "open_session"]

_JSON = "application/json"
_READ_BUFFER_BYTES = 2**21
_ERROR_BODY_BYTES = 2**16
_CONNECTIONS = 100
_KEEP_IDLE_S = 30.0


class Limits(Struct, frozen=True, gc=False):
    """How long one call may take and how much it may bring.

    `total_s` does not apply to a stream, which may last; its opening may take `open_s`. A body
    or a stream's line beyond its bound ends that call or that line, nothing else.
    """

    connect_s: float = 10.0
    read_s: float = 30.0
    total_s: float = 60.0
    open_s: float = 20.0
    body_bytes: int = 2**28
    line_bytes: int = 2**23


class Stream(Struct, frozen=True):
    """A watch whose status was 200: one line per call, empty at the end.

    `readline` raises aiohttp's errors when the connection breaks; `received` counts bytes.
    """

    headers: Mapping[str, str]
    readline: Callable[[], Awaitable[bytes]]
    received: Callable[[], int]


class Transport(Protocol):
    """The two ways to talk to the server."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = _JSON,
        accept: str = _JSON,
        limits: Limits | None = None,
        lane: Lane = Lane.BULK,
    ) -> Answer:
        """Send one request and read the whole reply; raises Unreachable or Saturated."""
        ...

    def stream(
        self,
        path: str,
        params: Mapping[str, str],
        *,
        accept: str = _JSON,
        limits: Limits | None = None,
    ) -> AbstractAsyncContextManager[Stream | Answer]:
        """Open a watch; whatever is not a 200 with JSON comes back as an Answer."""
        ...


class Session:
    """The one connection pool of the process."""

    def __init__(
        self,
        http: aiohttp.ClientSession,
        credentials: Credentials,
        throttle: Throttle,
        limits: Limits,
    ) -> None:
        self.throttle = throttle
        self.credentials = credentials
        self._http = http
        self._limits = limits

    @property
    def server(self) -> str:
        """The server's address, for messages."""
        return self.credentials.access.server

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = _JSON,
        accept: str = _JSON,
        limits: Limits | None = None,
        lane: Lane = Lane.BULK,
    ) -> Answer:
        """Send one request and read the whole reply; raises Unreachable or Saturated."""
        limits = limits or self._limits
        if not self.throttle.take(lane):
            await self.throttle.wait(lane)
        call = _Call(method, path, params, body, content_type, accept, _whole(limits))
        try:
            async with await self._send(call) as reply:
                content = await _read(reply, limits.body_bytes)
                answer = Answer(reply.status, reply.headers, content)
        except LINK_ERRORS as error:
            raise _unreachable(call, error) from error
        self._look_at(answer)
        return answer

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        params: Mapping[str, str],
        *,
        accept: str = _JSON,
        limits: Limits | None = None,
    ) -> AsyncIterator[Stream | Answer]:
        """Open a watch; whatever is not a 200 with JSON comes back as an Answer."""
        limits = limits or self._limits
        await self.throttle.wait(Lane.WATCH)
        call = _Call("GET", path, params, None, _JSON, accept, _lasting(limits))
        reply = await self._open(call, limits.open_s)
        try:
            if reply.status == HTTPStatus.OK and _is_json(reply):
                readline = partial(reply.content.readline, max_line_length=limits.line_bytes)
                yield Stream(reply.headers, readline, lambda: reply.content.total_raw_bytes)
            else:
                yield await self._refusal(call, reply, limits.read_s)
        finally:
            reply.close()

    async def _open(self, call: "_Call", limit_s: float) -> aiohttp.ClientResponse:
        try:
            with anyio.fail_after(limit_s):
                return await self._send(call)
        except LINK_ERRORS as error:
            raise _unreachable(call, error) from error

    async def _refusal(
        self, call: "_Call", reply: aiohttp.ClientResponse, limit_s: float
    ) -> Answer:
        try:
            with anyio.fail_after(limit_s):
                content = await reply.content.read(_ERROR_BODY_BYTES)
        except LINK_ERRORS as error:
            raise _unreachable(call, error) from error
        answer = Answer(reply.status, reply.headers, content)
        self._look_at(answer)
        return answer

    def _look_at(self, answer: Answer) -> None:
        """Have credentials the server no longer accepts read again; the caller tries again."""
        if answer.status == HTTPStatus.UNAUTHORIZED:
            self.credentials.doubt()

    async def _send(self, call: "_Call") -> aiohttp.ClientResponse:
        access = self.credentials.access
        headers = {**access.headers, "Accept": call.accept}
        if call.body is not None:
            headers["Content-Type"] = call.content_type
        query = f"?{urlencode(call.params)}" if call.params else ""
        try:
            return await self._http.request(
                call.method,
                URL(f"{access.server}{call.path}{query}", encoded=True),
                data=call.body,
                headers=headers,
                timeout=call.timeout,
                ssl=access.tls or True,
                server_hostname=access.tls_server_name,
                proxy=access.proxy,
                allow_redirects=False,  # our credentials go nowhere else
            )
        except ValueError as error:  # aiohttp finds something in it that it does not send
            raise _unreachable(call, error) from error


@asynccontextmanager
async def open_session(
    config: KubeConfig,
    *,
    limits: Limits | None = None,
    rate: Rate | None = None,
    clock: Clock | None = None,
    environ: Mapping[str, str] = os.environ,
) -> AsyncIterator[Session]:
    """Find the cluster, read credentials and hold a connection pool until the block ends.

    Raises ConfigError when there is no way in. Nothing is sent yet.
    """
    clock = clock or SystemClock()
    credentials = Credentials(locate(config, environ), clock, environ)
    await credentials.load()
    async with _pool() as http, _running(credentials.keep_fresh()):
        yield Session(http, credentials, Throttle(rate or Rate(), clock), limits or Limits())


def _pool() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=_CONNECTIONS, keepalive_timeout=_KEEP_IDLE_S),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={
            "User-Agent": f"reactive-desched/{__version__}",
            "Accept-Encoding": "identity",  # inflating costs as much as the whole decoding
        },
        read_bufsize=_READ_BUFFER_BYTES,
    )


@asynccontextmanager
async def _running(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Run something beside the block; unlike a task group it leaves the block's errors bare."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class _Call(Struct, frozen=True, gc=False):
    method: str
    path: str
    params: Mapping[str, str] | None
    body: bytes | None
    content_type: str
    accept: str
    timeout: aiohttp.ClientTimeout


def _whole(limits: Limits) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(
        total=limits.total_s, connect=limits.connect_s, sock_read=limits.read_s
    )


def _lasting(limits: Limits) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, connect=limits.connect_s)


def _is_json(reply: aiohttp.ClientResponse) -> bool:
    return reply.headers.get("Content-Type", _JSON).startswith(_JSON)


async def _read(reply: aiohttp.ClientResponse, most: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while part := await reply.content.readany():
        parts.append(part)
        size += len(part)
        if size > most:
            reply.close()
            raise aiohttp.ClientPayloadError(f"the reply is longer than {most} bytes")
    return b"".join(parts)


def _unreachable(call: _Call, error: Exception) -> Unreachable:
    return Unreachable(f"{call.method} {call.path}", reason_of(error), sent=was_sent(error))
