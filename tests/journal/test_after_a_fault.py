"""What stands in the files behind a fault of the disk, or a stop in the midst of one."""

import errno
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reactive_desched.api import event as api
from reactive_desched.errors import JournalUnavailable
from reactive_desched.journal.events import read_events
from reactive_desched.journal.log import Rotation, SegmentWriter
from reactive_desched.journal.opened import JournalConfig, open_directory
from reactive_desched.journal.records import AnyEvent, encode
from reactive_desched.journal.recovery import recover
from reactive_desched.journal.signing.checkpointer import CheckpointContext
from tests.support.journals import some_events

pytestmark = pytest.mark.anyio

FULL = OSError(errno.ENOSPC, "No space left on device")
AN_HOUR_S = 3600.0

TroubledDisk = Any  # of this folder's conftest
Running = Any  # as above


def write(log: SegmentWriter, *events: AnyEvent) -> int:
    return log.commit([encode(event) for event in events], lambda _: CheckpointContext()).first_seq


def checkpoints(directory: Path) -> list[dict[str, Any]]:
    found = (one.data for one in read_events(directory) if one.type == api.CHECKPOINT)
    return [msgspec.to_builtins(each) for each in found]


class TestLog:
    @pytest.fixture
    def now(self, clock: Callable[[], datetime]) -> list[datetime]:
        """Return the time of day, which a test may move."""
        return [clock()]

    @pytest.fixture
    def log(self, tmp_path: Path, disk: TroubledDisk, now: list[datetime]) -> SegmentWriter:
        making = JournalConfig(Rotation(1 << 24, AN_HOUR_S), every_records=1_000, every_s=1e6)
        return open_directory(tmp_path, disk, making, lambda: now[0]).writer

    def test_what_a_failed_write_left_is_cut_off_before_the_next(
        self, tmp_path: Path, disk: TroubledDisk, log: SegmentWriter
    ) -> None:
        first, second = some_events(2)
        disk.fault, disk.written_before_fault = FULL, 300
        with pytest.raises(OSError, match="No space"):
            write(log, first)

        disk.fault = None
        write(log, second)

        found = recover(tmp_path)
        assert (found.damaged_lines, found.torn_bytes) == (0, 0)
        assert found.next_seq == log.last_seq + 1

    def test_behind_a_rotation_that_failed_the_old_file_gets_nothing_more(
        self, tmp_path: Path, disk: TroubledDisk, log: SegmentWriter, now: list[datetime]
    ) -> None:
        """Else the empty file it left would be taken for the newest one after a crash."""
        events = some_events(8)
        write(log, *events[:2])
        now[0] += timedelta(hours=2)
        disk.fault = FULL
        with pytest.raises(OSError, match="No space"):
            write(log, events[2])

        now[0] -= timedelta(hours=1, minutes=30)  # the clock is set back: the old file is young
        disk.fault = None
        log.check_space_and_repair()
        write(log, *events[3:])

        assert recover(tmp_path).next_seq == log.last_seq + 1


async def test_a_stop_amid_a_fault_asks_the_disk_once_more_and_claims_nothing(
    tmp_path: Path,
    running: Running,
    disk: TroubledDisk,
    intent: Callable[[str], AnyEvent],
    finding: Callable[[str], AnyEvent],
) -> None:
    async with running() as journal:
        await journal.append(intent("a"))
        disk.fault, disk.written_before_fault = FULL, 200
        for key in "bcd":
            journal.append_nowait(finding(key))
        with pytest.raises(JournalUnavailable, match="No space"):
            await journal.append(intent("e"))
        asked = len(disk.appends)
        await journal.finish()
        claimed = journal.tail.last_seq

    assert len(disk.appends) <= asked + 1  # and not as fast as it can
    assert recover(tmp_path).next_seq == claimed + 1


async def test_a_checkpoint_counts_intents_that_reach_the_disk_with_it(
    tmp_path: Path,
    running: Running,
    intent: Callable[[str], AnyEvent],
    outcome: Callable[[str], AnyEvent],
) -> None:
    async with running(every_records=1) as journal:
        seq = await journal.append(intent("a"))
        await journal.append(outcome("a"))

    assert [one.get("oldestOpen") for one in checkpoints(tmp_path)] == [None, seq, None]


async def test_what_was_left_out_is_counted_by_one_checkpoint_alone(
    tmp_path: Path, running: Running, finding: Callable[[str], AnyEvent]
) -> None:
    """A file's heading and the checkpoint at its end may both be due in one write."""
    left_out = 0
    async with running(max_segment_bytes=2048, every_records=1) as journal:
        for key in "abcdefgh":
            journal.drop()
            left_out += 1
            await journal.append(finding(key))

    told = [one.get("unrecorded", 0) for one in checkpoints(tmp_path)]
    assert sum(told) == left_out
