"""A journal streamed by a server, as the controller does: `async with streaming(tail, records)`."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from reactive_desched.journal.event_builder import journal_epoch
from reactive_desched.journal.records import JournalRecord
from reactive_desched.journal.summary import parse_summary
from reactive_desched.journal.tail import LiveTail
from reactive_desched.model.event_types import short_type
from reactive_desched.primitives.listen_address import ListenAddress
from reactive_desched.web.event_stream import EventStream, StreamLimits
from reactive_desched.web.health import Health
from reactive_desched.web.server import Served, serve
from tests.support.event_source import DispatchedEvent
from tests.support.journals import SOURCE
from tests.support.recording_logger import RecordingLogger

__all__ = [
    "ANY_PORT",
    "EPOCH",
    "NOW",
    "ServeStream",
    "ServedStream",
    "serve_stream",
    "to_sse_event",
]

ANY_PORT: Final = ListenAddress("127.0.0.1", 0)
NOW: Final = datetime(2026, 3, 29, 2, 30, tzinfo=UTC)
"""The server's time of day: an hour after the first record."""

EPOCH: Final = journal_epoch(SOURCE)
"""The first half of every id in the stream."""


class ServedStream(NamedTuple):
    """A server that streams a journal; some records may be durable only when told to."""

    url: str
    tail: LiveTail
    records: Sequence[JournalRecord]
    stream: EventStream
    log: RecordingLogger

    def publish(self, limit: int = 1) -> None:
        """Have the next records become durable."""
        self.tail.publish(self.records[self.tail.last_seq : self.tail.last_seq + limit])


ServeStream = Callable[..., AbstractAsyncContextManager[ServedStream]]
"""A way to serve a journal, as a fixture gives it."""


@asynccontextmanager
async def serve_stream(
    tail: LiveTail,
    records: Sequence[JournalRecord] = (),
    listen: ListenAddress = ANY_PORT,
    **limits: Any,  # fields of StreamLimits
) -> AsyncIterator[ServedStream]:
    """Serve the stream of these records' tail while the block runs."""
    log = RecordingLogger()
    stream = EventStream(StreamLimits(**limits), lambda: NOW, log)
    async with (
        serve(listen, Served(Health(lambda: 0.0), events=stream)) as url,
        stream.following(tail),
    ):
        yield ServedStream(url, tail, records, stream, log)


def to_sse_event(record: JournalRecord) -> DispatchedEvent:
    """Return what a client must get for a record."""
    line = parse_summary(record.raw)
    assert line is not None
    return DispatchedEvent(f"{EPOCH}.{record.seq}", short_type(line.type), record.raw.decode())
