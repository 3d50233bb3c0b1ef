import sqlite3
import threading
from pathlib import Path

import anyio
import pytest

from reactive_desched.api.sink import Sink
from reactive_desched.audit import index_sink
from reactive_desched.audit.index import LINES_PER_PAUSE, AuditIndex, remove_index
from reactive_desched.audit.index_sink import (
    BATCH_LINES,
    SMALL_BATCH_DELAY_S,
    SMALL_BATCH_RECORDS,
    IndexSink,
)
from reactive_desched.audit.lookup import RecordQuery, find_newest
from reactive_desched.audit.schema import INDEX_FILE
from reactive_desched.errors import SinkUnavailable
from reactive_desched.journal.records import JournalRecord
from reactive_desched.journal.segments import list_segments
from tests.support.golden import Golden
from tests.support.journals import some_events, write_journal

pytestmark = pytest.mark.anyio


def reaches(folder: Path) -> int:
    """How far the index has come, as another process sees it."""
    return AuditIndex.open_read_only(folder, folder / INDEX_FILE).cursor.seq


async def test_what_was_delivered_is_in_the_index(tmp_path: Path) -> None:
    entries = write_journal(tmp_path, some_events(50))
    sink: Sink = IndexSink(tmp_path)

    assert await sink.deliver(entries[:10]) == 10
    assert reaches(tmp_path) >= 10

    await sink.close()


async def test_an_index_that_is_behind_by_much_catches_up_in_small_batches(tmp_path: Path) -> None:
    entries = write_journal(tmp_path, some_events(2 * BATCH_LINES + 100), per_segment=10_000)
    sink = IndexSink(tmp_path)

    await sink.deliver(entries[-1:])

    assert reaches(tmp_path) == entries[-1].seq
    await sink.close()


async def test_one_step_never_takes_in_more_than_a_batch(tmp_path: Path) -> None:
    entries = write_journal(tmp_path, some_events(2 * BATCH_LINES), per_segment=10_000)
    sink = IndexSink(tmp_path)

    assert not await sink._index_batch(entries[-1].seq)

    assert reaches(tmp_path) == BATCH_LINES
    await sink.close()


async def test_the_thread_gives_up_the_interpreters_lock_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = write_journal(tmp_path, some_events(3 * LINES_PER_PAUSE), per_segment=10_000)
    pauses: list[str] = []
    monkeypatch.setattr(
        index_sink, "_let_event_loop_run", lambda: pauses.append(threading.current_thread().name)
    )
    sink = IndexSink(tmp_path)

    await sink.deliver(entries)

    assert pauses == ["index"] * 3
    await sink.close()


async def test_after_few_records_further_ones_are_let_gather(tmp_path: Path) -> None:
    entries = write_journal(tmp_path, some_events(50))
    sink = IndexSink(tmp_path)

    began = anyio.current_time()
    await sink.deliver(entries[:SMALL_BATCH_RECORDS])  # the delay begins within
    await sink.deliver(entries[:SMALL_BATCH_RECORDS])

    assert anyio.current_time() - began >= SMALL_BATCH_DELAY_S
    await sink.close()


async def test_a_record_that_is_in_no_file_is_waited_for(tmp_path: Path, golden: Golden) -> None:
    entries = write_journal(tmp_path, some_events(5))
    sink = IndexSink(tmp_path)

    with pytest.raises(SinkUnavailable) as caught:
        await sink.deliver([JournalRecord(900, entries[0].raw)])

    assert golden() in str(caught.value)

    await sink.close()


@pytest.mark.parametrize("how", ["removed", "damaged"])
async def test_an_index_lost_while_it_runs_is_made_anew(tmp_path: Path, how: str) -> None:
    entries = write_journal(tmp_path, some_events(600))
    sink = IndexSink(tmp_path)
    await sink.deliver(entries[:500])
    if how == "removed":
        remove_index(tmp_path / INDEX_FILE)
    else:
        await sink.close()
        raw = (tmp_path / INDEX_FILE).read_bytes()
        (tmp_path / INDEX_FILE).write_bytes(raw[:100] + b"\x99" * (len(raw) - 100))

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
    monkeypatch.setattr("reactive_desched.audit.schema.BUSY_TIMEOUT_S", 0.01)
    entries = write_journal(tmp_path, some_events(5))
    sink = IndexSink(tmp_path)
    await sink.deliver(entries[:1])
    await sink.close()
    other = sqlite3.connect(tmp_path / INDEX_FILE, isolation_level=None)
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

    sink._discard_index(sqlite3.OperationalError("database is locked"))
    assert is_there(tmp_path)

    sink._discard_index(sqlite3.DatabaseError("database disk image is malformed"))
    assert not is_there(tmp_path)


def is_there(folder: Path) -> bool:
    return (folder / INDEX_FILE).exists()


async def test_records_that_no_follower_has_read_may_be_taken_back(tmp_path: Path) -> None:
    entries = write_journal(tmp_path, some_events(30), per_segment=1000)
    [(_, path)] = list_segments(tmp_path)
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

    kept, fresh = AuditIndex.open(tmp_path, tmp_path / INDEX_FILE), AuditIndex.temporary(tmp_path)
    fresh.index_all()
    assert find_newest(kept, RecordQuery()) == find_newest(fresh, RecordQuery())
    assert kept.segments == fresh.segments
    kept.close()
    fresh.close()


async def test_a_record_that_was_removed_before_it_was_indexed_blocks_nothing(
    tmp_path: Path,
) -> None:
    entries = write_journal(tmp_path, some_events(40), per_segment=10)
    first, second, *_ = list_segments(tmp_path)
    sink = IndexSink(tmp_path)
    await sink.deliver(entries[:3])
    first.path.unlink()
    second.path.unlink()

    assert await sink.deliver(entries[3:8]) == 5
    assert await sink.deliver(entries[8:]) == len(entries) - 8
    await sink.close()

    kept, fresh = AuditIndex.open(tmp_path, tmp_path / INDEX_FILE), AuditIndex.temporary(tmp_path)
    fresh.index_all()
    assert kept.index_all() == 0
    there = [spot[1:] for spot in find_newest(fresh, RecordQuery())]
    assert [spot[1:] for spot in find_newest(kept, RecordQuery())] == there
    kept.close()
    fresh.close()
