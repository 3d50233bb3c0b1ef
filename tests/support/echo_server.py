"""Servers that repeat what they receive, for tests that look for leaked secrets."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from ssl import SSLContext

__all__ = [
    "EchoReply",
    "EchoServer",
    "close_connection",
    "echo_as_headers",
    "echo_raw",
    "never_reply",
    "reply_with_status",
]

EchoReply = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]
"""Writes an answer to these bytes."""


class EchoServer:
    """A server on a bare socket; `received` is all that it was sent."""

    def __init__(self, answer: EchoReply) -> None:
        self.received = b""
        self._answer = answer

    @asynccontextmanager
    async def serving(self, tls: SSLContext | None = None) -> AsyncIterator[str]:
        """Serve on loopback and give the address, as host:port."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        async with server:
            host, port = server.sockets[0].getsockname()[:2]
            yield f"{host}:{port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while some := await reader.read(65_536):
                self.received += some
                await self._answer(some, writer)
        writer.close()


def _head_of(received: bytes) -> bytes:
    return received.partition(b"\r\n\r\n")[0]


def reply_with_status(line: bytes, *, more: bytes = b"") -> EchoReply:
    """Answer with this status, more headers, and what was heard in phrase, header and body."""

    async def answer(received: bytes, writer: asyncio.StreamWriter) -> None:
        flat = _head_of(received).replace(b"\r\n", b" ")
        writer.write(
            b"HTTP/1.1 %s %s\r\nX-Heard: %s\r\n%sContent-Length: %d\r\n\r\n%s"
            % (line, flat, flat, more, len(received), received)
        )
        await writer.drain()

    return answer


async def echo_raw(received: bytes, writer: asyncio.StreamWriter) -> None:
    """Say what was heard, which is no answer in any protocol."""
    writer.write(received)
    await writer.drain()


async def echo_as_headers(received: bytes, writer: asyncio.StreamWriter) -> None:
    """Say what was heard as headers that no client takes."""
    writer.write(b"HTTP/1.1 200 OK\r\n" + _head_of(received).replace(b":", b"\0") + b"\r\n\r\n")
    await writer.drain()


async def close_connection(_: bytes, writer: asyncio.StreamWriter) -> None:
    """Close the connection instead of an answer."""
    writer.close()


async def never_reply(_: bytes, __: asyncio.StreamWriter) -> None:
    """Say nothing."""
