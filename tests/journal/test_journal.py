import errno
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any  # the troubled disk's class lives in conftest, which cannot be imported

import anyio
import pytest

from reactive_desched.api.event import (
    CHECKPOINT,
    EVICTION_REQUESTED,
    EVICTION_SUCCEEDED,
    JOURNAL_RESUMED,
)
from reactive_desched.errors import JournalError, JournalUnavailable
from reactive_desched.journal import fitness, journal, open_intents
from reactive_desched.journal.journal import Journal
from reactive_desched.journal.log import Rotation
from reactive_desched.journal.opening import Making
from reactive_desched.journal.reading import read
from reactive_desched.journal.records import AnyEvent
from reactive_desched.journal.segments import lines, segments

pytestmark = pytest.mark.anyio

Running = Callable[..., AbstractAsyncContextManager[Journal]]
MakeIntent = Callable[[str], AnyEvent]
MakeOutcome = Callable[..., AnyEvent]
NO_SPACE = OSError(errno.ENOSPC, "No space left on device")
MAKING = Making(Rotation(1 << 20, 1e9))
BROKEN = OSError(errno.EIO, "Input/output error")
READ_ONLY = OSError(errno.EROFS, "Read-only file system")


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "FIRST_RETRY_S", 0.01)
    monkeypatch.setattr(journal, "LAST_RETRY_S", 0.02)


def ids(directory: Path) -> list[str]:
    return [event.id for event in read(directory) if event.type == EVICTION_REQUESTED]


def seqs(directory: Path) -> list[int]:
    return [int(event.sequence) for event in read(directory)]


async def until(claim: Callable[[], bool]) -> None:
    with anyio.fail_after(20):
        while not claim():  # noqa: ASYNC110  # what is waited for has no event to wait on
            await anyio.sleep(0.002)


async def test_a_record_can_be_read_by_others_as_soon_as_append_returns(
    running: Running, intent: MakeIntent, outcome: MakeOutcome, tmp_path: Path
) -> None:
    async with running() as book:
        assert await book.append(intent("a")) == 2
        assert await book.append(outcome("a")) == 3
        heading, first, second = read(tmp_path)

    assert [heading.type, first.type, second.type] == [
        CHECKPOINT,
        EVICTION_REQUESTED,
        EVICTION_SUCCEEDED,
    ]
    assert (first.sequence, first.id, first.data.who.name) == (f"{2:020}", "a", "web-a")
    assert (second.sequence, second.causationid) == (f"{3:020}", "a")
    assert second.data.outcome.result == "evicted"


async def test_append_does_not_return_before_the_disk_has_the_record(
    running: Running, intent: MakeIntent, disk: Any
) -> None:
    returned = []

    async with running() as book, anyio.create_task_group() as group:
        disk.free.clear()

        async def append() -> None:
            returned.append(await book.append(intent("a")))

        group.start_soon(append)
        await anyio.sleep(0.05)
        assert returned == []
        disk.free.set()

    assert returned == [2]


async def test_what_arrives_during_a_write_shares_the_next_one(
    running: Running, intent: MakeIntent, disk: Any, tmp_path: Path
) -> None:
    commits: list[int] = []

    async with (
        running(committed=lambda records, _: commits.append(records)) as book,
        anyio.create_task_group() as group,
    ):
        disk.free.clear()
        group.start_soon(book.append, intent("first"))
        await until(lambda: not book._buffer and book._intents._beginning == {"first"})
        for number in range(100):
            group.start_soon(book.append, intent(str(number)))
        await until(lambda: len(book._buffer) == 100)
        disk.free.set()

    assert commits[:2] == [1, 100]
    assert set(ids(tmp_path)) == {"first", *map(str, range(100))}


async def test_a_write_takes_a_bounded_number_of_records(
    running: Running, intent: MakeIntent, disk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "MAX_BATCH", 4)
    commits: list[int] = []

    async with (
        running(committed=lambda records, _: commits.append(records)) as book,
        anyio.create_task_group() as group,
    ):
        for number in range(10):
            group.start_soon(book.append, intent(str(number)))

    assert max(commits) == 4
    assert sum(commits) == 10


async def test_when_the_buffer_is_full_append_waits_and_then_succeeds(
    running: Running, intent: MakeIntent, disk: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(journal, "MAX_BUFFERED", 3)

    async with running() as book, anyio.create_task_group() as group:
        disk.free.clear()
        for key in "abcdef":
            group.start_soon(book.append, intent(key))
        await until(lambda: book._slots.statistics().tasks_waiting == 3)
        disk.free.set()

    assert set(ids(tmp_path)) == set("abcdef")


@pytest.mark.parametrize("fault", [NO_SPACE, BROKEN, READ_ONLY], ids=lambda fault: fault.strerror)
@pytest.mark.parametrize("written", [0, 1, 40, 10_000], ids=lambda part: f"{part} bytes written")
async def test_after_a_disk_error_nothing_counts_until_the_journal_has_healed_itself(
    running: Running,
    intent: MakeIntent,
    disk: Any,
    tmp_path: Path,
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
        await until(lambda: len(disk.appends) > attempts + 2)
        assert not book.healthy

        disk.fault = None
        await until(lambda: book.healthy)
        await book.append(intent("after"))

    records = list(read(tmp_path, skipped=lambda path, line: pytest.fail(f"{path}: {line}")))
    assert ids(tmp_path) == ["before", "after"]
    assert [int(record.sequence) for record in records] == [1, 2, 3, 4, 5]
    resumed = records[2]
    assert resumed.type == JOURNAL_RESUMED
    assert (resumed.data.reason, resumed.data.refused) == (fault.strerror, 2)


async def test_a_disk_with_room_for_one_small_record_does_not_count_as_healed(
    running: Running, intent: MakeIntent, disk: Any, tmp_path: Path
) -> None:
    async with running() as book:
        disk.longest_write = 200
        with pytest.raises(JournalUnavailable):
            await book.append(intent("a"))
        attempts = len(disk.appends)
        await until(lambda: len(disk.appends) > attempts + 2)
        assert not book.healthy
        disk.longest_write = None
        await until(lambda: book.healthy)

    assert [event.type for event in read(tmp_path)] == [CHECKPOINT, JOURNAL_RESUMED, CHECKPOINT]
    assert not (tmp_path / "room").exists()


async def test_everyone_waiting_for_a_failed_write_is_told(
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
        await until(lambda: len(book._intents._beginning) == 5)
        disk.free.set()
        await until(lambda: sorted(told) == list("abcde"))
        assert not book.healthy

    assert book.open_intents == ()


async def test_an_outcome_waits_until_the_disk_takes_it(
    running: Running, intent: MakeIntent, outcome: MakeOutcome, disk: Any, tmp_path: Path
) -> None:
    async with running() as book, anyio.create_task_group() as group:
        await book.append(intent("a"))
        disk.fault = NO_SPACE
        group.start_soon(book.append_lasting, outcome("a"))
        await until(lambda: not book.healthy)
        disk.fault = None

    assert EVICTION_SUCCEEDED in [event.type for event in read(tmp_path)]
    assert book.open_intents == ()


async def test_closing_tells_an_outcome_that_still_waits_for_the_disk(
    running: Running, intent: MakeIntent, outcome: MakeOutcome, disk: Any
) -> None:
    async with anyio.create_task_group() as group, running() as book:
        await book.append(intent("a"))

        async def end() -> None:
            with pytest.raises(JournalUnavailable, match="closed"):
                await book.append_lasting(outcome("a"))

        disk.fault = NO_SPACE
        group.start_soon(end)
        await until(lambda: not book.healthy)

    assert [record.id for record in book.open_intents] == ["a"]


async def test_a_write_that_hangs_makes_the_journal_refuse_until_it_returns(
    running: Running, intent: MakeIntent, disk: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(fitness, "STALLED_AFTER_S", 0.01)

    async with running() as book, anyio.create_task_group() as group:
        disk.free.clear()
        group.start_soon(book.append, intent("slow"))
        await until(lambda: not book.healthy)
        assert "under way" in book.reason
        with pytest.raises(JournalUnavailable, match="under way"):
            await book.append(intent("refused"))
        disk.free.set()
        await until(lambda: book.healthy)

    assert ids(tmp_path) == ["slow"]


async def test_a_hanging_disk_refuses_even_those_for_whom_the_buffer_has_no_place(
    running: Running, intent: MakeIntent, disk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitness, "STALLED_AFTER_S", 0.01)
    monkeypatch.setattr(journal, "MAX_BUFFERED", 1)

    async with running() as book, anyio.create_task_group() as group:
        disk.free.clear()
        group.start_soon(book.append, intent("slow"))
        await until(lambda: not book.healthy)
        with anyio.fail_after(20), pytest.raises(JournalUnavailable, match="under way"):
            await book.append(intent("refused"))
        disk.free.set()


async def test_an_outcome_held_back_by_a_hanging_write_follows_it(
    running: Running,
    intent: MakeIntent,
    outcome: MakeOutcome,
    disk: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(fitness, "STALLED_AFTER_S", 0.01)

    async with running() as book, anyio.create_task_group() as group:
        await book.append(intent("a"))
        disk.free.clear()
        group.start_soon(book.append, intent("slow"))
        await until(lambda: not book.healthy)
        group.start_soon(book.append_lasting, outcome("a"))
        await anyio.sleep(0.01)
        disk.free.set()

    assert [record.id for record in book.open_intents] == ["slow"]


async def test_a_full_segment_is_followed_by_a_new_one_named_for_its_first_record(
    running: Running, intent: MakeIntent, tmp_path: Path
) -> None:
    async with running(max_segment_bytes=2500) as book:
        for key in "abcdef":
            await book.append(intent(key))

    files = [segment.path.name for segment in segments(tmp_path)]
    firsts = [next(lines(segment)) for segment in segments(tmp_path)]
    assert files == [f"journal-{line.seq:020}.jsonl" for line in firsts]
    assert {line.mark.type for line in firsts if line.mark} == {CHECKPOINT}
    assert len(files) > 2
    assert ids(tmp_path) == list("abcdef")
    assert seqs(tmp_path) == list(range(1, len(seqs(tmp_path)) + 1))


async def test_a_disk_too_full_for_a_new_segment_loses_no_number_and_no_record(
    running: Running, intent: MakeIntent, disk: Any, tmp_path: Path
) -> None:
    async with running(max_segment_bytes=2500) as book:
        for key in "ab":
            await book.append(intent(key))
        disk.creation_fault = NO_SPACE
        with pytest.raises(JournalUnavailable):
            await book.append(intent("c"))
        disk.creation_fault, disk.fault, disk.written_before_fault = None, NO_SPACE, 20
        attempts = len(disk.appends)
        await until(lambda: len(disk.appends) > attempts)
        disk.fault = None
        await until(lambda: book.healthy)
        await book.append(intent("d"))

    assert ids(tmp_path) == ["a", "b", "d"]
    assert seqs(tmp_path) == list(range(1, len(seqs(tmp_path)) + 1))


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
        await book.append_lasting(outcome("b"))

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
    segments(tmp_path)[1].path.write_bytes(b"not read\n" * 10)

    async with running() as book:
        assert book.recovery.damaged_lines == 0
        assert [record.id for record in book.open_intents] == ["open", "also open"]


async def test_numbers_go_on_where_the_last_writer_ended(
    running: Running, intent: MakeIntent
) -> None:
    async with running() as book:
        last = await book.append(intent("a"))

    async with running() as book:
        assert await book.append(intent("b")) == last + 2  # a checkpoint stands between


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
            await book.append_lasting(outcome("a"))


async def test_two_outcomes_at_the_same_moment_become_one(
    running: Running, intent: MakeIntent, outcome: MakeOutcome, tmp_path: Path
) -> None:
    refused = []

    async with running() as book:
        await book.append(intent("a"))

        async def end() -> None:
            try:
                await book.append_lasting(outcome("a"))
            except JournalError as error:
                refused.append(error)

        async with anyio.create_task_group() as group:
            group.start_soon(end)
            group.start_soon(end)

    assert len(refused) == 1
    ends = [event.causationid for event in read(tmp_path) if event.type == EVICTION_SUCCEEDED]
    assert ends == ["a"]


async def test_no_intent_is_begun_while_too_many_are_open(
    running: Running, intent: MakeIntent, outcome: MakeOutcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_intents, "MAX_OPEN", 2)

    async with running() as book:
        await book.append(intent("a"))
        await book.append(intent("b"))
        with pytest.raises(JournalUnavailable, match="2 intents wait for their outcome"):
            await book.append(intent("c"))
        await book.append(outcome("a"))
        await book.append(intent("c"))


async def test_a_record_nobody_could_read_is_refused_and_the_journal_stays_well(
    running: Running, intent: MakeIntent, outcome: MakeOutcome
) -> None:
    long, not_unicode = outcome("a", detail="x" * (1 << 20)), outcome("a", detail="\udc80")

    async with running() as book:
        await book.append(intent("a"))
        with pytest.raises(JournalError, match="too long"):
            await book.append_lasting(long)
        with pytest.raises(JournalError, match="not Unicode"):
            await book.append_lasting(not_unicode)
        await book.append_lasting(outcome("a"))
        assert book.healthy


async def test_cancelling_the_writer_flushes_what_was_appended(
    running: Running, intent: MakeIntent, disk: Any, tmp_path: Path
) -> None:
    book = None
    async with anyio.create_task_group() as appenders:
        with anyio.CancelScope() as scope:
            async with running() as book:
                disk.free.clear()
                for key in "abc":
                    appenders.start_soon(book.append, intent(key))
                await until(lambda: len(book._intents._beginning) == 3)
                scope.cancel()

    assert sorted(ids(tmp_path)) == ["a", "b", "c"]


async def test_an_append_that_is_cancelled_may_reach_the_disk_and_then_stays_open(
    running: Running, intent: MakeIntent, disk: Any
) -> None:
    async with running() as book:
        disk.free.clear()
        with anyio.move_on_after(0.02):
            await book.append(intent("a"))
        disk.free.set()
        await until(lambda: bool(book.open_intents))

    assert [record.id for record in book.open_intents] == ["a"]


async def test_a_disk_that_never_answers_does_not_keep_the_process_from_ending(
    running: Running, intent: MakeIntent, disk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "FLUSH_WITHIN_S", 0.02)
    told = []

    async with running() as book, anyio.create_task_group() as group:

        async def append() -> None:
            with pytest.raises(JournalUnavailable, match="closed"):
                await book.append(intent("a"))
            told.append("a")

        disk.free.clear()
        group.start_soon(append)
        await until(lambda: book._intents._beginning == {"a"})
        await book.close()

    assert told == ["a"]


async def test_after_closing_appends_are_refused(running: Running, intent: MakeIntent) -> None:
    async with running() as book:
        pass

    assert (book.healthy, book.reason) == (False, "the journal is closed")
    with pytest.raises(JournalUnavailable, match="closed"):
        await book.append(intent("a"))


async def test_an_open_journal_writes_and_lets_go_of_its_directory(
    tmp_path: Path, clock: Any, intent: MakeIntent
) -> None:
    for key in "ab":
        async with journal.open_journal(tmp_path, MAKING, clock=clock) as book:
            await book.append(intent(key))

    assert ids(tmp_path) == ["a", "b"]
