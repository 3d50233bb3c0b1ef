"""Age counts by the times of records, and a clock that is set wrong costs little history."""

import gzip
from pathlib import Path

import pytest

from reactive_desched.journal import records
from reactive_desched.journal.records import LineHeader
from reactive_desched.journal.segments import segment_at
from reactive_desched.journal.upkeep import retention_worker
from reactive_desched.policy.settings.recording import RetentionSettings
from tests.support.kept_journal import DAY_S, RetainedJournal, size_limits

pytestmark = pytest.mark.anyio

MONTH_S = 30 * DAY_S


@pytest.fixture
def writer(tmp_path: Path) -> RetainedJournal:
    """A journal of three closed segments, whose records are a day old."""
    return RetainedJournal(tmp_path, 3)


async def test_a_segment_goes_when_its_last_record_is_too_old(writer: RetainedJournal) -> None:
    worker = writer.retention_worker(RetentionSettings(max_age_s=2 * DAY_S))
    writer.pass_time(DAY_S)
    await worker.run_once()
    assert writer.first_seqs() == [1, 11, 21, 31]

    writer.pass_time(1)
    await worker.run_once()

    assert writer.first_seqs() == [11, 21, 31]


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])
@pytest.mark.parametrize(
    "torn", [b"", b'{"prev":"', b"damaged\n"], ids=["whole", "torn", "damaged"]
)
async def test_only_the_end_of_a_long_segment_is_parsed_for_its_age(
    writer: RetainedJournal, monkeypatch: pytest.MonkeyPatch, torn: bytes, *, compressed: bool
) -> None:
    oldest, parsed = segment_at(writer.folder, 1), list[bytes]()
    text = oldest.path.read_bytes() * 1000 + torn  # six MiB
    if compressed:
        oldest.path.unlink()
        oldest.compressed_path.write_bytes(gzip.compress(text, 1))
    else:
        oldest.path.write_bytes(text)

    def parse_header(line: bytes) -> LineHeader | None:
        parsed.append(line)
        return records.parse_header(line)

    monkeypatch.setattr(retention_worker, "parse_header", parse_header)
    worker = writer.retention_worker(RetentionSettings(max_age_s=2 * DAY_S))
    await worker.run_once()
    assert writer.first_seqs() == [1, 11, 21, 31]
    assert len(parsed) <= 3
    writer.pass_time(DAY_S + 1)
    await worker.run_once()

    assert writer.first_seqs() == [11, 21, 31]


async def test_a_clock_that_jumps_forward_removes_at_most_one_segment_a_round(
    writer: RetainedJournal,
) -> None:
    worker, left = writer.retention_worker(RetentionSettings(max_age_s=MONTH_S)), []
    await worker.run_once()
    writer.wall += 12 * MONTH_S
    for _ in range(4):
        await worker.run_once()
        left.append(writer.first_seqs())

    assert left == [[11, 21, 31], [21, 31], [31], [31]]


async def test_a_clock_that_is_set_right_again_removes_nothing_more(
    writer: RetainedJournal,
) -> None:
    worker = writer.retention_worker(RetentionSettings(max_age_s=MONTH_S))
    writer.wall += 12 * MONTH_S
    await worker.run_once()
    writer.wall -= 12 * MONTH_S
    await worker.run_once()

    assert writer.first_seqs() == [11, 21, 31]


async def test_sizes_bound_the_folder_whatever_the_clock_does(tmp_path: Path) -> None:
    writer = RetainedJournal(tmp_path, 3, kafka=12)
    worker = writer.retention_worker(size_limits(4, 4))
    writer.wall -= 12 * MONTH_S

    await worker.run_once()

    assert writer.first_seqs() == [31]
    assert writer.losses() == [("kafka", 13, 30)]


async def test_a_compressed_segment_is_as_old_as_its_records(writer: RetainedJournal) -> None:
    compressed = writer.retention_worker(RetentionSettings(max_age_s=MONTH_S), compress=True)
    await compressed.run_once()
    writer.pass_time(MONTH_S)

    await writer.retention_worker(RetentionSettings(max_age_s=MONTH_S)).run_once()

    assert writer.first_seqs() == [11, 21, 31]


@pytest.mark.parametrize("raw", [b"", b"{}\n", b"\xff\n", b"no record at all"])
async def test_a_segment_without_a_readable_record_is_not_too_old(
    writer: RetainedJournal, raw: bytes
) -> None:
    segment_at(writer.folder, 1).path.write_bytes(raw)
    writer.pass_time(12 * MONTH_S)

    await writer.retention_worker(RetentionSettings(max_age_s=MONTH_S)).run_once()

    assert writer.first_seqs() == [1, 11, 21, 31]
