"""A journal that ends keeps what it promised, and nobody waits for a dead disk."""

import errno
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any  # the troubled disk's class lives in conftest, which cannot be imported

import anyio
import pytest

from reactive_desched.errors import JournalUnavailable
from reactive_desched.journal import journal
from reactive_desched.journal.journal import Journal
from reactive_desched.journal.log import Rotation
from reactive_desched.journal.opened import JournalConfig
from reactive_desched.journal.records import AnyEvent
from tests.support.manual_clock import wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("impatient")]

Running = Callable[..., AbstractAsyncContextManager[Journal]]
MakeIntent = Callable[[str], AnyEvent]
MakeOutcome = Callable[..., AnyEvent]
Requested = Callable[[], list[str]]
NO_SPACE = OSError(errno.ENOSPC, "No space left on device")
MAKING = JournalConfig(Rotation(1 << 20, 1e9))


async def test_cancelling_the_writer_flushes_what_was_appended(
    running: Running, intent: MakeIntent, disk: Any, requested: Requested
) -> None:
    book = None
    async with anyio.create_task_group() as appenders:
        with anyio.CancelScope() as scope:
            async with running() as book:
                disk.free.clear()
                for key in "abc":
                    appenders.start_soon(book.append, intent(key))
                await anyio.wait_all_tasks_blocked()
                scope.cancel()

    assert sorted(requested()) == ["a", "b", "c"]


async def test_an_append_that_is_cancelled_may_reach_the_disk_and_then_stays_open(
    running: Running, intent: MakeIntent, disk: Any
) -> None:
    async with running() as book:
        disk.free.clear()
        with anyio.move_on_after(0.02):
            await book.append(intent("a"))
        disk.free.set()
        await wait_until(lambda: bool(book.open_intents))

    assert [record.id for record in book.open_intents] == ["a"]


async def test_closing_reports_an_outcome_that_still_waits_for_the_disk(
    running: Running, intent: MakeIntent, outcome: MakeOutcome, disk: Any
) -> None:
    async with anyio.create_task_group() as group, running() as book:
        await book.append(intent("a"))

        async def end() -> None:
            with pytest.raises(JournalUnavailable, match="closed"):
                await book.append_until_durable(outcome("a"))

        disk.fault = NO_SPACE
        group.start_soon(end)
        await wait_until(lambda: not book.healthy)

    assert [record.id for record in book.open_intents] == ["a"]


async def test_a_disk_that_never_answers_does_not_keep_the_process_from_ending(
    running: Running, intent: MakeIntent, disk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "FLUSH_TIMEOUT_S", 0.02)
    told = []

    async with running() as book, anyio.create_task_group() as group:

        async def append() -> None:
            with pytest.raises(JournalUnavailable, match="closed"):
                await book.append(intent("a"))
            told.append("a")

        disk.free.clear()
        group.start_soon(append)
        await anyio.wait_all_tasks_blocked()
        await book.close()

    assert told == ["a"]


async def test_after_closing_appends_are_refused(running: Running, intent: MakeIntent) -> None:
    async with running() as book:
        pass

    assert (book.healthy, book.reason) == (False, "the journal is closed")
    with pytest.raises(JournalUnavailable, match="closed"):
        await book.append(intent("a"))


async def test_an_open_journal_writes_and_lets_go_of_its_directory(
    tmp_path: Path, requested: Requested, clock: Any, intent: MakeIntent
) -> None:
    for key in "ab":
        async with journal.open_journal(tmp_path, MAKING, clock=clock) as book:
            await book.append(intent(key))

    assert requested() == ["a", "b"]
