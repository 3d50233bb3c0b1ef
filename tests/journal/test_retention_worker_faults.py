"""No crash and no fault of the disk costs the journal a record that nobody was told of."""

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
import trio.testing

from reactive_desched.journal.segments import list_segments, segment_at
from reactive_desched.journal.upkeep.compression import compress
from tests.support.golden import Golden
from tests.support.kept_journal import RetainedJournal, size_limits

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "trio", {"clock": trio.testing.MockClock()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "journal"
    made.mkdir()
    return made


class Crashes:
    """Copies of a folder as a crash would leave it, taken around each step that changes it."""

    def __init__(self, folder: Path, into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.copies: list[Path] = []
        self._folder = folder
        self._into = into
        self._monkeypatch = monkeypatch
        for owner, name in ((os, "fsync"), (os, "open"), (Path, "replace"), (Path, "unlink")):
            self._watch(owner, name)

    def taken(self) -> None:
        copy = self._into / str(len(self.copies))
        with suppress(FileNotFoundError, shutil.Error):
            shutil.copytree(self._folder, copy)
        self.copies.append(copy)

    def _watch(self, owner: Any, name: str) -> None:
        original = getattr(owner, name)
        busy = False

        def watched(*args: Any, **kwargs: Any) -> Any:
            nonlocal busy
            if busy:
                return original(*args, **kwargs)
            busy = True
            try:
                self.taken()
                return original(*args, **kwargs)
            finally:
                self.taken()
                busy = False

        self._monkeypatch.setattr(owner, name, watched)


def told(writer: RetainedJournal, doing: str) -> list[str]:
    """Return which faults were logged of doing this."""
    return [values["error"] for _, values in writer.log.warnings if values["what"] == doing]


def text_of(folder: Path) -> dict[int, bytes]:
    """Return what readers see of each segment."""
    found = {}
    for one in list_segments(folder):
        with one.open() as file:
            found[one.first_seq] = file.read()
    return found


async def test_a_crash_at_any_step_of_a_compression_leaves_a_whole_journal(
    folder: Path, tmp_path: Path
) -> None:
    writer = RetainedJournal(folder, 1)
    whole = text_of(folder)
    with pytest.MonkeyPatch.context() as patch:
        crashes = Crashes(folder, tmp_path, patch)
        await writer.retention_worker(compress=True).run_once()

    shapes = {
        tuple(sorted(path.name[33:] for path in copy.glob("journal-*"))) for copy in crashes.copies
    }
    assert (".gz", ".jsonl") not in shapes
    for copy in crashes.copies:
        assert text_of(copy) == whole
        after = writer.reopened(copy)
        await after.retention_worker(compress=True).run_once()
        assert after.file_names() == writer.file_names()
        assert text_of(copy) == whole


async def test_with_a_crash_at_any_step_every_loss_is_recorded_once(
    folder: Path, tmp_path: Path
) -> None:
    writer = RetainedJournal(folder, 3, kafka=3, webhook=25)
    bounds = size_limits(4, 4)
    with pytest.MonkeyPatch.context() as patch:
        crashes = Crashes(folder, tmp_path, patch)

        async def lost(sink: str, first: int, last: int) -> None:
            crashes.taken()
            await writer.record_loss(sink, first, last)
            crashes.taken()

        await writer.retention_worker(bounds, record_loss=lost).run_once()

    assert len(crashes.copies) > 20
    for copy in crashes.copies:
        after = writer.reopened(copy)
        await after.retention_worker(bounds).run_once()
        assert after.losses() == [("kafka", 4, 30), ("webhook", 26, 30)], copy
        assert after.first_seqs() == [31]


async def test_a_compressed_file_that_reads_back_wrong_never_replaces_the_plain_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = RetainedJournal(folder, 1)
    keeper, before, sync = writer.retention_worker(compress=True), writer.file_names(), os.fsync

    def flips_a_byte(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        raw = bytearray(path.read_bytes())
        raw[len(raw) // 2] ^= 1
        path.write_bytes(raw)

    with monkeypatch.context() as failing:
        failing.setattr(os, "fsync", flips_a_byte)
        await keeper.run_once()
        await keeper.run_once()
    failed = writer.file_names()
    assert os.fsync is sync
    await keeper.run_once()

    assert failed == before
    assert keeper.stats.faults["compress: EIO"] == 2
    assert len(told(writer, "compress")) == 1
    assert "journal-00000000000000000001.jsonl.gz" in writer.file_names()


async def test_a_fault_is_logged_once_until_a_round_goes_well(
    folder: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    writer = RetainedJournal(folder, 1)
    keeper = writer.retention_worker(compress=True)

    def full(self: Path, target: Path) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    for _ in range(2):
        with monkeypatch.context() as failing:
            failing.setattr(Path, "replace", full)
            await keeper.run_once()
            await keeper.run_once()
        await keeper.run_once()
        writer.roll()

    assert keeper.stats.faults["compress: ENOSPC"] == 4
    assert told(writer, "compress") == [
        golden(),
        golden(),
    ]


async def test_when_there_is_no_room_to_compress_segments_still_go(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = RetainedJournal(folder, 3)

    def full(self: Path, target: Path) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    await writer.retention_worker(size_limits(4, 4), compress=True).run_once()

    assert writer.first_seqs() == [31]


async def test_a_segment_that_cannot_be_removed_keeps_those_after_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = RetainedJournal(folder, 3)
    keeper, unlink = writer.retention_worker(size_limits(4, 4)), Path.unlink

    def refuses(self: Path, missing_ok: bool = False) -> None:  # noqa: FBT001, FBT002 - Path's own
        if self.name == "journal-00000000000000000011.jsonl":
            raise PermissionError(errno.EACCES, "Permission denied")
        unlink(self, missing_ok)

    with monkeypatch.context() as failing:
        failing.setattr(Path, "unlink", refuses)
        await keeper.run_once()
    left = writer.first_seqs()
    await keeper.run_once()

    assert left == [11, 21, 31]
    assert writer.first_seqs() == [31]


async def test_a_folder_that_is_gone_ends_nothing(folder: Path) -> None:
    writer = RetainedJournal(folder, 1)
    keeper = writer.retention_worker(size_limits(4, 4))
    shutil.rmtree(folder)

    await keeper.run_once()

    assert keeper.stats.faults == {"look: ENOENT": 1}


async def test_losses_that_cannot_be_noted_are_not_recorded_and_nothing_is_removed(
    folder: Path,
) -> None:
    writer = RetainedJournal(folder, 2, kafka=0)
    (folder / "losses").touch()
    keeper = writer.retention_worker(size_limits(4, 4))

    await keeper.run_once()

    assert writer.first_seqs() == [1, 11, 21]
    assert writer.losses() == []
    assert sum(keeper.stats.faults.values()) == 1


async def test_a_plain_copy_beside_a_compressed_one_goes_with_it(folder: Path) -> None:
    writer = RetainedJournal(folder, 2)
    plain = segment_at(folder, 1).path
    shutil.copy(plain, plain.with_name(plain.name + ".gz"))

    await writer.retention_worker(size_limits(4, 4)).run_once()

    assert writer.file_names() == ["journal-00000000000000000021.jsonl"]


async def test_a_half_written_compressed_file_is_cleared_away(folder: Path) -> None:
    writer = RetainedJournal(folder, 1)
    (folder / "journal-00000000000000000001.jsonl.gz.tmp").write_bytes(b"half")
    (folder / "notes.gz.tmp").write_bytes(b"somebody else's")

    await writer.retention_worker().run_once()

    assert "journal-00000000000000000001.jsonl.gz.tmp" not in writer.file_names()
    assert "notes.gz.tmp" in writer.file_names()


async def test_a_loss_is_not_recorded_again_while_its_files_cannot_be_removed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = RetainedJournal(folder, 2, kafka=0)
    told: list[tuple[str, int, int]] = []

    async def elsewhere(sink: str, first: int, last: int) -> None:
        told.append((sink, first, last))

    def refuses(self: Path, missing_ok: bool = False) -> None:  # noqa: FBT001, FBT002 - Path's own
        if self.name.startswith("journal-"):
            raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "unlink", refuses)
    await writer.retention_worker(size_limits(4, 4), record_loss=elsewhere).run_once()
    await (
        writer.reopened(folder)
        .retention_worker(size_limits(4, 4), record_loss=elsewhere)
        .run_once()
    )

    assert writer.first_seqs() == [1, 11, 21]
    assert told == [("kafka", 1, 20)]


@pytest.mark.parametrize("chunks", [0, 1], ids=["while it is written", "while it is read back"])
def test_a_compression_that_is_to_end_leaves_the_plain_file_alone(
    folder: Path, chunks: int
) -> None:
    writer, left = RetainedJournal(folder, 1), iter(range(chunks))
    before = writer.file_names()

    def go_on() -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compress(list_segments(folder)[0], go_on)

    assert writer.file_names() == before


async def test_a_cancelled_compression_leaves_the_plain_file_and_nothing_else(
    folder: Path,
) -> None:
    writer = RetainedJournal(folder, 1)
    before = writer.file_names()

    with anyio.CancelScope() as scope:
        scope.cancel()
        await writer.retention_worker(compress=True).run_once()

    assert writer.file_names() == before
