"""What clients near the end get: looked at once for all, each in its turn."""

from pathlib import Path

import anyio
import anyio.abc
import anyio.lowlevel
import pytest

from reactive_desched.journal.records import JournalRecord
from reactive_desched.journal.summary import EventFilter, EventSummary
from reactive_desched.journal.tail import LiveTail
from reactive_desched.web import live_buffer as module
from reactive_desched.web.framing import NdjsonFraming, SseFraming
from reactive_desched.web.live_buffer import Chunk, LiveBuffer, StreamRecord, make_chunk
from tests.support.journals import SOURCE, some_events, write_journal

pytestmark = pytest.mark.anyio

EVERYTHING = EventFilter()


@pytest.fixture
def entries(tmp_path: Path) -> list[JournalRecord]:
    return write_journal(tmp_path, some_events(60))


def lines(entries: list[JournalRecord]) -> bytes:
    return b"".join(entry.raw + b"\n" for entry in entries)


async def following(
    latest: LiveBuffer, tail: LiveTail, new: list[JournalRecord], group: anyio.abc.TaskGroup
) -> None:
    """Have it take in what has just become durable."""
    latest.add_client()
    group.start_soon(latest.run)
    tail.publish(new)
    await latest.wait_for_records(new[0].seq - 1)


def test_what_an_event_goes_by_is_found_out_once_however_many_filters_ask(
    entries: list[JournalRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    found_out: list[tuple[str, str]] = []
    names = EventSummary.field_values

    def finding_out(event: EventSummary, field: str) -> object:
        found_out.append((event.sequence, field))
        return names(event, field)

    monkeypatch.setattr(EventSummary, "field_values", finding_out)
    records = list(map(StreamRecord, entries))
    for number in range(20):
        make_chunk(records, EventFilter(nodes=("n1", f"own-{number}")), NdjsonFraming(), 0)
        make_chunk(
            records, EventFilter(types=("eviction",), pods=(f"own-{number}",)), NdjsonFraming(), 0
        )

    fields = ("nodes", "types", "pods")
    assert len(found_out) == len(set(found_out))
    assert {field for _, field in found_out} == set(fields)
    assert len(found_out) <= len(fields) * len(entries)


def test_a_damaged_record_is_for_clients_without_a_filter() -> None:
    record = StreamRecord(JournalRecord(7, b'{"id":'))

    assert make_chunk([record], EVERYTHING, NdjsonFraming(), 6) == Chunk(b'{"id":\n', 1, 7)
    sse = make_chunk([record], EVERYTHING, SseFraming("0123"), 6)
    assert b"event: unreadable\n" in sse.data
    for some in (
        EventFilter(types=("eviction",)),
        EventFilter(pods=("",)),
        EventFilter(outcomes=("",)),
    ):
        assert make_chunk([record], some, NdjsonFraming(), 6) == Chunk(b"", 0, 7)


def test_a_piece_ends_with_the_record_that_fills_it(
    entries: list[JournalRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK_BYTES", len(lines(entries[:3])))

    assert make_chunk(map(StreamRecord, entries), EVERYTHING, NdjsonFraming(), 0) == Chunk(
        lines(entries[:3]), 3, 3
    )


async def test_a_client_that_is_behind_gets_what_follows_its_position(
    tmp_path: Path, entries: list[JournalRecord]
) -> None:
    tail = LiveTail(tmp_path, SOURCE, 1, 20)
    latest = LiveBuffer(tail)
    async with anyio.create_task_group() as group:
        await following(latest, tail, entries[20:50], group)

        assert await latest.chunk(20, EVERYTHING, NdjsonFraming()) == Chunk(
            lines(entries[20:50]), 30, 50
        )
        assert await latest.chunk(47, EVERYTHING, NdjsonFraming()) == Chunk(
            lines(entries[47:50]), 3, 50
        )
        assert await latest.chunk(50, EVERYTHING, NdjsonFraming()) == Chunk(b"", 0, 50)
        assert await latest.chunk(19, EVERYTHING, NdjsonFraming()) is None
        group.cancel_scope.cancel()


async def test_clients_with_the_same_filter_share_a_piece(
    tmp_path: Path, entries: list[JournalRecord]
) -> None:
    tail = LiveTail(tmp_path, SOURCE, 1, 20)
    latest = LiveBuffer(tail)
    async with anyio.create_task_group() as group:
        await following(latest, tail, entries[20:50], group)

        one = await latest.chunk(20, EventFilter(nodes=("n1",)), NdjsonFraming())
        same = await latest.chunk(20, EventFilter(nodes=("n1",)), NdjsonFraming())
        other = await latest.chunk(20, EventFilter(nodes=("n2",)), NdjsonFraming())
        group.cancel_scope.cancel()

    assert one is same
    assert one != other


async def test_however_many_are_behind_whatever_else_is_due_comes_in_between(
    tmp_path: Path, entries: list[JournalRecord]
) -> None:
    tail = LiveTail(tmp_path, SOURCE, 1, 20)
    latest = LiveBuffer(tail)
    in_a_round = [0]

    async def client(number: int) -> None:
        wanted = EventFilter(nodes=(f"own-{number}",))
        while True:
            await latest.chunk(20, wanted, NdjsonFraming())
            in_a_round[-1] += 1

    async with anyio.create_task_group() as group:
        await following(latest, tail, entries[20:50], group)
        for number in range(10 * module.MAX_CONCURRENT_CHUNKS):
            group.start_soon(client, number)
        for _ in range(100):
            await anyio.lowlevel.checkpoint()
            in_a_round.append(0)
        group.cancel_scope.cancel()

    assert max(in_a_round) == module.MAX_CONCURRENT_CHUNKS
