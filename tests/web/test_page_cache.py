"""What clients that are behind get: read once for those that come by together."""

from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from reactive_desched.errors import RecordsExpired
from reactive_desched.journal.records import JournalRecord
from reactive_desched.journal.summary import EventFilter, parse_summary
from reactive_desched.journal.tail import LiveTail
from reactive_desched.web import live_buffer, page_cache
from reactive_desched.web.framing import NdjsonFraming
from reactive_desched.web.page_cache import PageCache
from tests.support.journals import SOURCE, some_events, write_journal

pytestmark = pytest.mark.anyio

EVERYTHING = EventFilter()
EVICTIONS = EventFilter(types=("eviction",))


class Watched(LiveTail):
    """Remembers where it was read, and how many read at the same time."""

    def __init__(self, directory: Path, oldest: int, last: int) -> None:
        super().__init__(directory, SOURCE, oldest, last)
        self.read_at: list[int] = []
        self.most_at_once = 0
        self._at_once = 0

    async def read_after(self, seq: int, limit: int = 500) -> list[JournalRecord]:
        self.read_at.append(seq)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            return await super().read_after(seq, limit)
        finally:
            self._at_once -= 1


@pytest.fixture
def entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[JournalRecord]:
    """Return the records of a journal, which are read ten at a time."""
    monkeypatch.setattr(page_cache, "PAGE_RECORDS", 10)
    return write_journal(tmp_path, some_events(95), per_segment=50)


async def everything(records: LiveTail, seq: int, wanted: EventFilter = EVERYTHING) -> list[bytes]:
    """Go from a place to the end, alone."""
    return await rest(PageCache(records), records.last_seq, seq, wanted)


async def rest(reader: PageCache, last: int, seq: int, wanted: EventFilter) -> list[bytes]:
    found: list[bytes] = []
    while seq < last:
        some = await reader.chunk(seq, wanted, NdjsonFraming())
        assert some.seq > seq
        assert some.data.count(b"\n") == some.records
        found += some.data.splitlines()
        seq = some.seq
    return found


def evictions(entries: list[JournalRecord]) -> Iterator[bytes]:
    for entry in entries:
        if (event := parse_summary(entry.raw)) is not None and event.kind.startswith("eviction."):
            yield entry.raw


def damage(directory: Path, entry: JournalRecord) -> None:
    for file in directory.glob("journal-*"):
        file.write_bytes(file.read_bytes().replace(entry.raw, b"?"))


@pytest.mark.parametrize("piece_bytes", [1, 4_000, 1 << 20])
async def test_from_every_place_all_that_follows_comes_in_order(
    tmp_path: Path, entries: list[JournalRecord], monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    monkeypatch.setattr(live_buffer, "CHUNK_BYTES", piece_bytes)
    records = Watched(tmp_path, 1, len(entries))
    reader = PageCache(records)

    for seq in range(len(entries)):
        wanted = [entry.raw for entry in entries[seq:]]
        assert await rest(reader, records.last_seq, seq, EVERYTHING) == wanted
        assert await rest(reader, records.last_seq, seq, EVICTIONS) == list(
            evictions(entries[seq:])
        )


async def test_clients_that_want_different_records_share_what_was_read(
    tmp_path: Path, entries: list[JournalRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_buffer, "CHUNK_BYTES", 4_000)  # who gets more ends within a page
    records = Watched(tmp_path, 1, len(entries) // 10 * 10)
    reader = PageCache(records)

    async with anyio.create_task_group() as clients:
        for wanted in (EVERYTHING, EVICTIONS, *(EventFilter(nodes=(f"n{n}",)) for n in range(20))):
            clients.start_soon(rest, reader, records.last_seq, 0, wanted)

    assert records.read_at == list(range(0, records.last_seq, 10))
    assert records.most_at_once == 1


async def test_only_so_many_pages_are_kept(
    tmp_path: Path, entries: list[JournalRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_cache, "MAX_PAGES", 3)
    records = Watched(tmp_path, 1, len(entries))
    reader = PageCache(records)
    for seq in (0, 10, 20, 30):
        await reader.chunk(seq, EVERYTHING, NdjsonFraming())
    records.read_at.clear()

    for seq in (39, 25, 11, 0):
        await reader.chunk(seq, EVERYTHING, NdjsonFraming())

    assert records.read_at == [0]


async def test_a_page_that_is_not_whole_yet_is_not_kept(
    tmp_path: Path, entries: list[JournalRecord]
) -> None:
    records = Watched(tmp_path, 1, 15)
    reader = PageCache(records)

    assert (await reader.chunk(12, EVERYTHING, NdjsonFraming())).seq == 15
    records.publish(entries[15:18])
    assert (await reader.chunk(12, EVERYTHING, NdjsonFraming())).seq == 18


@pytest.mark.parametrize("oldest", [1, 11, 14, 20, 21, 33])
async def test_a_client_before_what_is_left_continues_though_its_page_began_earlier(
    tmp_path: Path, entries: list[JournalRecord], oldest: int
) -> None:
    records = Watched(tmp_path, oldest, len(entries))

    for seq in range(oldest - 1, oldest + 12):
        assert await everything(records, seq) == [entry.raw for entry in entries[seq:]]


async def test_a_position_whose_next_record_is_gone_is_reported(
    tmp_path: Path, entries: list[JournalRecord]
) -> None:
    reader = PageCache(Watched(tmp_path, 33, len(entries)))

    for seq in (0, 29, 30, 31):
        with pytest.raises(RecordsExpired, match=f"record {seq + 1} was removed"):
            await reader.chunk(seq, EVERYTHING, NdjsonFraming())
    with pytest.raises(RecordsExpired, match="another journal"):
        await reader.chunk(len(entries) + 1, EVERYTHING, NdjsonFraming())


async def test_around_a_record_that_cannot_be_read_the_others_come(
    tmp_path: Path, entries: list[JournalRecord]
) -> None:
    damage(tmp_path, entries[24])
    reader = PageCache(Watched(tmp_path, 1, len(entries)))

    assert (await reader.chunk(21, EVERYTHING, NdjsonFraming())).seq == 24
    with pytest.raises(RecordsExpired, match="record 25 cannot be read") as gone:
        await reader.chunk(24, EVERYTHING, NdjsonFraming())
    assert gone.value.oldest == 26
    assert await rest(reader, len(entries), 25, EVERYTHING) == [e.raw for e in entries[25:]]


async def test_a_client_behind_a_record_that_cannot_be_read_is_not_sent_back(
    tmp_path: Path, entries: list[JournalRecord]
) -> None:
    damage(tmp_path, entries[20])

    assert await everything(Watched(tmp_path, 1, len(entries)), 23) == [
        entry.raw for entry in entries[23:]
    ]


async def test_a_disk_that_fails_is_reported_and_tried_anew(
    tmp_path: Path, entries: list[JournalRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = PageCache(Watched(tmp_path, 1, len(entries)))
    with monkeypatch.context() as patch:

        async def fails(*_: object) -> list[JournalRecord]:
            raise OSError(5, "Input/output error")

        patch.setattr(LiveTail, "read_after", fails)
        with pytest.raises(OSError, match="Input/output error"):
            await reader.chunk(0, EVERYTHING, NdjsonFraming())

    assert (await reader.chunk(0, EVERYTHING, NdjsonFraming())).seq == 10
