"""The newest records, read and parsed once for all clients of the stream."""

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple, Protocol

import anyio

from reactive_desched.errors import JournalError
from reactive_desched.journal.records import JournalRecord
from reactive_desched.journal.summary import EventFilter, EventSummary, parse_summary
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.web.framing import Framing

MAX_RECORDS: Final = 2048
MAX_BYTES: Final = 4 << 20
"""So many records, and bytes of them, stay parsed; clients further behind read the files."""

CHUNK_BYTES: Final = 128 << 10
"""What is handed to a client at once; one record more at most."""

NOTIFY_INTERVAL_S: Final = 0.05
"""Clients are woken at most this often: under load many records cost a client one write."""

CHUNK_CACHE_SIZE: Final = 64
"""So many pieces are kept for clients that want the same; further filters make their own."""

RECORDS_PER_CHUNK: Final = 500
"""A piece is made of so many records at most, wanted or not."""

MAX_CONCURRENT_CHUNKS: Final = 4
"""So many clients are served in one round of the event loop; the others wait."""

_RETRY_S: Final = 1.0


class RecordSource(Protocol):
    """The journal as its followers read it: `journal/tail.py`."""

    @property
    def source(self) -> str:
        """The source of this journal's events."""
        ...

    @property
    def last_seq(self) -> int:
        """The newest sequence."""
        ...

    @property
    def oldest_seq(self) -> int:
        """The oldest sequence that is still there."""
        ...

    async def read_after(self, seq: int, limit: int = 500) -> list[JournalRecord]:
        """Return the records behind a place; raises RecordsExpired, or OSError."""
        ...

    async def wait_past(self, seq: int) -> None:
        """Return when there is a record behind this place."""
        ...


class Chunk(NamedTuple):
    """The next part for a client: frames, the number of their records, and the position behind."""

    data: bytes
    records: int
    seq: int


class StreamRecord:
    """A record and what was found out about it once; names and frames when first wanted."""

    __slots__ = ("_frames", "_names", "raw", "seq", "summary")

    def __init__(self, entry: JournalRecord) -> None:
        self.seq = entry.seq
        self.raw = entry.raw
        self.summary: EventSummary | None = parse_summary(entry.raw)
        self._names: dict[str, Collection[str]] = {}
        self._frames: dict[str, bytes] = {}

    def field_values(self, field: str) -> Collection[str]:
        """Return the record's values for this field of a filter; none if it is damaged."""
        if (found := self._names.get(field)) is None:
            found = () if self.summary is None else self.summary.field_values(field)
            self._names[field] = found
        return found

    def frame(self, framing: Framing) -> bytes:
        """Return the record as this framing writes it."""
        if (frame := self._frames.get(framing.media_type)) is None:
            kind = "unreadable" if self.summary is None else self.summary.kind
            frame = framing.record(self.seq, kind, self.raw)
            self._frames[framing.media_type] = frame
        return frame


def make_chunk(
    records: Iterable[StreamRecord], event_filter: EventFilter, framing: Framing, seq: int
) -> Chunk:
    """Return the next chunk of these records for a client whose last record is `seq`."""
    frames: list[bytes] = []
    size = 0
    for record in records:
        seq = record.seq
        if event_filter.matches(record):
            frames.append(record.frame(framing))
            size += len(frames[-1])
            if size >= CHUNK_BYTES:
                break
    return Chunk(b"".join(frames), len(frames), seq)


class LiveBuffer:
    """Follows the journal while there are clients, and wakes them for new records.

    Keeps the newest records within its bounds; older ones are dropped.
    """

    def __init__(self, records: RecordSource) -> None:
        self._source = records
        self._records: deque[StreamRecord] = deque()
        self._bytes = 0
        self._seq = 0
        self._clients = 0
        self._has_clients = Wakeup()
        self._updated = Wakeup()
        self._chunk_slots = anyio.Semaphore(MAX_CONCURRENT_CHUNKS)
        self._chunks: dict[tuple[int, EventFilter, str], Chunk] = {}

    @property
    def seq(self) -> int:
        """The newest record that clients may have."""
        return self._seq

    def add_client(self) -> None:
        """Count one more client; follow the journal while there is any."""
        if not self._clients:
            self._restart_at(self._source.last_seq)
            self._has_clients.notify()
        self._clients += 1

    def remove_client(self) -> None:
        """Count one client less; stop following the journal when this was the last."""
        self._clients -= 1

    async def run(self) -> None:
        """Follow the journal; whatever goes wrong with it ends with another try."""
        while True:
            while not self._clients:
                await self._has_clients.wait()
            try:
                await self._source.wait_past(self._seq)
                self._add(await self._source.read_after(self._seq, RECORDS_PER_CHUNK))
            except (JournalError, OSError):
                self._restart_at(self._source.last_seq)  # clients see by themselves what is missing
                await anyio.sleep(_RETRY_S)
            self.notify()
            await anyio.sleep(NOTIFY_INTERVAL_S)

    async def chunk(self, seq: int, event_filter: EventFilter, framing: Framing) -> Chunk | None:
        """Return what comes behind this place; None when that is too far back."""
        async with self._chunk_slots:  # taking a turn lets the loop go round
            return self._make_chunk(seq, event_filter, framing)

    async def wait_for_records(self, seq: int) -> None:
        """Return when there may be something behind this place."""
        if seq >= self._seq:
            await self._updated.wait()

    def notify(self) -> None:
        """Wake every client that waits for records."""
        self._updated.notify()

    def _make_chunk(self, seq: int, event_filter: EventFilter, framing: Framing) -> Chunk | None:
        if seq >= self._seq:
            return Chunk(b"", 0, seq)
        if not self._records or seq + 1 < self._records[0].seq:
            return None
        key = (seq, event_filter, framing.media_type)
        if (chunk := self._chunks.get(key)) is None:
            begin = seq + 1 - self._records[0].seq
            chunk = make_chunk(
                islice(self._records, begin, begin + RECORDS_PER_CHUNK), event_filter, framing, seq
            )
            if len(self._chunks) < CHUNK_CACHE_SIZE:
                self._chunks[key] = chunk
        return chunk

    def _restart_at(self, seq: int) -> None:
        self._records.clear()
        self._chunks.clear()
        self._bytes, self._seq = 0, seq

    def _add(self, entries: Sequence[JournalRecord]) -> None:
        if not entries or entries[0].seq != self._seq + 1:  # it began anew meanwhile
            return
        self._chunks.clear()
        self._records.extend(map(StreamRecord, entries))
        self._bytes += sum(len(entry.raw) for entry in entries)
        while len(self._records) > MAX_RECORDS or self._bytes > MAX_BYTES:
            self._bytes -= len(self._records.popleft().raw)
        self._seq = entries[-1].seq
