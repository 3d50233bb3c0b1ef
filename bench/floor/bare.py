"""A watch without an HTTP library: what the transport costs at the least."""

import asyncio
import ssl
from collections.abc import Callable
from typing import cast
from urllib.parse import urlsplit

_BUFFER_BYTES = 1 << 21
_LONGEST_SIZE = 20
"""The hexadecimal size of a chunk ends before so many bytes."""


class BareWatch(asyncio.BufferedProtocol):
    """Takes the lines of one watch out of their chunks, where the socket wrote them.

    `on_line` gets each line as a view that is valid during the call. It expects one chunk for each
    line, as an API server sends them, and none longer than its buffer.
    """

    def __init__(self, path: str, on_line: Callable[[memoryview], object]) -> None:
        self.opened = asyncio.Event()
        self._request = f"GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n".encode()
        self._on_line = on_line
        self._buffer = bytearray(_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._end = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the watch."""
        cast("asyncio.WriteTransport", transport).write(self._request)  # uvloop's has no such base

    def get_buffer(self, _: int) -> memoryview:
        """Return where the next bytes go."""
        return self._view[self._end :]

    def buffer_updated(self, count: int) -> None:
        """Pass on every line that is whole."""
        buffer, view = self._buffer, self._view
        end, at = self._end + count, 0
        if not self.opened.is_set():
            if (head := buffer.find(b"\r\n\r\n", 0, end)) < 0:
                self._end = end
                return
            at = head + 4
            self.opened.set()
        while (size_end := buffer.find(b"\r\n", at, min(end, at + _LONGEST_SIZE))) >= 0:
            begins = size_end + 2
            ends = begins + int(buffer[at:size_end], 16)
            if end < ends + 2:
                break
            self._on_line(view[begins:ends])
            at = ends + 2
        if left := end - at:
            view[:left] = view[at:end]
        self._end = left


async def open_bare_watch(
    url: str, path: str, ca: str, on_line: Callable[[memoryview], object]
) -> asyncio.BaseTransport:
    """Open a watch; return its connection once the response has begun."""
    server = urlsplit(url)
    assert server.hostname is not None
    assert server.port is not None
    transport, protocol = await asyncio.get_running_loop().create_connection(
        lambda: BareWatch(path, on_line),
        server.hostname,
        server.port,
        ssl=ssl.create_default_context(cafile=ca),
    )
    await protocol.opened.wait()
    return transport
