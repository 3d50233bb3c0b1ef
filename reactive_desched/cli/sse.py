"""Reads server-sent events from pieces of bytes, as a browser does."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from reactive_desched.errors import StreamFailed

LONGEST_LINE: Final = 1 << 20
"""A longer line is no event of ours, and is not gathered."""


class ServerSentEvent(NamedTuple):
    """One event; `id` is the place to come back with."""

    id: str
    type: str
    data: bytes


class SseReader:
    """Gathers lines until an event is whole; holds LONGEST_LINE and one event at most."""

    def __init__(self) -> None:
        self._rest = b""
        self._id = ""
        self._type = ""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> Iterator[ServerSentEvent]:
        """Yield the events that this piece completes; raises StreamFailed for what is no stream."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > LONGEST_LINE:
            raise StreamFailed(f"a line of the stream is longer than {LONGEST_LINE} bytes")
        for line in lines:
            if (event := self._line(line.removesuffix(b"\r"))) is not None:
                yield event

    def _line(self, line: bytes) -> ServerSentEvent | None:
        if not line:
            return self._whole()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._type = value.decode(errors="replace")
        elif field == b"id" and b"\0" not in value:
            self._id = value.decode(errors="replace")
        return None

    def _whole(self) -> ServerSentEvent | None:
        event = ServerSentEvent(self._id, self._type or "message", b"\n".join(self._data))
        has_data, self._type, self._data = bool(self._data), "", []
        return event if has_data else None
