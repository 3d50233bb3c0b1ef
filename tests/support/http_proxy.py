"""An HTTP proxy on loopback that leads every name to this machine, and refuses as scripted."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from ssl import SSLContext
from urllib.parse import urlsplit

__all__ = ["HttpProxy"]

_HANDSHAKE = b"\x16"


class HttpProxy:
    """Carries tunnels and plain requests; `asked` has what it was asked for, as METHOD target.

    With `login`, as USER:PASSWORD, it wants that; with `refusal`, it answers that status.
    """

    def __init__(self, login: str = "", refusal: int = 0) -> None:
        self.asked: list[str] = []
        self.url = ""
        self.refusal = refusal
        self.leads_to: int | None = None
        """The port to which every name leads; None for that of the request."""
        self.offers = ("Basic realm=x",)
        self._login = base64.b64encode(login.encode()).decode() if login else ""
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def serving(self, tls: SSLContext | None = None) -> AsyncIterator["HttpProxy"]:
        """Listen on a free port of 127.0.0.1 until the block ends."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=tls)
        port = server.sockets[0].getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        try:
            yield self
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection in a task, which is there as soon as the connection is."""
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: writer.close())  # it may not even have begun

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await self._answer(reader, writer)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begin = await reader.readexactly(1)
        if begin == _HANDSHAKE:  # TLS to a proxy that has none
            writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            return
        head = begin + await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        method, target, version = first.split()
        self.asked.append(f"{method} {target}")
        if (status := self._refusal_of(head)) != 0:
            offers = "".join(f"Proxy-Authenticate: {offer}\r\n" for offer in self.offers)
            writer.write(f"HTTP/1.1 {status} No\r\n{offers}Content-Length: 0\r\n\r\n".encode())
            await writer.drain()
            return
        tunnel = method == "CONNECT"
        url = urlsplit(f"//{target}" if tunnel else target)
        to_server = await asyncio.open_connection("127.0.0.1", self.leads_to or url.port)
        if tunnel:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            path = f"{url.path}?{url.query}" if url.query else url.path
            to_server[1].write("\r\n".join([f"{method} {path} {version}", *lines]).encode())
        try:
            await asyncio.gather(_carry(reader, to_server[1]), _carry(to_server[0], writer))
        finally:
            to_server[1].close()

    def _refusal_of(self, head: bytes) -> int:
        if self._login and self._login.encode() not in head:
            return 407
        return self.refusal


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        with suppress(OSError):
            while part := await reader.read(65536):
                writer.write(part)
                await writer.drain()
    finally:
        writer.close()
