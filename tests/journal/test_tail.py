from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path

import anyio
import pytest

from reactive_desched.errors import RecordsExpired
from reactive_desched.journal import tail as tail_module
from reactive_desched.journal.journal import Journal
from reactive_desched.journal.records import AnyEvent, JournalRecord
from reactive_desched.journal.segments import list_segments
from reactive_desched.journal.tail import LiveTail
from tests.support.journals import SOURCE, some_events, write_journal

pytestmark = pytest.mark.anyio

Running = Callable[..., AbstractAsyncContextManager[Journal]]


def tail_of(directory: Path, entries: list[JournalRecord]) -> LiveTail:
    return LiveTail(directory, SOURCE, entries[0].seq, entries[-1].seq)


async def everything(tail: LiveTail, most: int = 7) -> list[JournalRecord]:
    found: list[JournalRecord] = []
    while more := await tail.read_after(found[-1].seq if found else 0, most):
        found += more
    return found


@pytest.mark.parametrize("compress", [False, True], ids=["plain", "compressed"])
async def test_the_files_are_read_in_order_from_any_place(
    tmp_path: Path,
    compress: bool,  # noqa: FBT001 -- a row's value
) -> None:
    entries = write_journal(tmp_path, some_events(120), per_segment=20, compress=compress)
    tail = tail_of(tmp_path, entries)

    assert await everything(tail) == entries
    for place in (1, 19, 20, 21, 22, 77, len(entries) - 1):
        assert await tail.read_after(place, 3) == entries[place : place + 3]
    assert await tail.read_after(len(entries)) == []


async def test_one_reading_is_bounded_in_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_module, "MAX_READ_BYTES", 3000)
    entries = write_journal(tmp_path, some_events(20))
    tail = tail_of(tmp_path, entries)

    assert 0 < len(await tail.read_after(0, 500)) < 10
    assert await everything(tail, 500) == entries


async def test_what_becomes_durable_wakes_those_who_wait_and_is_served_from_memory(
    running: Running, intent: Callable[[str], AnyEvent], tmp_path: Path
) -> None:
    woken: list[int] = []
    async with running() as book, anyio.create_task_group() as group:

        async def wait() -> None:
            await book.tail.wait_past(1)
            woken.append(book.tail.last_seq)

        group.start_soon(wait)
        await anyio.sleep(0.01)
        assert woken == []
        await book.append(intent("a"))
        await anyio.sleep(0.01)
        assert woken == [2]
        for file in list_segments(tmp_path):
            file.path.write_bytes(b"")  # whoever read this would find nothing
        [entry] = await book.tail.read_after(1)
        assert b'"id":"a"' in entry.raw


async def test_memory_is_bounded_and_what_it_dropped_comes_from_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_module, "MEMORY_RECORDS", 10)
    monkeypatch.setattr(tail_module, "MEMORY_BYTES", 1 << 20)
    entries = write_journal(tmp_path, some_events(100), per_segment=30)
    tail = LiveTail(tmp_path, SOURCE, 1, 0)
    for at in range(0, len(entries), 5):
        tail.publish(entries[at : at + 5])

    assert len(tail._recent._records) <= 2 * 10
    assert await everything(tail) == entries


async def test_memory_is_bounded_in_bytes_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_module, "MEMORY_BYTES", 5000)
    entries = write_journal(tmp_path, some_events(60))
    tail = LiveTail(tmp_path, SOURCE, 1, 0)
    for entry in entries:
        tail.publish([entry])

    assert sum(len(entry.raw) for entry in tail._recent._records) <= 2 * 5000 + 1500
    assert await everything(tail) == entries


async def test_a_place_that_retention_removed_is_gone_and_the_next_is_named(tmp_path: Path) -> None:
    entries = write_journal(tmp_path, some_events(60), per_segment=20)
    tail = tail_of(tmp_path, entries)
    first, second, *_ = list_segments(tmp_path)
    first.path.unlink()
    tail.set_oldest(second.first_seq)

    with pytest.raises(RecordsExpired) as gone:
        await tail.read_after(3)
    assert gone.value.oldest == second.first_seq
    assert (await tail.read_after(second.first_seq - 1, 1))[0].seq == second.first_seq


async def test_a_file_that_went_missing_unannounced_is_stepped_over_in_the_same_way(
    tmp_path: Path,
) -> None:
    entries = write_journal(tmp_path, some_events(60), per_segment=20)
    tail = tail_of(tmp_path, entries)
    _, second, third, *_ = list_segments(tmp_path)
    second.path.unlink()

    assert (await tail.read_after(0, 500))[-1].seq == second.first_seq - 1
    with pytest.raises(RecordsExpired) as gone:
        await tail.read_after(second.first_seq - 1)
    assert gone.value.oldest == third.first_seq


async def test_a_damaged_line_is_stepped_over_and_what_lies_around_it_is_read(
    tmp_path: Path,
) -> None:
    entries = write_journal(tmp_path, some_events(30))
    tail = tail_of(tmp_path, entries)
    path = list_segments(tmp_path)[0].path
    path.write_bytes(path.read_bytes().replace(entries[9].raw, b"\xff" * len(entries[9].raw)))

    assert await tail.read_after(0) == entries[:9]
    with pytest.raises(RecordsExpired) as gone:
        await tail.read_after(9)
    assert gone.value.oldest == 11
    assert await tail.read_after(10) == entries[10:]


async def test_a_place_beyond_the_end_belongs_to_another_journal(tmp_path: Path) -> None:
    entries = write_journal(tmp_path, some_events(5))

    with pytest.raises(RecordsExpired, match="another journal"):
        await tail_of(tmp_path, entries).read_after(len(entries) + 1)


async def test_what_was_read_ahead_of_a_write_that_then_failed_is_given_to_no_reader(
    tmp_path: Path,
) -> None:
    entries = write_journal(tmp_path, some_events(40))
    [file] = list_segments(tmp_path)
    lines = [entry.raw + b"\n" for entry in entries]
    failing = [line.replace(b'"name":"', b'"name":"never-') for line in lines[20:30]]
    file.path.write_bytes(b"".join([*lines[:20], *failing]))
    tail = LiveTail(tmp_path, SOURCE, 1, 20)
    assert await tail.read_after(0, 10) == entries[:10]

    file.path.write_bytes(b"".join(lines))
    tail.publish(entries[20:])

    assert await tail.read_after(10) == entries[10:]


def open_files(folder: Path) -> int:
    """Count the open files of a folder; those of other tests come and go."""
    opened = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # of the listing itself
            opened.append(descriptor.readlink())
    return sum(each.is_relative_to(folder) for each in opened)


async def test_so_many_readers_keep_their_file_open_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_module, "OPEN_FILES", 3)
    entries = write_journal(tmp_path, some_events(400))
    tail = tail_of(tmp_path, entries)
    assert open_files(tmp_path) == 0

    for place in range(9):
        assert await tail.read_after(place, 10) == entries[place : place + 10]

    assert open_files(tmp_path) == 3
    assert await tail.read_after(10 + 8, 10) == entries[18:28]


async def test_a_volume_that_is_away_has_lost_nothing(tmp_path: Path) -> None:
    """Its mount point is an empty folder until it is back."""
    folder, away = tmp_path / "journal", tmp_path / "away"
    entries = write_journal(folder, some_events(60), per_segment=20)
    tail = tail_of(folder, entries)
    folder.rename(away)
    folder.mkdir()
    with pytest.raises(FileNotFoundError, match="are away"):
        await tail.read_after(0)

    folder.rmdir()
    away.rename(folder)
    assert await everything(tail) == entries
