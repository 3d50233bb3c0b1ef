"""Finds where a client of the stream begins, and reads older records in pages for all clients."""

from contextlib import suppress
from datetime import datetime
from itertools import islice
from typing import Final

import anyio

from reactive_desched.errors import RecordsExpired
from reactive_desched.journal.event_builder import journal_epoch
from reactive_desched.journal.records import recorded_at
from reactive_desched.journal.start_position import (
    OLDEST,
    AfterSequence,
    SinceTime,
    Start,
    validate_position,
)
from reactive_desched.journal.summary import EventFilter
from reactive_desched.web.framing import Framing
from reactive_desched.web.live_buffer import Chunk, RecordSource, StreamRecord, make_chunk

PAGE_RECORDS: Final = 128
"""A client that is behind reads so many records at a time."""

MAX_PAGES: Final = 8
"""So many readings are kept parsed, 1 MiB and one record each at most; the oldest is dropped."""


class PageCache:
    """Reads the journal for clients that are behind, in pages with the same bounds for all clients.

    A client that follows another one within MAX_PAGES finds its pages in the cache. One client at
    a time reads a page, and one at a time looks up its start; the others wait.
    """

    def __init__(self, records: RecordSource) -> None:
        self._records = records
        self._pages: dict[int, list[StreamRecord]] = {}
        self._start_lock, self._read_lock = anyio.Lock(), anyio.Lock()

    async def resolve_start(self, start: Start) -> int:
        """Return the sequence behind which a client begins; raises RecordsExpired, or OSError."""
        async with self._start_lock:
            return await _start_seq(start, self._records)

    async def chunk(self, seq: int, event_filter: EventFilter, framing: Framing) -> Chunk:
        """Return what comes behind this place; raises RecordsExpired, or OSError."""
        begin = seq - seq % PAGE_RECORDS
        if (page := self._pages.get(begin)) is None:
            async with self._read_lock:
                page = await self._load_page(begin)
        if not page or page[-1].seq <= seq:
            async with self._read_lock:
                page, begin = await self._read(seq), seq
        return make_chunk(islice(page, seq - begin, None), event_filter, framing, seq)

    async def _load_page(self, begin: int) -> list[StreamRecord]:
        """Return a page; nothing when it is not whole yet, or its beginning is gone."""
        if begin not in self._pages and begin + PAGE_RECORDS <= self._records.last_seq:
            with suppress(RecordsExpired):
                self._add_page(begin, await self._read(begin))
        return self._pages.get(begin, [])

    def _add_page(self, begin: int, page: list[StreamRecord]) -> None:
        while len(self._pages) >= MAX_PAGES:
            self._pages.pop(next(iter(self._pages)))
        self._pages[begin] = page

    async def _read(self, seq: int) -> list[StreamRecord]:
        return list(map(StreamRecord, await self._records.read_after(seq, PAGE_RECORDS)))


async def _start_seq(start: Start, records: RecordSource) -> int:
    """Return the sequence behind which a client begins; raises RecordsExpired if it is gone."""
    match start:
        case AfterSequence():
            return validate_position(
                start, journal_epoch(records.source), records.oldest_seq, records.last_seq
            )
        case SinceTime(moment=moment):
            return await _seq_before(moment, records)
        case _:
            return records.oldest_seq - 1 if start == OLDEST else records.last_seq


async def _seq_before(moment: datetime, records: RecordSource) -> int:
    """Search by halves: records are written in the order of time, but for a clock set back."""
    low, high = records.oldest_seq - 1, records.last_seq
    while low < high:
        middle = (low + high) // 2
        if await _is_earlier(middle + 1, moment, records):
            low = middle + 1
        else:
            high = middle
    return low


async def _is_earlier(seq: int, moment: datetime, records: RecordSource) -> bool:
    try:
        found = await records.read_after(seq - 1, 1)
    except RecordsExpired:
        return True
    written = recorded_at(found[0].raw) if found else None
    return written is not None and written < moment
