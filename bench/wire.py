"""Just enough HTTP/1.1 over a blocking socket to serve lists and watches at line speed."""

import socket
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

_READ = 1 << 16
_REASONS = {200: "OK", 201: "Created", 404: "Not Found", 422: "Unprocessable Entity"}

WATCH_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
)
LAST_CHUNK = b"0\r\n\r\n"


@dataclass(frozen=True)
class Request:
    """One request as the server needs it."""

    method: str
    path: str
    query: dict[str, str]
    body: bytes


class Connection:
    """One client's connection: requests in, answers out, in turn."""

    def __init__(self, sock: socket.socket) -> None:
        """Serve on a connected socket, which the caller closes."""
        self.sock = sock
        self._buffer = b""

    def read(self) -> Request | None:
        """Return the next request, or None when the client has gone."""
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if not self._more():
                return None
        head, self._buffer = self._buffer[:end], self._buffer[end + 4 :]
        length = _content_length(head)
        while len(self._buffer) < length:
            if not self._more():
                return None
        body, self._buffer = self._buffer[:length], self._buffer[length:]
        method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
        url = urlsplit(target)
        return Request(method, url.path, dict(parse_qsl(url.query)), body)

    def answer(self, status: int, *parts: bytes | memoryview) -> None:
        """Send a whole JSON answer."""
        length = sum(len(part) for part in parts)
        head = (
            f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        ).encode()
        if length < _READ:
            self.sock.sendall(b"".join([head, *parts]))
            return
        self.sock.sendall(head)
        for part in parts:
            self.sock.sendall(part)

    def answer_chunked(self, parts: Iterable[bytes | memoryview]) -> None:
        """Send a JSON answer with one chunk per part, as newer API servers send long lists."""
        self.sock.sendall(WATCH_HEAD)
        self.sock.sendall(b"".join([*map(chunk, parts), LAST_CHUNK]))

    def _more(self) -> bool:
        data = self.sock.recv(_READ)
        self._buffer += data
        return bool(data)


def chunk(data: bytes | memoryview) -> bytes:
    """Frame one chunk; an API server flushes after every watch event."""
    return b"".join((b"%x\r\n" % len(data), data, b"\r\n"))


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return 0
