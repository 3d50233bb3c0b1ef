"""A server that takes webhooks, for tests: it keeps what it is sent and answers as scripted."""

import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from ssl import SSLContext
from typing import NamedTuple

import anyio
from aiohttp import web

__all__ = [
    "EndlessBody",
    "ReceivedPost",
    "ScriptedAnswer",
    "WebhookReceiver",
    "close_connection",
    "never_answer",
    "reset_connection",
    "slow_body",
    "status_answer",
]

ScriptedAnswer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
"""How a request is answered."""


class ReceivedPost(NamedTuple):
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes
    peer: object


class WebhookReceiver:
    """A server that keeps what it is sent and answers as scripted, at last with 204."""

    def __init__(self) -> None:
        self.posts: list[ReceivedPost] = []
        self.script: list[ScriptedAnswer] = []
        self.url = ""

    def answer(self, *statuses: int, **headers: str) -> None:
        """Answer the next requests like this."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.script += [status_answer(status, named) for status in statuses]

    @asynccontextmanager
    async def serving(self, tls: SSLContext | None = None) -> AsyncIterator["WebhookReceiver"]:
        """Serve on loopback, at `url`."""
        runner = web.ServerRunner(web.Server(self._handle), shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        host, port = runner.addresses[0][:2]
        self.url = f"{'https' if tls else 'http'}://{host}:{port}/in?a=b"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        assert transport is not None
        headers = {name.lower(): value for name, value in request.headers.items()}
        peer = transport.get_extra_info("peername")
        self.posts.append(ReceivedPost(request.path_qs, headers, await request.read(), peer))
        answer = self.script.pop(0) if self.script else status_answer(204, {})
        return await answer(request)


def status_answer(status: int, headers: dict[str, str], body: bytes = b"") -> ScriptedAnswer:
    """Answer with a status, and without a body unless there is one."""

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=status, headers=headers, body=body or None)

    return answer


async def close_connection(request: web.BaseRequest) -> web.StreamResponse:
    """Close the connection instead of an answer."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def reset_connection(request: web.BaseRequest) -> web.StreamResponse:
    """Close the connection as a machine does that knows nothing of it."""
    assert request.transport is not None
    line = request.transport.get_extra_info("socket")
    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return await close_connection(request)


async def never_answer(_: web.BaseRequest) -> web.StreamResponse:
    """Wait for ever."""
    await anyio.sleep_forever()
    raise AssertionError


class EndlessBody:
    """Succeeds, with words that never end, and counts how many got away."""

    def __init__(self) -> None:
        self.sent_bytes = 0

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer for ever."""
        answer = web.StreamResponse()
        await answer.prepare(request)
        while True:
            await answer.write(b"x" * 65_536)
            self.sent_bytes += 65_536


async def slow_body(request: web.BaseRequest) -> web.StreamResponse:
    """Succeed, with some words that come a little later."""
    answer = web.StreamResponse()
    await answer.prepare(request)
    await anyio.sleep(0.01)
    await answer.write(b"x" * 9000)
    return answer
