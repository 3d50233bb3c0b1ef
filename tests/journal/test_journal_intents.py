"""Every intent has one outcome, and those without are found after a restart."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio
import pytest

from reactive_desched.api.event import EVICTION_SUCCEEDED
from reactive_desched.errors import JournalError, JournalUnavailable
from reactive_desched.journal import journal
from reactive_desched.journal.events import read_events
from reactive_desched.journal.journal import Journal
from reactive_desched.journal.records import AnyEvent
from reactive_desched.journal.segments import list_segments

pytestmark = pytest.mark.anyio

Running = Callable[..., AbstractAsyncContextManager[Journal]]
MakeIntent = Callable[[str], AnyEvent]
MakeOutcome = Callable[..., AnyEvent]


async def test_intents_without_outcome_are_found_after_a_restart(
    running: Running, intent: MakeIntent, outcome: MakeOutcome
) -> None:
    async with running(max_segment_bytes=2500) as book:
        for key in "abcdefg":
            await book.append(intent(key))
        for key in "acdef":
            await book.append(outcome(key))

    async with running(max_segment_bytes=2500) as book:
        assert [record.id for record in book.open_intents] == ["b", "g"]
        assert book.open_intents[0].who.uid == "uid-b"
        await book.append_until_durable(outcome("b"))

    async with running() as book:
        assert [record.id for record in book.open_intents] == ["g"]


async def test_a_restart_reads_no_further_back_than_the_oldest_open_intent(
    running: Running, intent: MakeIntent, outcome: MakeOutcome, tmp_path: Path
) -> None:
    async with running(max_segment_bytes=2500) as book:
        for key in "abcdef":
            await book.append(intent(key))
            await book.append(outcome(key))
        await book.append(intent("open"))
        await book.append(intent("also open"))
    list_segments(tmp_path)[1].path.write_bytes(b"not read\n" * 10)

    async with running() as book:
        assert book.recovery.damaged_lines == 0
        assert [record.id for record in book.open_intents] == ["open", "also open"]


async def test_an_intent_ends_once(
    running: Running, intent: MakeIntent, outcome: MakeOutcome
) -> None:
    async with running() as book:
        with pytest.raises(JournalError, match="intent a is not open"):
            await book.append(outcome("a"))
        await book.append(intent("a"))
        with pytest.raises(JournalError, match="begun already"):
            await book.append(intent("a"))
        await book.append(outcome("a"))
        with pytest.raises(JournalError, match="intent a is not open"):
            await book.append_until_durable(outcome("a"))


async def test_two_outcomes_at_the_same_moment_become_one(
    running: Running, intent: MakeIntent, outcome: MakeOutcome, tmp_path: Path
) -> None:
    refused = []

    async with running() as book:
        await book.append(intent("a"))

        async def end() -> None:
            try:
                await book.append_until_durable(outcome("a"))
            except JournalError as error:
                refused.append(error)

        async with anyio.create_task_group() as group:
            group.start_soon(end)
            group.start_soon(end)

    assert len(refused) == 1
    ends = [
        event.causationid for event in read_events(tmp_path) if event.type == EVICTION_SUCCEEDED
    ]
    assert ends == ["a"]


async def test_no_intent_is_begun_while_too_many_are_open(
    running: Running, intent: MakeIntent, outcome: MakeOutcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "MAX_OPEN_INTENTS", 2)

    async with running() as book:
        await book.append(intent("a"))
        await book.append(intent("b"))
        with pytest.raises(JournalUnavailable, match="2 intents wait for their outcome"):
            await book.append(intent("c"))
        await book.append(outcome("a"))
        await book.append(intent("c"))
