"""Reads server-sent events from pieces of bytes, as a browser does."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from reactive_desched.errors import StreamFailed

MAX_LINE_BYTES: Final = 1 << 20
"""A longer line, or an event with more data, is none of ours, and is not gathered."""

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class ServerSentEvent(NamedTuple):
    """One event; `id` is the place to come back with."""

    id: str
    type: str
    data: bytes


class SseReader:
    """Gathers lines until an event is whole; holds a line and an event, each of `max_bytes`.

    A line ends with LF, CR or both; an event that ends with CR is there at once.
    """

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._rest = b""
        self._is_first = True
        self._ended_with_cr = False
        self._id = ""
        self._type = ""
        self._data: list[bytes] = []
        self._data_bytes = 0

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """Yield the events that this piece completes; raises StreamFailed for what is no stream."""
        for line in self._lines(chunk):
            if (event := self._line(line)) is not None:
                yield event

    def _lines(self, chunk: bytes) -> list[bytes]:
        """Return the lines that this piece completes."""
        if not chunk:
            return []
        if self._ended_with_cr:
            chunk = chunk.removeprefix(b"\n")
        self._ended_with_cr = chunk.endswith(b"\r")
        lines = (self._rest + chunk).splitlines(keepends=True)
        is_complete = not lines or lines[-1].endswith((b"\n", b"\r"))
        self._rest = b"" if is_complete else lines.pop()
        self._check_size(len(self._rest), "a line")
        if lines and self._is_first:
            self._is_first, lines[0] = False, lines[0].removeprefix(_BYTE_ORDER_MARK)
        return [line.rstrip(b"\r\n") for line in lines]

    def _line(self, line: bytes) -> ServerSentEvent | None:
        if not line:
            return self._dispatch()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
            self._data_bytes += len(value) + 1
            self._check_size(self._data_bytes, "an event")
        elif field == b"event":
            self._type = value.decode(errors="replace")
        elif field == b"id" and b"\0" not in value:
            self._id = value.decode(errors="replace")
        return None

    def _check_size(self, size: int, what: str) -> None:
        if size > self._max_bytes:
            raise StreamFailed(f"{what} of the stream is longer than {self._max_bytes} bytes")

    def _dispatch(self) -> ServerSentEvent | None:
        event = ServerSentEvent(self._id, self._type or "message", b"\n".join(self._data))
        has_data, self._type, self._data, self._data_bytes = bool(self._data), "", [], 0
        return event if has_data else None
