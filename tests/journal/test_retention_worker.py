"""The journal's folder is kept within its bounds, and whoever loses a record by it is told."""

import gzip
import os
from pathlib import Path

import anyio
import pytest
import trio.testing

from reactive_desched.errors import JournalUnavailable
from reactive_desched.journal.segments import list_segments, read_records, segment_at
from reactive_desched.journal.upkeep import limits
from reactive_desched.journal.upkeep.limits import RetentionLimits
from reactive_desched.journal.upkeep.retention_worker import INTERVAL_S, RetentionWorker
from reactive_desched.policy.settings.recording import RetentionSettings
from tests.support.golden import Golden
from tests.support.kept_journal import DAY_S, NOW, RetainedJournal, size_limits
from tests.support.thread_time import time_beside_threads

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "trio", {"clock": trio.testing.MockClock()}


async def rounds(keeper: RetentionWorker, count: int) -> None:
    """Wait, in virtual time, until so many rounds are done in the threads."""
    while keeper.stats.rounds < count:  # noqa: ASYNC110 - the keeper tells nobody of its rounds
        await anyio.sleep(0.01)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "journal"
    made.mkdir()
    return made


async def test_closed_segments_are_compressed_with_the_same_text_and_age(folder: Path) -> None:
    writer = RetainedJournal(folder, 2)
    text = {first: segment_at(folder, first).path.read_bytes() for first in (1, 11)}

    keeper = writer.retention_worker(compress=True)
    await keeper.run_once()

    assert writer.file_names() == [
        "journal-00000000000000000001.jsonl.gz",
        "journal-00000000000000000011.jsonl.gz",
        "journal-00000000000000000021.jsonl",
    ]
    for one in list_segments(folder)[:2]:
        assert gzip.decompress(one.path.read_bytes()) == text[one.first_seq]
        assert one.path.stat().st_mtime == NOW - DAY_S
    assert keeper.stats.compressed == 2


async def test_without_compression_closed_segments_stay_as_they_are(folder: Path) -> None:
    writer = RetainedJournal(folder, 2)
    before = writer.file_names()

    await writer.retention_worker().run_once()

    assert writer.file_names() == before


async def test_it_looks_at_once_and_then_every_minute(folder: Path) -> None:
    writer = RetainedJournal(folder, 1)
    keeper = writer.retention_worker(compress=True)

    async with time_beside_threads(), anyio.create_task_group() as group:
        group.start_soon(keeper.run)
        await rounds(keeper, 1)
        first, begun = writer.file_names(), anyio.current_time()
        writer.roll()
        await rounds(keeper, 2)
        waited = anyio.current_time() - begun
        group.cancel_scope.cancel()

    assert [name for name in first if name.startswith("journal-")] == [
        "journal-00000000000000000001.jsonl.gz",
        "journal-00000000000000000011.jsonl",
    ]
    assert "journal-00000000000000000011.jsonl.gz" in writer.file_names()
    assert waited >= 59.0


async def test_it_looks_at_once_when_a_segment_is_begun(folder: Path) -> None:
    writer = RetainedJournal(folder, 1)
    keeper = writer.retention_worker(size_limits(4, 4))

    async with time_beside_threads(), anyio.create_task_group() as group:
        group.start_soon(keeper.run)
        await rounds(keeper, 1)
        begun = anyio.current_time()
        segment_at(folder, 11).path.write_bytes(b"x" * 9000)
        writer.roll()
        writer.segments.advance("a segment was begun")
        await rounds(keeper, 2)
        waited = anyio.current_time() - begun
        group.cancel_scope.cancel()

    assert waited < INTERVAL_S / 2
    assert writer.first_seqs() == [21]
    assert keeper.stats.hard_max_bytes == 4096


async def test_a_look_from_outside_shows_by_which_limits(folder: Path) -> None:
    retention = RetentionSettings(max_bytes=8192, max_age_s=60.0, hard_max_bytes=9216)
    keeper = RetainedJournal(folder, 1).retention_worker(retention, compress=True)

    async with time_beside_threads(), anyio.create_task_group() as group:
        group.start_soon(keeper.run)
        await rounds(keeper, 1)
        group.cancel_scope.cancel()

    assert limits.read(folder) == RetentionLimits(8192, 60.0, 9216, compress=True)


async def test_numbers_show_what_the_folder_holds(folder: Path) -> None:
    writer = RetainedJournal(folder, 4, kafka=15)
    size = segment_at(folder, 31).path.stat().st_size / 1024

    keeper = writer.retention_worker(size_limits(2 * size, 2 * size))
    await keeper.run_once()

    numbers = keeper.stats
    assert (numbers.segments, numbers.oldest_seq, numbers.removed) == (3, 21, 2)
    assert numbers.lost == {"kafka": 5}
    assert numbers.bytes == sum(one.path.stat().st_size for one in list_segments(folder))


async def test_what_compression_spares_is_not_removed(folder: Path) -> None:
    writer = RetainedJournal(folder, 4)
    size = segment_at(folder, 31).path.stat().st_size / 1024

    await writer.retention_worker(size_limits(3 * size), compress=True).run_once()

    assert writer.first_seqs() == [1, 11, 21, 31, 41]


async def test_old_segments_go_and_the_open_one_stays_however_large_and_old(folder: Path) -> None:
    writer = RetainedJournal(folder, 2)
    for one in list_segments(folder):
        os.utime(one.path, (NOW - 99 * DAY_S, NOW - 99 * DAY_S))
    segment_at(folder, 21).path.write_bytes(b"x" * 9000)

    await writer.retention_worker(size_limits(4, 4)).run_once()

    assert writer.first_seqs() == [21]


async def test_followers_learn_the_oldest_record_before_files_are_removed(folder: Path) -> None:
    writer = RetainedJournal(folder, 3, kafka=12)

    await writer.retention_worker(size_limits(4, 4)).run_once()

    assert writer.removing == [(11, [1, 11, 21, 31]), (31, [11, 21, 31])]


async def test_a_reader_continues_in_a_file_that_was_removed(folder: Path) -> None:
    writer = RetainedJournal(folder, 2)
    reading = read_records(list_segments(folder)[0])
    first = next(reading)

    await writer.retention_worker(size_limits(4, 4)).run_once()

    assert writer.first_seqs() == [21]
    assert [first.seq, *(entry.seq for entry in reading)] == list(range(1, 11))


async def test_an_open_intent_holds_its_segment_against_the_hard_cap(folder: Path) -> None:
    writer = RetainedJournal(folder, 3, kafka=0)
    writer.oldest_open_seq = 15

    await writer.retention_worker(size_limits(4, 4)).run_once()

    assert writer.first_seqs() == [11, 21, 31]
    assert writer.losses() == [("kafka", 1, 10)]


async def test_a_loss_is_recorded_before_the_files_go_and_only_once(
    folder: Path, golden: Golden
) -> None:
    writer = RetainedJournal(folder, 2, kafka=3, webhook=20)
    there: list[list[int]] = []

    async def lost(sink: str, first: int, last: int) -> None:
        there.append(writer.first_seqs())
        await writer.record_loss(sink, first, last)

    keeper = writer.retention_worker(size_limits(4, 4), record_loss=lost)
    await keeper.run_once()
    await keeper.run_once()

    assert there == [[1, 11, 21]]
    assert writer.losses() == [("kafka", 4, 20)]
    assert writer.first_seqs() == [21]
    logged = {"sink": "kafka", "first": 4, "last": 20}
    assert writer.log.warnings == [(golden(), logged)]


async def test_while_a_loss_cannot_be_recorded_only_files_that_no_sink_needs_are_removed(
    folder: Path,
) -> None:
    writer = RetainedJournal(folder, 3, kafka=12)
    writer.unavailable = True
    keeper = writer.retention_worker(size_limits(4, 4))

    await keeper.run_once()
    await keeper.run_once()
    kept = writer.first_seqs()
    writer.unavailable = False
    await keeper.run_once()

    assert kept == [11, 21, 31]
    assert keeper.stats.faults == {"remove: JournalUnavailable": 2}
    assert writer.losses() == [("kafka", 13, 30)]
    assert writer.first_seqs() == [31]


async def test_what_a_sink_reads_while_its_loss_cannot_be_recorded_is_no_loss(folder: Path) -> None:
    writer = RetainedJournal(folder, 2, kafka=3)
    writer.unavailable = True
    keeper = writer.retention_worker(size_limits(4, 4))
    await keeper.run_once()

    writer.unavailable = False
    writer.acked_seqs["kafka"] = 17
    await keeper.run_once()

    assert writer.losses() == [("kafka", 18, 20)]


async def test_a_loss_whose_write_failed_but_got_through_is_not_recorded_again(
    folder: Path,
) -> None:
    writer = RetainedJournal(folder, 2, kafka=3)

    async def stuck(sink: str, first: int, last: int) -> None:
        await writer.record_loss(sink, first, last)
        raise JournalUnavailable("the disk is stuck")

    await writer.retention_worker(size_limits(4, 4), record_loss=stuck).run_once()
    await writer.reopened(folder).retention_worker(size_limits(4, 4)).run_once()

    assert writer.losses() == [("kafka", 4, 20)]
    assert writer.first_seqs() == [21]


async def test_what_an_earlier_journal_in_the_same_folder_lost_is_forgotten(folder: Path) -> None:
    old = RetainedJournal(folder, 3, kafka=3)
    await old.retention_worker(size_limits(4, 4)).run_once()
    for one in list_segments(folder):
        one.path.unlink()

    writer = RetainedJournal(folder, 2, kafka=3)
    await writer.retention_worker(size_limits(4, 4)).run_once()

    assert writer.losses() == [("kafka", 4, 20)]
