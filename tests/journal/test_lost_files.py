"""What becomes of a journal whose files are taken away while it is written, or damaged before."""

import gzip
import os
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from reactive_desched.errors import JournalError, JournalUnavailable
from reactive_desched.journal.disk import Disk
from reactive_desched.journal.journal import open_journal
from reactive_desched.journal.lock import DirectoryLock
from reactive_desched.journal.log import Rotation, SegmentWriter
from reactive_desched.journal.opened import JournalConfig, OpenedJournal, open_directory
from reactive_desched.journal.records import AnyEvent, encode
from reactive_desched.journal.recovery import recover
from reactive_desched.journal.segments import list_segments
from reactive_desched.journal.signing.checkpointer import CheckpointContext
from tests.support.golden import Golden
from tests.support.journals import some_events, write_journal
from tests.support.manual_clock import wait_until

pytestmark = pytest.mark.anyio

MakeIntent = Callable[[str], AnyEvent]


@pytest.fixture
def opened(tmp_path: Path, clock: Callable[[], datetime]) -> OpenedJournal:
    making = JournalConfig(Rotation(1 << 20, 1e9), every_records=1000, every_s=1e6)
    return open_directory(tmp_path / "journal", Disk(), making, clock)


def write(log: SegmentWriter, event: AnyEvent) -> int:
    return log.commit([encode(event)], lambda _: CheckpointContext()).first_seq


def test_nothing_counts_as_written_while_the_folder_is_away(
    tmp_path: Path, opened: OpenedJournal, intent: MakeIntent
) -> None:
    assert write(opened.writer, intent("a")) == 2
    opened.directory.rename(tmp_path / "away")
    with pytest.raises(FileNotFoundError):
        write(opened.writer, intent("b"))
    with pytest.raises(FileNotFoundError):
        opened.writer.check_space_and_repair()

    (tmp_path / "away").rename(opened.directory)
    opened.writer.check_space_and_repair()

    assert write(opened.writer, intent("b")) == 3
    assert recover(opened.directory).damaged_lines == 0


def test_a_file_put_in_the_place_of_ours_is_not_written_to(
    opened: OpenedJournal, intent: MakeIntent
) -> None:
    [file] = list_segments(opened.directory)
    file.path.rename(file.path.with_suffix(".kept"))
    file.path.touch()

    with pytest.raises(OSError, match="another file"):
        write(opened.writer, intent("a"))
    with pytest.raises(OSError, match="shorter"):
        opened.writer.check_space_and_repair()
    with pytest.raises(OSError, match="shorter"):
        write(opened.writer, intent("a"))

    assert file.path.read_bytes() == b""


async def test_a_journal_whose_file_is_gone_is_unfit_and_can_still_be_closed(
    tmp_path: Path, running: Callable[..., object], intent: MakeIntent
) -> None:
    async with running() as journal:  # type: ignore[attr-defined]  # a context manager
        await journal.append(intent("a"))
        for file in list_segments(tmp_path):
            file.path.unlink()
        with pytest.raises(JournalUnavailable):
            await journal.append(intent("b"))
        assert journal.reason


def test_removing_the_lock_file_admits_no_other_process(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    (tmp_path / "lock").unlink()
    with pytest.raises(JournalError, match="in use"):
        DirectoryLock(tmp_path)
    lock.close()

    DirectoryLock(tmp_path).close()


def damaged(folder: Path, index: int) -> Path:
    path = list_segments(folder)[index].path
    os.truncate(path, path.stat().st_size // 2)
    return path


def test_a_damaged_compressed_file_is_named_and_stepped_over(tmp_path: Path) -> None:
    write_journal(tmp_path, some_events(60), per_segment=20, compress=True)
    last = list_segments(tmp_path)[-1].path
    last.write_bytes(b"x" + last.read_bytes()[1:])  # its heading says no more how far to read
    path = damaged(tmp_path, -2)

    found = recover(tmp_path)

    assert any(str(path) in one for one in found.damage_locations)


@pytest.mark.parametrize(
    "raw",
    [b"no gzip", gzip.compress(b"x" * 999, mtime=0)[:-4]],
    ids=["not compressed", "cut short"],
)
def test_when_the_last_link_is_in_a_damaged_file_the_remedy_is_reported(
    tmp_path: Path, raw: bytes, golden: Golden
) -> None:
    write_journal(tmp_path, some_events(60), per_segment=20, compress=True)
    os.truncate(list_segments(tmp_path)[-1].path, 0)
    path = list_segments(tmp_path)[-2].path
    path.write_bytes(raw)

    with pytest.raises(JournalError) as told:
        recover(tmp_path)

    assert golden() in str(told.value)
    assert str(path) in str(told.value)


@pytest.mark.parametrize(
    ("is_made_again", "advice"),
    [(True, "restart this process, which begins another journal"), (False, "the folder is gone")],
    ids=["made again", "gone"],
)
async def test_a_folder_that_was_removed_is_called_so_with_what_to_do(
    tmp_path: Path,
    clock: Callable[[], datetime],
    intent: MakeIntent,
    *,
    is_made_again: bool,
    advice: str,
) -> None:
    folder, making = tmp_path / "journal", JournalConfig(Rotation(1 << 20, 1e9))
    async with open_journal(folder, making, clock=clock) as journal:
        await journal.append(intent("a"))
        shutil.rmtree(folder)
        if is_made_again:
            folder.mkdir()
        with pytest.raises(JournalUnavailable):
            await journal.append(intent("b"))
        await wait_until(lambda: advice in journal.reason)

    async with open_journal(folder, making, clock=clock) as journal:
        assert await journal.append(intent("c")) == 2
