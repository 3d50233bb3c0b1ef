"""A journal in a folder, and a server that streams it."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from reactive_desched.journal.tail import Tail
from tests.support.journals import SOURCE, some_events, write_journal
from tests.support.served_journal import Serving, Streaming, streaming


@pytest.fixture
def serving(tmp_path: Path) -> Serving:
    """Return a way to serve a journal of so many events, of which so many are there yet."""

    @asynccontextmanager
    async def begin(
        events: int | Iterable[Any] = 20,
        there: int | None = None,
        oldest: int = 1,
        **limits: Any,  # fields of StreamLimits
    ) -> AsyncIterator[Streaming]:
        told = some_events(events) if isinstance(events, int) else events
        records = write_journal(tmp_path, told, per_segment=100)
        tail = Tail(tmp_path, SOURCE, oldest, len(records) if there is None else there)
        async with streaming(tail, records, **limits) as served:
            yield served

    return begin
