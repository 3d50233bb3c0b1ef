"""A journal in a folder, its tail, and a server that streams it."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from reactive_desched.journal.records import Entry
from reactive_desched.journal.tail import Tail
from reactive_desched.model.addresses import Listen
from reactive_desched.testing.journals import SOURCE, some_events, write_journal
from reactive_desched.web.event_stream import EventStream, StreamLimits
from reactive_desched.web.health import Health
from reactive_desched.web.server import serve

NOW = datetime(2026, 3, 29, 2, 30, tzinfo=UTC)


class Lines:
    """Keeps what was logged."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **values: Any) -> None:
        self.lines.append((event, values))

    warning = info


class Streaming(NamedTuple):
    """A server that streams a journal; some records are only written when told to."""

    url: str
    tail: Tail
    records: list[Entry]
    stream: EventStream
    log: Lines

    def publish(self, most: int = 1) -> None:
        """Have the next records become durable."""
        self.tail.published(self.records[self.tail.last : self.tail.last + most])


Serving = Callable[..., AbstractAsyncContextManager[Streaming]]


@pytest.fixture
def serving(tmp_path: Path) -> Serving:
    """Return a way to serve a journal of so many events, of which so many are there yet."""

    @asynccontextmanager
    async def begin(
        events: int | Iterable[Any] = 20,
        there: int | None = None,
        oldest: int = 1,
        source: str = SOURCE,
        **limits: Any,
    ) -> AsyncIterator[Streaming]:
        told = some_events(events) if isinstance(events, int) else events
        records = write_journal(tmp_path, told, per_segment=100)
        tail = Tail(tmp_path, source, oldest, len(records) if there is None else there)
        log = Lines()
        stream = EventStream(tail, StreamLimits(**limits), lambda: NOW, log)
        async with serve(Listen("127.0.0.1", 0), Health(lambda: 0.0), None, stream) as url:
            yield Streaming(url, tail, records, stream, log)

    return begin
