"""Writes records for clients of the event stream: as server-sent events, or as plain lines."""

from typing import Final, NamedTuple, Protocol

import msgspec

from reactive_desched.journal.start_position import format_id

RETRY_MS: Final = 3000
"""A browser that lost its connection tries again after this."""

_encoder: Final = msgspec.json.Encoder(order="sorted")


class Gap(NamedTuple):
    """Requested records do not exist: the record that the client continues at, and why."""

    oldest: int
    next: int
    reason: str


class Framing(Protocol):
    """One way to write a stream; each method returns whole frames."""

    @property
    def media_type(self) -> str:
        """The content type of the stream."""
        ...

    def preamble(self) -> bytes:
        """Return what comes first."""
        ...

    def record(self, seq: int, kind: str, raw: bytes) -> bytes:
        """Return a record."""
        ...

    def heartbeat(self, seq: int) -> bytes:
        """Return a heartbeat; everything up to `seq` has been searched."""
        ...

    def reset(self, gap: Gap) -> bytes:
        """Return a `reset` event: records are missing here."""
        ...

    def goodbye(self, seq: int, message: str) -> bytes:
        """Return the closing comment for a client that is disconnected after this record."""
        ...


class SseFraming:
    """As a browser's EventSource reads it; every frame carries the id to come back with.

    A heartbeat too: a filtered client may look far beyond the last record it was sent.
    """

    media_type = "text/event-stream; charset=utf-8"

    def __init__(self, epoch: str) -> None:
        self._epoch = epoch

    def preamble(self) -> bytes:
        """Return how soon to try again."""
        return b"retry: %d\n\n" % RETRY_MS

    def record(self, seq: int, kind: str, raw: bytes) -> bytes:
        """Return an event named for the kind of record, whose data is the line itself."""
        event = kind if kind.isprintable() else "unreadable"
        return b"id: %s\nevent: %s\ndata: %s\n\n" % (self._id(seq), event.encode(), raw)

    def heartbeat(self, seq: int) -> bytes:
        """Return an event with the last sequence that was searched."""
        return self.record(seq, "heartbeat", _encoder.encode({"sequence": seq}))

    def reset(self, gap: Gap) -> bytes:
        """Return an event; its id is a place that is there, so that a reset comes once."""
        return self.record(gap.next - 1, "reset", _encoder.encode(gap._asdict()))

    def goodbye(self, seq: int, message: str) -> bytes:
        """Return a comment, which clients ignore."""
        return b": %s; the last id is %s\n\n" % (message.encode(), self._id(seq))

    def _id(self, seq: int) -> bytes:
        return format_id(self._epoch, seq).encode()


class NdjsonFraming:
    """The journal's lines as they are; what is no record is an empty line, or has no `id`."""

    media_type = "application/x-ndjson"

    def preamble(self) -> bytes:
        """Return nothing."""
        return b""

    def record(self, seq: int, kind: str, raw: bytes) -> bytes:
        """Return the line."""
        del seq, kind
        return raw + b"\n"

    def heartbeat(self, seq: int) -> bytes:
        """Return an empty line."""
        del seq
        return b"\n"

    def reset(self, gap: Gap) -> bytes:
        """Return an object that is no event: it has nothing but `reset`."""
        return _encoder.encode({"reset": gap._asdict()}) + b"\n"

    def goodbye(self, seq: int, message: str) -> bytes:
        """Return nothing: each record has its own sequence."""
        del seq, message
        return b""
