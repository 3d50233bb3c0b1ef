"""A journal streamed by a server, as the controller does: `async with streaming(tail, records)`."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from reactive_desched.journal.envelope import epoch_of
from reactive_desched.journal.records import Entry
from reactive_desched.journal.summary import summary
from reactive_desched.journal.tail import Tail
from reactive_desched.model.event_types import short
from reactive_desched.primitives.listen_address import Listen
from reactive_desched.web.event_stream import EventStream, StreamLimits
from reactive_desched.web.health import Health
from reactive_desched.web.server import serve
from tests.support.event_source import Event
from tests.support.journals import SOURCE
from tests.support.log_book import LogBook

__all__ = ["ANYWHERE", "EPOCH", "NOW", "Serving", "Streaming", "as_event", "streaming"]

ANYWHERE: Final = Listen("127.0.0.1", 0)
NOW: Final = datetime(2026, 3, 29, 2, 30, tzinfo=UTC)
"""The server's time of day: an hour after the first record."""

EPOCH: Final = epoch_of(SOURCE)
"""The first half of every id in the stream."""


class Streaming(NamedTuple):
    """A server that streams a journal; some records may be durable only when told to."""

    url: str
    tail: Tail
    records: Sequence[Entry]
    stream: EventStream
    log: LogBook

    def publish(self, most: int = 1) -> None:
        """Have the next records become durable."""
        self.tail.published(self.records[self.tail.last : self.tail.last + most])


Serving = Callable[..., AbstractAsyncContextManager[Streaming]]
"""A way to serve a journal, as a fixture gives it."""


@asynccontextmanager
async def streaming(
    tail: Tail,
    records: Sequence[Entry] = (),
    listen: Listen = ANYWHERE,
    **limits: Any,  # fields of StreamLimits
) -> AsyncIterator[Streaming]:
    """Serve the stream of these records' tail while the block runs."""
    log = LogBook()
    stream = EventStream(tail, StreamLimits(**limits), lambda: NOW, log)
    async with serve(listen, Health(lambda: 0.0), None, stream) as url:
        yield Streaming(url, tail, records, stream, log)


def as_event(record: Entry) -> Event:
    """Return what a client must get for a record."""
    line = summary(record.raw)
    assert line is not None
    return Event(f"{EPOCH}.{record.seq}", short(line.type), record.raw.decode())
