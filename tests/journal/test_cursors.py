"""Positions outlive the process, and a crash leaves the old one or the new one."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reactive_desched.errors import ConfigError
from reactive_desched.journal.cursors import Cursor, Cursors

NOON = "2026-11-20T12:00:00Z"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "positions"


def test_a_follower_that_never_kept_a_position_has_none(folder: Path) -> None:
    assert Cursors(folder).read("kafka") is None
    assert Cursors(folder).all() == {}


def test_a_position_is_read_by_the_next_process(folder: Path) -> None:
    Cursors(folder).save("kafka", 41, NOON)
    Cursors(folder).save("kafka", 42, NOON)
    Cursors(folder).save("webhook", 7, NOON)

    assert Cursors(folder).read("kafka") == Cursor(42, NOON)
    assert Cursors(folder).all() == {"kafka": Cursor(42, NOON), "webhook": Cursor(7, NOON)}


def test_a_position_can_go_back(folder: Path) -> None:
    Cursors(folder).save("kafka", 42, NOON)
    Cursors(folder).save("kafka", 0, NOON)

    assert Cursors(folder).read("kafka") == Cursor(0, NOON)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b'{"seq":42,"ti', id="torn"),
        pytest.param(b"\xff\xfe{}", id="not UTF-8"),
        pytest.param(b'{"seq":42,"time":"\xff"}', id="not UTF-8 within"),
        pytest.param(b'{"seq":-1,"time":""}', id="negative"),
        pytest.param(b'{"seq":"42","time":""}', id="a text for a number"),
        pytest.param(b"[]", id="another shape"),
        pytest.param(b"\x00" * 30, id="zeros, as a file system leaves them"),
    ],
)
def test_a_file_that_is_not_a_position_counts_as_none(folder: Path, raw: bytes) -> None:
    positions = Cursors(folder)
    positions.save("webhook", 7, NOON)
    (folder / "kafka.json").write_bytes(raw)

    assert positions.read("kafka") is None
    assert positions.all() == {"webhook": Cursor(7, NOON)}


def test_what_a_later_version_adds_to_a_position_is_ignored(folder: Path) -> None:
    folder.mkdir()
    (folder / "kafka.json").write_bytes(b'{"seq":42,"time":"","topic":"events"}')

    assert Cursors(folder).read("kafka") == Cursor(42, "")


def test_a_crash_before_the_rename_leaves_the_old_position(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    positions = Cursors(folder)
    positions.save("kafka", 41, NOON)

    def power_goes(self: Path, target: Path) -> Path:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(Path, "replace", power_goes)
        with pytest.raises(OSError, match="Input/output error"):
            positions.save("kafka", 42, NOON)

    assert Cursors(folder).read("kafka") == Cursor(41, NOON)
    assert Cursors(folder).all() == {"kafka": Cursor(41, NOON)}
    positions.save("kafka", 43, NOON)
    assert Cursors(folder).read("kafka") == Cursor(43, NOON)


def test_the_bytes_are_durable_before_the_name_and_the_name_before_the_answer(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    positions = Cursors(folder)
    positions.save("kafka", 41, NOON)
    steps: list[str] = []
    sync, rename = os.fsync, Path.replace

    def noted_sync(descriptor: int) -> None:
        steps.append("sync " + Path(f"/proc/self/fd/{descriptor}").readlink().name)
        sync(descriptor)

    def noted_rename(self: Path, target: Path) -> Path:
        steps.append("rename")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(Path, "replace", noted_rename)
    positions.save("kafka", 42, NOON)

    assert steps == ["sync kafka.json.tmp", "rename", "sync positions"]


@pytest.mark.parametrize(
    "name", ["", "../kafka", "a/b", "Kafka", ".hidden", "a.b", "a\n", "x" * 64]
)
def test_a_name_that_could_be_another_file_is_refused(folder: Path, name: str) -> None:
    positions = Cursors(folder)

    with pytest.raises(ConfigError, match="name of a follower"):
        positions.save(name, 1, NOON)
    with pytest.raises(ConfigError, match="name of a follower"):
        positions.read(name)
    assert not folder.exists()


def test_a_full_disk_is_reported(folder: Path) -> None:
    folder.write_text("a file is where the folder should be")

    with pytest.raises(OSError, match="positions"):
        Cursors(folder).save("kafka", 1, NOON)


def test_two_threads_may_keep_the_same_position(tmp_path: Path) -> None:
    positions = Cursors(tmp_path)

    def keep(number: int) -> None:
        positions.save("kafka", number, NOON)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(keep, range(100)))

    assert positions.read("kafka") is not None
    assert [path.name for path in tmp_path.iterdir()] == ["kafka.json"]
