"""An HTTP proxy before an API server that buffers, cuts, refuses or compresses what passes."""

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from ssl import SSLContext
from weakref import WeakSet

import aiohttp
from aiohttp import web
from msgspec import Struct

__all__ = [
    "Buffered",
    "Compressed",
    "CutAfter",
    "CutWhenIdle",
    "Fault",
    "Flushed",
    "HeadersWithTheFirstByte",
    "HeldAndCut",
    "MisbehavingProxy",
    "Refused",
    "Truncated",
    "Zipped",
    "one_in",
]

_PART_BYTES = 1024


class Refused(Struct, frozen=True):
    """The proxy answers itself."""

    status: int
    body: bytes = b"later"
    headers: dict[str, str] = {}


class CutAfter(Struct, frozen=True):
    """The connection breaks after so many bytes of a body."""

    size: int


class Truncated(Struct, frozen=True):
    """No more than so many bytes of a body pass, and it ends as if it were whole."""

    size: int


class Buffered(Struct, frozen=True):
    """A body is sent on when so much has come, or has ended; its headers then, or before."""

    size: int = 2**30
    holds_headers: bool = True


class Flushed(Struct, frozen=True):
    """What has come of a body is sent on so long after the first byte that was not sent yet."""

    after_s: float
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class Compressed(Struct, frozen=True):
    """A body is compressed as it comes, and the compressor keeps what does not fill its buffer."""


class HeadersWithTheFirstByte(Struct, frozen=True):
    """The headers of a response are sent with the first byte of its body."""


class CutWhenIdle(Struct, frozen=True):
    """The connection breaks when no byte of a body has come for so long."""

    after_s: float


class HeldAndCut(Struct, frozen=True):
    """A body that has ended in time is sent on; else the connection breaks, and nothing came."""

    after_s: float
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class Zipped(Struct, frozen=True):
    """A response is compressed, whatever the client accepts; part of it may be cut off."""

    cut: int = 0


Fault = (
    Refused
    | CutAfter
    | CutWhenIdle
    | HeldAndCut
    | Truncated
    | Buffered
    | Flushed
    | Compressed
    | HeadersWithTheFirstByte
    | Zipped
)


class MisbehavingProxy:
    """Carries requests to `target`; `fault_of` says what is done to each of them.

    With `tls` it trusts a target whose address is https. With `cut_after_s` each connection breaks
    so long after its first request.
    """

    def __init__(
        self,
        target: str,
        fault_of: Callable[[web.Request], Fault | None],
        *,
        tls: SSLContext | None = None,
        cut_after_s: float | None = None,
    ) -> None:
        self.url = ""
        self.fault_of = fault_of
        self.requests: list[str] = []
        self._target = target
        self._tls = tls or True
        self._cut_after_s = cut_after_s
        self._connections = WeakSet[asyncio.BaseTransport]()
        self._carried: dict[int, web.Request] = {}

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["MisbehavingProxy"]:
        """Listen on a free port of 127.0.0.1 until the block ends."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        async with aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=None), auto_decompress=False
        ) as self._client:
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            host, port = runner.addresses[0][:2]
            self.url = f"http://{host}:{port}"
            try:
                yield self
            finally:
                await runner.cleanup()

    def cut(self) -> None:
        """Break the connection of every request that is carried now."""
        for request in tuple(self._carried.values()):
            _cut(request)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self._carried[id(request)] = request
        try:
            return await self._answer(request)
        finally:
            del self._carried[id(request)]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(str(request.rel_url))
        self._limit_connection(request)
        fault = self.fault_of(request)
        if isinstance(fault, Refused):
            return web.Response(status=fault.status, body=fault.body, headers=fault.headers)
        headers = {
            name: value
            for name, value in request.headers.items()
            if name.lower() not in {"host", "content-length", "transfer-encoding"}
        }
        body = await request.read()
        url = f"{self._target}{request.rel_url}"
        async with self._client.request(
            request.method, url, headers=headers, data=body or None, ssl=self._tls
        ) as reply:
            response = web.StreamResponse(
                status=reply.status, headers={"Content-Type": reply.content_type}
            )
            with suppress(ConnectionError):  # the client has left
                await self._carry(request, reply, response, fault)
        return response

    def _limit_connection(self, request: web.Request) -> None:
        connection = request.transport
        if self._cut_after_s is None or connection is None or connection in self._connections:
            return
        self._connections.add(connection)
        asyncio.get_running_loop().call_later(self._cut_after_s, connection.close)

    async def _carry(
        self,
        request: web.Request,
        reply: aiohttp.ClientResponse,
        response: web.StreamResponse,
        fault: Fault | None,
    ) -> None:
        match fault:
            case Zipped(cut=cut):
                response.headers["Content-Encoding"] = "gzip"
                content = gzip.compress(await reply.read())
                await response.prepare(request)
                await response.write(content[: len(content) - cut])
            case Truncated(size=size):
                content = (await reply.read())[:size]
                response.content_length = len(content)
                await response.prepare(request)
                await response.write(content)
            case Buffered(size=size):
                held = b""
                if not fault.holds_headers:
                    await response.prepare(request)
                async for part in reply.content.iter_any():
                    held += part
                    while len(held) >= size:
                        await self._write(request, response, held[:size])
                        held = held[size:]
                await self._write(request, response, held)
            case Flushed() | Compressed() | HeldAndCut():
                await _send_later(request, reply, response, fault)
            case HeadersWithTheFirstByte():
                async for part in reply.content.iter_any():
                    await self._write(request, response, part)
                await self._write(request, response, b"")
            case _:
                await self._forward(request, reply, response, fault)

    async def _forward(
        self,
        request: web.Request,
        reply: aiohttp.ClientResponse,
        response: web.StreamResponse,
        fault: Fault | None,
    ) -> None:
        left = fault.size if isinstance(fault, CutAfter) else 2**62
        idle_s = fault.after_s if isinstance(fault, CutWhenIdle) else None
        await response.prepare(request)
        try:
            while part := await asyncio.wait_for(reply.content.read(_PART_BYTES), idle_s):
                await response.write(part[:left])
                left -= len(part)
                if left <= 0:
                    break
        except TimeoutError:
            left = 0
        if left <= 0:
            _cut(request)

    async def _write(self, request: web.Request, response: web.StreamResponse, part: bytes) -> None:
        if not response.prepared:
            await response.prepare(request)
        await response.write(part)


async def _send_whole(
    request: web.Request,
    reply: aiohttp.ClientResponse,
    response: web.StreamResponse,
    it: HeldAndCut,
) -> None:
    await response.prepare(request)
    whole, time = asyncio.ensure_future(reply.read()), asyncio.ensure_future(it.sleep(it.after_s))
    # A client that leaves ends this while the body is read: nothing else takes that error.
    whole.add_done_callback(lambda read: read.cancelled() or read.exception())
    try:
        await asyncio.wait((whole, time), return_when=asyncio.FIRST_COMPLETED)
        if whole.done():
            await response.write(whole.result())
        else:
            _cut(request)
    finally:
        whole.cancel()
        time.cancel()


async def _send_later(
    request: web.Request,
    reply: aiohttp.ClientResponse,
    response: web.StreamResponse,
    fault: Flushed | Compressed | HeldAndCut,
) -> None:
    """Send on what has come when the first byte is so old, when a compressor gives it, or whole."""
    if isinstance(fault, HeldAndCut):
        await _send_whole(request, reply, response, fault)
        return
    if isinstance(fault, Flushed):
        await response.prepare(request)
        while held := await reply.content.readany():
            await fault.sleep(fault.after_s)
            await response.write(held + reply.content.read_nowait())
        return
    response.headers["Content-Encoding"] = "gzip"
    await response.prepare(request)
    compressor = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    async for part in reply.content.iter_any():
        await response.write(compressor.compress(part))
    await response.write(compressor.flush())


def _cut(request: web.Request) -> None:
    if request.transport is not None:  # else the client has left
        request.transport.close()


def one_in(every: int, fault: Fault) -> Callable[[web.Request], Fault | None]:
    """Return the fault for one request in so many, beginning with the last of them."""
    numbers = count(1)
    return lambda _: fault if next(numbers) % every == 0 else None
