"""A journal in a folder, and a server that streams it."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from reactive_desched.journal.tail import LiveTail
from tests.support.journals import SOURCE, some_events, write_journal
from tests.support.served_journal import ServedStream, ServeStream, serve_stream


@pytest.fixture
def serving(tmp_path: Path) -> ServeStream:
    """Return a way to serve a journal of so many events, of which so many are there yet."""

    @asynccontextmanager
    async def begin(
        events: int | Iterable[Any] = 20,
        there: int | None = None,
        oldest: int = 1,
        **limits: Any,  # fields of StreamLimits
    ) -> AsyncIterator[ServedStream]:
        told = some_events(events) if isinstance(events, int) else events
        records = write_journal(tmp_path, told, per_segment=100)
        tail = LiveTail(tmp_path, SOURCE, oldest, len(records) if there is None else there)
        async with serve_stream(tail, records, **limits) as served:
            yield served

    return begin
