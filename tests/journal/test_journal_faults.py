"""While the disk fails or hangs the journal refuses, and heals by itself."""

import errno
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any  # the troubled disk's class lives in conftest, which cannot be imported

import anyio
import pytest

from reactive_desched.api.event import CHECKPOINT, EVICTION_SUCCEEDED, JOURNAL_RESUMED
from reactive_desched.errors import JournalUnavailable
from reactive_desched.journal import disk as disk_module
from reactive_desched.journal import journal
from reactive_desched.journal.events import read_events
from reactive_desched.journal.journal import Journal
from reactive_desched.journal.records import AnyEvent
from tests.support.manual_clock import wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("impatient")]

Running = Callable[..., AbstractAsyncContextManager[Journal]]
MakeIntent = Callable[[str], AnyEvent]
MakeOutcome = Callable[..., AnyEvent]
Requested = Callable[[], list[str]]
NO_SPACE = OSError(errno.ENOSPC, "No space left on device")
BROKEN = OSError(errno.EIO, "Input/output error")
READ_ONLY = OSError(errno.EROFS, "Read-only file system")


@pytest.mark.parametrize("fault", [NO_SPACE, BROKEN, READ_ONLY], ids=lambda fault: fault.strerror)
@pytest.mark.parametrize("written", [0, 1, 40, 10_000], ids=lambda part: f"{part} bytes written")
async def test_after_a_disk_error_nothing_counts_until_the_journal_has_healed_itself(
    running: Running,
    intent: MakeIntent,
    disk: Any,
    tmp_path: Path,
    requested: Requested,
    fault: OSError,
    written: int,
) -> None:
    async with running() as book:
        await book.append(intent("before"))
        disk.fault, disk.written_before_fault = fault, written

        with pytest.raises(JournalUnavailable, match=str(fault.strerror)):
            await book.append(intent("failing"))
        assert (book.healthy, book.reason) == (False, fault.strerror)
        attempts = len(disk.appends)
        with pytest.raises(JournalUnavailable, match=str(fault.strerror)):
            await book.append(intent("refused at once"))
        await wait_until(lambda: len(disk.appends) > attempts + 2)
        assert not book.healthy

        disk.fault = None
        await wait_until(lambda: book.healthy)
        await book.append(intent("after"))

    records = list(
        read_events(tmp_path, on_skipped=lambda path, line: pytest.fail(f"{path}: {line}"))
    )
    assert requested() == ["before", "after"]
    assert [int(record.sequence) for record in records] == [1, 2, 3, 4, 5]
    resumed = records[2]
    assert resumed.type == JOURNAL_RESUMED
    assert (resumed.data.message, resumed.data.refused) == (fault.strerror, 2)


async def test_a_disk_with_room_for_one_small_record_does_not_count_as_healed(
    running: Running, intent: MakeIntent, disk: Any, tmp_path: Path
) -> None:
    async with running() as book:
        disk.longest_write = 200
        with pytest.raises(JournalUnavailable):
            await book.append(intent("a"))
        attempts = len(disk.appends)
        await wait_until(lambda: len(disk.appends) > attempts + 2)
        assert not book.healthy
        disk.longest_write = None
        await wait_until(lambda: book.healthy)

    assert [event.type for event in read_events(tmp_path)] == [
        CHECKPOINT,
        JOURNAL_RESUMED,
        CHECKPOINT,
    ]
    assert not (tmp_path / "room").exists()


async def test_a_disk_too_full_for_a_new_segment_loses_no_number_and_no_record(
    running: Running, intent: MakeIntent, disk: Any, tmp_path: Path, requested: Requested
) -> None:
    async with running(max_segment_bytes=2500) as book:
        for key in "ab":
            await book.append(intent(key))
        disk.creation_fault = NO_SPACE
        with pytest.raises(JournalUnavailable):
            await book.append(intent("c"))
        disk.creation_fault, disk.fault, disk.written_before_fault = None, NO_SPACE, 20
        attempts = len(disk.appends)
        await wait_until(lambda: len(disk.appends) > attempts)
        disk.fault = None
        await wait_until(lambda: book.healthy)
        await book.append(intent("d"))

    assert requested() == ["a", "b", "d"]
    seqs = [int(event.sequence) for event in read_events(tmp_path)]
    assert seqs == list(range(1, len(seqs) + 1))


async def test_every_caller_that_waits_for_a_failed_write_gets_the_error(
    running: Running, intent: MakeIntent, disk: Any
) -> None:
    told = []

    async with running() as book, anyio.create_task_group() as group:

        async def append(key: str) -> None:
            with pytest.raises(JournalUnavailable):
                await book.append(intent(key))
            told.append(key)

        disk.free.clear()
        disk.fault = NO_SPACE
        for key in "abcde":
            group.start_soon(append, key)
        await anyio.wait_all_tasks_blocked()
        disk.free.set()
        await wait_until(lambda: sorted(told) == list("abcde"))
        assert not book.healthy

    assert book.open_intents == ()


async def test_an_outcome_waits_until_the_disk_takes_it(
    running: Running, intent: MakeIntent, outcome: MakeOutcome, disk: Any, tmp_path: Path
) -> None:
    async with running() as book, anyio.create_task_group() as group:
        await book.append(intent("a"))
        disk.fault = NO_SPACE
        group.start_soon(book.append_until_durable, outcome("a"))
        await wait_until(lambda: not book.healthy)
        disk.fault = None

    assert EVICTION_SUCCEEDED in [event.type for event in read_events(tmp_path)]
    assert book.open_intents == ()


async def test_a_write_that_hangs_makes_the_journal_refuse_until_it_returns(
    running: Running,
    intent: MakeIntent,
    disk: Any,
    monkeypatch: pytest.MonkeyPatch,
    requested: Requested,
) -> None:
    monkeypatch.setattr(disk_module, "STALLED_AFTER_S", 0.01)

    async with running() as book, anyio.create_task_group() as group:
        disk.free.clear()
        group.start_soon(book.append, intent("slow"))
        await wait_until(lambda: not book.healthy)
        assert "under way" in book.reason
        with pytest.raises(JournalUnavailable, match="under way"):
            await book.append(intent("refused"))
        disk.free.set()
        await wait_until(lambda: book.healthy)

    assert requested() == ["slow"]


async def test_a_hanging_disk_refuses_even_those_for_which_the_buffer_has_no_place(
    running: Running, intent: MakeIntent, disk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_module, "STALLED_AFTER_S", 0.01)
    monkeypatch.setattr(journal, "MAX_BUFFERED", 1)

    async with running() as book, anyio.create_task_group() as group:
        disk.free.clear()
        group.start_soon(book.append, intent("slow"))
        await wait_until(lambda: not book.healthy)
        with anyio.fail_after(20), pytest.raises(JournalUnavailable, match="under way"):
            await book.append(intent("refused"))
        disk.free.set()


async def test_an_outcome_delayed_by_a_hanging_write_follows_it(
    running: Running,
    intent: MakeIntent,
    outcome: MakeOutcome,
    disk: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(disk_module, "STALLED_AFTER_S", 0.01)

    async with running() as book, anyio.create_task_group() as group:
        await book.append(intent("a"))
        disk.free.clear()
        group.start_soon(book.append, intent("slow"))
        await wait_until(lambda: not book.healthy)
        group.start_soon(book.append_until_durable, outcome("a"))
        await anyio.wait_all_tasks_blocked()
        disk.free.set()

    events = [event for event in read_events(tmp_path) if event.type != CHECKPOINT]
    assert [event.id for event in events] == ["a", "slow", "end-a"]
    assert [record.id for record in book.open_intents] == ["slow"]


async def test_one_who_waits_until_all_is_written_waits_for_records_that_no_caller_awaits(
    running: Running, intent: MakeIntent, outcome: MakeOutcome, disk: Any, tmp_path: Path
) -> None:
    async with running() as book, anyio.create_task_group() as group:
        found = list[list[str]]()

        async def wait() -> None:
            await book.written()
            found.append([event.id for event in read_events(tmp_path)])

        await book.written()  # of nothing
        await book.append(intent("a"))
        disk.free.clear()
        book.append_nowait(outcome("a"))
        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        assert found == []
        disk.free.set()
        await wait_until(lambda: bool(found))

    assert "end-a" in found[0]


async def test_one_who_waits_until_all_is_written_does_not_wait_for_a_failing_disk_without_end(
    running: Running,
    intent: MakeIntent,
    outcome: MakeOutcome,
    disk: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journal, "WRITTEN_WAIT_S", 0.05)

    async with running() as book:
        await book.append(intent("a"))
        disk.fault = NO_SPACE
        book.append_nowait(outcome("a"))
        with anyio.fail_after(20):
            await book.written()
        assert not book.healthy
        disk.fault = None


async def test_one_who_waits_until_all_is_written_is_let_go_when_the_journal_closes(
    running: Running,
    intent: MakeIntent,
    outcome: MakeOutcome,
    disk: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journal, "WRITTEN_WAIT_S", 600)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group, running() as book:
            await book.append(intent("a"))
            disk.fault = NO_SPACE
            book.append_nowait(outcome("a"))
            group.start_soon(book.written)
            await wait_until(lambda: not book.healthy)
