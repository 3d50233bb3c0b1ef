import sqlite3
from pathlib import Path

import anyio
import pytest

from reactive_desched.audit.index import Index, remove
from reactive_desched.audit.index_sink import FEW, GATHER_S, MOST, IndexSink
from reactive_desched.audit.lookup import Wanted, spots
from reactive_desched.audit.schema import NAME
from reactive_desched.errors import SinkUnavailable
from reactive_desched.journal.records import Entry
from reactive_desched.journal.segments import segments
from reactive_desched.sinks.sink import Sink
from tests.support.journals import some_events, write_journal

pytestmark = pytest.mark.anyio


def reaches(folder: Path) -> int:
    """How far the index has come, as another process sees it."""
    return Index.open_to_read(folder, folder / NAME).place.seq


async def test_what_was_delivered_is_in_the_index(tmp_path: Path) -> None:
    entries = write_journal(tmp_path, some_events(50))
    sink: Sink = IndexSink(tmp_path)

    assert await sink.deliver(entries[:10]) == 10
    assert reaches(tmp_path) >= 10

    await sink.close()


async def test_an_index_that_is_behind_by_much_catches_up_in_small_batches(tmp_path: Path) -> None:
    entries = write_journal(tmp_path, some_events(2 * MOST + 100), per_segment=10_000)
    sink = IndexSink(tmp_path)

    await sink.deliver(entries[-1:])

    assert reaches(tmp_path) == entries[-1].seq
    await sink.close()


async def test_one_step_never_takes_in_more_than_a_batch(tmp_path: Path) -> None:
    entries = write_journal(tmp_path, some_events(2 * MOST), per_segment=10_000)
    sink = IndexSink(tmp_path)

    assert not await sink._step(entries[-1].seq)

    assert reaches(tmp_path) == MOST
    await sink.close()


async def test_after_few_records_further_ones_are_let_gather(tmp_path: Path) -> None:
    entries = write_journal(tmp_path, some_events(50))
    sink = IndexSink(tmp_path)

    await sink.deliver(entries[:FEW])
    done_at = anyio.current_time()
    await sink.deliver(entries[:FEW])

    assert anyio.current_time() - done_at >= GATHER_S
    await sink.close()


async def test_a_record_that_is_in_no_file_is_waited_for(tmp_path: Path) -> None:
    entries = write_journal(tmp_path, some_events(5))
    sink = IndexSink(tmp_path)

    with pytest.raises(SinkUnavailable, match="record 900 is not in the files"):
        await sink.deliver([Entry(900, entries[0].raw)])

    await sink.close()


@pytest.mark.parametrize("how", ["removed", "damaged"])
async def test_an_index_lost_while_it_runs_is_made_anew(tmp_path: Path, how: str) -> None:
    entries = write_journal(tmp_path, some_events(600))
    sink = IndexSink(tmp_path)
    await sink.deliver(entries[:500])
    if how == "removed":
        remove(tmp_path / NAME)
    else:
        await sink.close()
        raw = (tmp_path / NAME).read_bytes()
        (tmp_path / NAME).write_bytes(raw[:100] + b"\x99" * (len(raw) - 100))

    for _ in range(2):
        try:
            await sink.deliver(entries[500:])
        except SinkUnavailable:
            continue

    assert reaches(tmp_path) == entries[-1].seq
    await sink.close()


async def test_while_another_holds_the_pen_delivery_is_tried_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reactive_desched.audit.schema.BUSY_S", 0.01)
    entries = write_journal(tmp_path, some_events(5))
    sink = IndexSink(tmp_path)
    await sink.deliver(entries[:1])
    await sink.close()
    other = sqlite3.connect(tmp_path / NAME, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(SinkUnavailable, match="locked"):
        await sink.deliver(entries)
    other.execute("ROLLBACK")
    other.close()

    assert await sink.deliver(entries) == len(entries)
    await sink.close()


async def test_only_an_index_that_is_damaged_is_removed(tmp_path: Path) -> None:
    entries = write_journal(tmp_path, some_events(5))
    sink = IndexSink(tmp_path)
    await sink.deliver(entries)

    sink._give_up(sqlite3.OperationalError("database is locked"))
    assert is_there(tmp_path)

    sink._give_up(sqlite3.DatabaseError("database disk image is malformed"))
    assert not is_there(tmp_path)


def is_there(folder: Path) -> bool:
    return (folder / NAME).exists()


async def test_what_nobody_was_told_of_yet_may_be_taken_back(tmp_path: Path) -> None:
    entries = write_journal(tmp_path, some_events(30), per_segment=1000)
    [(_, path)] = segments(tmp_path)
    lines = [entry.raw + b"\n" for entry in entries]
    failing = [line.replace(b'"name":"', b'"name":"never-') for line in lines[20:23]]
    assert failing != lines[20:23]
    sink = IndexSink(tmp_path)

    path.write_bytes(b"".join([*lines[:20], *failing]))
    await sink.deliver(entries[:20])
    assert reaches(tmp_path) == 20
    path.write_bytes(b"".join(lines))
    await sink.deliver(entries[20:])
    await sink.close()

    kept, fresh = Index.open(tmp_path, tmp_path / NAME), Index.private(tmp_path)
    fresh.finish()
    assert spots(kept, Wanted()) == spots(fresh, Wanted())
    assert kept.segments == fresh.segments
    kept.close()
    fresh.close()


async def test_a_record_that_was_removed_before_it_was_taken_in_holds_up_nobody(
    tmp_path: Path,
) -> None:
    entries = write_journal(tmp_path, some_events(40), per_segment=10)
    first, second, *_ = segments(tmp_path)
    sink = IndexSink(tmp_path)
    await sink.deliver(entries[:3])
    first.path.unlink()
    second.path.unlink()

    assert await sink.deliver(entries[3:8]) == 5
    assert await sink.deliver(entries[8:]) == len(entries) - 8
    await sink.close()

    kept, fresh = Index.open(tmp_path, tmp_path / NAME), Index.private(tmp_path)
    fresh.finish()
    assert kept.finish() == 0
    there = [spot[1:] for spot in spots(fresh, Wanted())]
    assert [spot[1:] for spot in spots(kept, Wanted())] == there
    kept.close()
    fresh.close()
