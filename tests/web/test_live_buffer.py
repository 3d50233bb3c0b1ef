"""What clients near the end get: looked at once for all, each in its turn."""

from pathlib import Path

import anyio
import anyio.abc
import anyio.lowlevel
import pytest

from reactive_desched.journal.records import Entry
from reactive_desched.journal.summary import Filter, Summary
from reactive_desched.journal.tail import Tail
from reactive_desched.web import live_buffer as module
from reactive_desched.web.framing import Lines, ServerSentEvents
from reactive_desched.web.live_buffer import Latest, Piece, Record, piece
from tests.support.journals import SOURCE, some_events, write_journal

pytestmark = pytest.mark.anyio

EVERYTHING = Filter()


@pytest.fixture
def entries(tmp_path: Path) -> list[Entry]:
    return write_journal(tmp_path, some_events(60))


def lines(entries: list[Entry]) -> bytes:
    return b"".join(entry.raw + b"\n" for entry in entries)


async def following(
    latest: Latest, tail: Tail, new: list[Entry], group: anyio.abc.TaskGroup
) -> None:
    """Have it take in what has just become durable."""
    latest.join()
    group.start_soon(latest.run)
    tail.published(new)
    await latest.news(new[0].seq - 1)


def test_what_an_event_goes_by_is_found_out_once_however_many_filters_ask(
    entries: list[Entry], monkeypatch: pytest.MonkeyPatch
) -> None:
    found_out: list[tuple[str, str]] = []
    names = Summary.names

    def finding_out(event: Summary, field: str) -> object:
        found_out.append((event.sequence, field))
        return names(event, field)

    monkeypatch.setattr(Summary, "names", finding_out)
    records = list(map(Record, entries))
    for number in range(20):
        piece(records, Filter(nodes=("n1", f"own-{number}")), Lines(), 0)
        piece(records, Filter(types=("eviction",), pods=(f"own-{number}",)), Lines(), 0)

    fields = ("nodes", "types", "pods")
    assert len(found_out) == len(set(found_out))
    assert {field for _, field in found_out} == set(fields)
    assert len(found_out) <= len(fields) * len(entries)


def test_a_damaged_record_is_for_whoever_wants_everything() -> None:
    record = Record(Entry(7, b'{"id":'))

    assert piece([record], EVERYTHING, Lines(), 6) == Piece(b'{"id":\n', 1, 7)
    sse = piece([record], EVERYTHING, ServerSentEvents("0123"), 6)
    assert b"event: unreadable\n" in sse.data
    for some in (Filter(types=("eviction",)), Filter(pods=("",)), Filter(outcomes=("",))):
        assert piece([record], some, Lines(), 6) == Piece(b"", 0, 7)


def test_a_piece_ends_with_the_record_that_fills_it(
    entries: list[Entry], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PIECE_BYTES", len(lines(entries[:3])))

    assert piece(map(Record, entries), EVERYTHING, Lines(), 0) == Piece(lines(entries[:3]), 3, 3)


async def test_whoever_is_behind_gets_what_follows_its_place(
    tmp_path: Path, entries: list[Entry]
) -> None:
    tail = Tail(tmp_path, SOURCE, 1, 20)
    latest = Latest(tail)
    async with anyio.create_task_group() as group:
        await following(latest, tail, entries[20:50], group)

        assert await latest.piece(20, EVERYTHING, Lines()) == Piece(lines(entries[20:50]), 30, 50)
        assert await latest.piece(47, EVERYTHING, Lines()) == Piece(lines(entries[47:50]), 3, 50)
        assert await latest.piece(50, EVERYTHING, Lines()) == Piece(b"", 0, 50)
        assert await latest.piece(19, EVERYTHING, Lines()) is None
        group.cancel_scope.cancel()


async def test_clients_with_the_same_filter_share_a_piece(
    tmp_path: Path, entries: list[Entry]
) -> None:
    tail = Tail(tmp_path, SOURCE, 1, 20)
    latest = Latest(tail)
    async with anyio.create_task_group() as group:
        await following(latest, tail, entries[20:50], group)

        one = await latest.piece(20, Filter(nodes=("n1",)), Lines())
        same = await latest.piece(20, Filter(nodes=("n1",)), Lines())
        other = await latest.piece(20, Filter(nodes=("n2",)), Lines())
        group.cancel_scope.cancel()

    assert one is same
    assert one != other


async def test_however_many_are_behind_whatever_else_is_due_comes_in_between(
    tmp_path: Path, entries: list[Entry]
) -> None:
    tail = Tail(tmp_path, SOURCE, 1, 20)
    latest = Latest(tail)
    in_a_round = [0]

    async def client(number: int) -> None:
        wanted = Filter(nodes=(f"own-{number}",))
        while True:
            await latest.piece(20, wanted, Lines())
            in_a_round[-1] += 1

    async with anyio.create_task_group() as group:
        await following(latest, tail, entries[20:50], group)
        for number in range(10 * module.TURNS):
            group.start_soon(client, number)
        for _ in range(100):
            await anyio.lowlevel.checkpoint()
            in_a_round.append(0)
        group.cancel_scope.cancel()

    assert max(in_a_round) == module.TURNS
