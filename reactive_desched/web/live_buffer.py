"""The newest records, read and parsed once for all clients of the stream."""

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple, Protocol

import anyio

from reactive_desched.errors import JournalError
from reactive_desched.journal.records import Entry
from reactive_desched.journal.summary import Filter, Summary, summary
from reactive_desched.web.framing import Framing

KEPT_RECORDS: Final = 2048
KEPT_BYTES: Final = 4 << 20
"""So many records, and so many bytes of them, are kept parsed; who is further back reads alone."""

PIECE_BYTES: Final = 128 << 10
"""What is handed to a client at once; one record more at most."""

PACE_S: Final = 0.05
"""News is told so often at most: under load many records then cost a client one write."""

SHARED_PIECES: Final = 64
"""So many pieces are kept for clients that want the same; further filters make their own."""

LOOKED_AT: Final = 500
"""A piece is made of so many records at most, wanted or not."""

TURNS: Final = 4
"""So many clients get a piece in one round of the event loop; the others wait in line."""

_TRY_AGAIN_S: Final = 1.0


class Records(Protocol):
    """The journal as its followers read it: `journal/tail.py`."""

    @property
    def source(self) -> str:
        """The source of this journal's events."""
        ...

    @property
    def last(self) -> int:
        """The newest sequence."""
        ...

    @property
    def oldest(self) -> int:
        """The oldest sequence that is still there."""
        ...

    async def after(self, seq: int, most: int = 500) -> list[Entry]:
        """Return the records behind a place; raises RecordsGone, or OSError."""
        ...

    async def beyond(self, seq: int) -> None:
        """Return when there is a record behind this place."""
        ...


class Piece(NamedTuple):
    """What a client gets next: frames, how many records they hold, and how far was looked."""

    data: bytes
    records: int
    seq: int


class Record:
    """A record and what was found out about it once; names and frames when first wanted."""

    __slots__ = ("_frames", "_names", "raw", "seq", "summary")

    def __init__(self, entry: Entry) -> None:
        self.seq = entry.seq
        self.raw = entry.raw
        self.summary: Summary | None = summary(entry.raw)
        self._names: dict[str, Collection[str]] = {}
        self._frames: dict[str, bytes] = {}

    def names(self, field: str) -> Collection[str]:
        """Return what it goes by in this field of a Filter; nothing if it is damaged."""
        if (found := self._names.get(field)) is None:
            found = () if self.summary is None else self.summary.names(field)
            self._names[field] = found
        return found

    def framed(self, framing: Framing) -> bytes:
        """Return the record as this framing writes it."""
        if (frame := self._frames.get(framing.media_type)) is None:
            kind = "unreadable" if self.summary is None else self.summary.kind
            frame = framing.record(self.seq, kind, self.raw)
            self._frames[framing.media_type] = frame
        return frame


def piece(records: Iterable[Record], wanted: Filter, framing: Framing, seq: int) -> Piece:
    """Return the next piece of these records for somebody who is at `seq`."""
    frames: list[bytes] = []
    size = 0
    for record in records:
        seq = record.seq
        if wanted.wants(record):
            frames.append(record.framed(framing))
            size += len(frames[-1])
            if size >= PIECE_BYTES:
                break
    return Piece(b"".join(frames), len(frames), seq)


class Latest:
    """Follows the journal while there are clients, and wakes them when there is news.

    Keeps the newest records within its bounds; older ones are dropped.
    """

    def __init__(self, records: Records) -> None:
        self._source = records
        self._records: deque[Record] = deque()
        self._bytes = 0
        self._seq = 0
        self._clients = 0
        self._wanted = anyio.Event()
        self._news = anyio.Event()
        self._turns = anyio.Semaphore(TURNS)
        self._pieces: dict[tuple[int, Filter, str], Piece] = {}

    @property
    def seq(self) -> int:
        """The newest record that is told to clients."""
        return self._seq

    def join(self) -> None:
        """Have it follow the journal from now on, for one client more."""
        if not self._clients:
            self._begin_at(self._source.last)
            self._wanted.set()
        self._clients += 1

    def leave(self) -> None:
        """Let it rest when this was the last client."""
        self._clients -= 1
        if not self._clients:
            self._wanted = anyio.Event()

    async def run(self) -> None:
        """Follow the journal; whatever goes wrong with it ends with another try."""
        while True:
            await self._wanted.wait()
            try:
                await self._source.beyond(self._seq)
                self._add(await self._source.after(self._seq, LOOKED_AT))
            except (JournalError, OSError):
                self._begin_at(self._source.last)  # clients see by themselves what is missing
                await anyio.sleep(_TRY_AGAIN_S)
            self._news.set()
            self._news = anyio.Event()
            await anyio.sleep(PACE_S)

    async def piece(self, seq: int, wanted: Filter, framing: Framing) -> Piece | None:
        """Return what comes behind this place; None when that is too far back."""
        async with self._turns:  # taking a turn lets the loop go round
            return self._piece(seq, wanted, framing)

    async def news(self, seq: int) -> None:
        """Return when there may be something behind this place."""
        if seq >= self._seq:
            await self._news.wait()

    def _piece(self, seq: int, wanted: Filter, framing: Framing) -> Piece | None:
        if seq >= self._seq:
            return Piece(b"", 0, seq)
        if not self._records or seq + 1 < self._records[0].seq:
            return None
        key = (seq, wanted, framing.media_type)
        if (known := self._pieces.get(key)) is None:
            begin = seq + 1 - self._records[0].seq
            known = piece(islice(self._records, begin, begin + LOOKED_AT), wanted, framing, seq)
            if len(self._pieces) < SHARED_PIECES:
                self._pieces[key] = known
        return known

    def _begin_at(self, seq: int) -> None:
        self._records.clear()
        self._pieces.clear()
        self._bytes, self._seq = 0, seq

    def _add(self, entries: Sequence[Entry]) -> None:
        if not entries or entries[0].seq != self._seq + 1:  # it began anew meanwhile
            return
        self._pieces.clear()
        self._records.extend(map(Record, entries))
        self._bytes += sum(len(entry.raw) for entry in entries)
        while len(self._records) > KEPT_RECORDS or self._bytes > KEPT_BYTES:
            self._bytes -= len(self._records.popleft().raw)
        self._seq = entries[-1].seq
