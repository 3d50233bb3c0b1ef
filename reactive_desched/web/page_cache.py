"""Older records, read and parsed once for all clients of the stream that come by together."""

from contextlib import suppress
from itertools import islice
from typing import Final

import anyio

from reactive_desched.errors import RecordsGone
from reactive_desched.journal.start_position import Start
from reactive_desched.journal.summary import Filter
from reactive_desched.web.framing import Framing
from reactive_desched.web.live_buffer import Piece, Record, Records, piece
from reactive_desched.web.start_position import place_of

READ_AT_ONCE: Final = 128
"""A client that is behind reads so many records at a time."""

KEPT_PAGES: Final = 8
"""So many readings are kept parsed, 1 MiB and one record each at most; the oldest is dropped."""


class Past:
    """Reads the journal for clients that are behind: pages that begin at the same places for all.

    Whoever comes by within KEPT_PAGES behind another has nothing to read. One client reads at a
    time, and one searches for its place; the others wait in line.
    """

    def __init__(self, records: Records) -> None:
        self._records = records
        self._pages: dict[int, list[Record]] = {}
        self._searching, self._reading = anyio.Lock(), anyio.Lock()

    async def place(self, start: Start) -> int:
        """Return the sequence behind which a client begins; raises RecordsGone, or OSError."""
        async with self._searching:
            return await place_of(start, self._records)

    async def piece(self, seq: int, wanted: Filter, framing: Framing) -> Piece:
        """Return what comes behind this place; raises RecordsGone, or OSError."""
        begin = seq - seq % READ_AT_ONCE
        if (page := self._pages.get(begin)) is None:
            async with self._reading:
                page = await self._page(begin)
        if not page or page[-1].seq <= seq:
            async with self._reading:
                page, begin = await self._read(seq), seq
        return piece(islice(page, seq - begin, None), wanted, framing, seq)

    async def _page(self, begin: int) -> list[Record]:
        """Return a page; nothing when it is not whole yet, or its beginning is gone."""
        if begin not in self._pages and begin + READ_AT_ONCE <= self._records.last:
            with suppress(RecordsGone):
                self._keep(begin, await self._read(begin))
        return self._pages.get(begin, [])

    def _keep(self, begin: int, page: list[Record]) -> None:
        while len(self._pages) >= KEPT_PAGES:
            self._pages.pop(next(iter(self._pages)))
        self._pages[begin] = page

    async def _read(self, seq: int) -> list[Record]:
        return list(map(Record, await self._records.after(seq, READ_AT_ONCE)))
