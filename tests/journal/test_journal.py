"""What is appended is on disk, numbered and readable by others, many records at a time."""

import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any  # the troubled disk's class lives in conftest, which cannot be imported

import anyio
import pytest
from msgspec.structs import replace

from reactive_desched.api.event import CHECKPOINT, EVICTION_REQUESTED, EVICTION_SUCCEEDED
from reactive_desched.errors import RecordUnwritable
from reactive_desched.journal import journal
from reactive_desched.journal.disk import Disk
from reactive_desched.journal.events import read_events
from reactive_desched.journal.journal import Journal
from reactive_desched.journal.records import AnyEvent
from reactive_desched.journal.segments import list_segments, read_lines

pytestmark = pytest.mark.anyio

Running = Callable[..., AbstractAsyncContextManager[Journal]]
MakeIntent = Callable[[str], AnyEvent]
MakeOutcome = Callable[..., AnyEvent]
Requested = Callable[[], list[str]]


async def test_a_record_can_be_read_by_others_as_soon_as_append_returns(
    running: Running, intent: MakeIntent, outcome: MakeOutcome, tmp_path: Path
) -> None:
    async with running() as book:
        assert await book.append(intent("a")) == 2
        assert await book.append(outcome("a")) == 3
        heading, first, second = read_events(tmp_path)

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
        await anyio.wait_all_tasks_blocked()
        assert returned == []
        disk.free.set()

    assert returned == [2]


async def test_what_arrives_during_a_write_shares_the_next_one(
    running: Running, intent: MakeIntent, disk: Any, requested: Requested
) -> None:
    async with running() as book, anyio.create_task_group() as group:
        disk.free.clear()
        group.start_soon(book.append, intent("first"))
        await anyio.wait_all_tasks_blocked()
        for number in range(100):
            group.start_soon(book.append, intent(str(number)))
        await anyio.wait_all_tasks_blocked()
        disk.free.set()

    assert list(filter(None, disk.records_per_write))[:2] == [1, 100]
    assert set(requested()) == {"first", *map(str, range(100))}


async def test_an_intent_shares_the_write_of_the_records_just_before_it(
    running: Running, intent: MakeIntent, finding: MakeIntent, disk: Any
) -> None:
    async with running() as book:
        book.append_nowait(finding("first"))
        book.append_nowait(finding("second"))
        assert await book.append_whole(intent("third")) == 4  # behind the heading

    assert next(filter(None, disk.records_per_write)) == 3


async def test_an_intent_that_a_waiting_task_records_shares_the_write_of_its_decision(
    running: Running, intent: MakeIntent, finding: MakeIntent, disk: Any
) -> None:
    async with running() as book, anyio.create_task_group() as group:
        decided = anyio.Event()

        async def execute() -> None:
            await decided.wait()
            await book.append_whole(intent("second"))

        group.start_soon(execute)
        await anyio.wait_all_tasks_blocked()
        disk.appends.clear()
        book.append_nowait(finding("first"))
        decided.set()

    assert next(filter(None, disk.records_per_write)) == 2


async def test_no_file_is_written_or_synced_in_the_event_loop_however_fast_the_disk_is(
    running: Running,
    intent: MakeIntent,
    finding: MakeIntent,
    disk: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: set[str] = set()

    def note(name: str) -> Callable[..., Any]:
        original = getattr(Disk, name)

        def noted(*arguments: Any) -> Any:
            threads.add(threading.current_thread().name)
            return original(*arguments)

        return noted

    async with running(every_records=20, max_segment_bytes=20_000) as book:
        for name in ("append", "create", "reopen", "file_id", "check_same_file", "close"):
            monkeypatch.setattr(Disk, name, note(name))
        for number in range(200):  # each takes no time to speak of
            book.append_nowait(finding(str(number)))
            await book.append_whole(intent(str(number)))
        await book.finish()

    assert threads == {"journal disk"}


async def test_a_write_takes_a_bounded_number_of_records(
    running: Running, intent: MakeIntent, disk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "MAX_BATCH", 4)
    async with running() as book, anyio.create_task_group() as group:
        for number in range(10):
            group.start_soon(book.append, intent(str(number)))

    assert max(disk.records_per_write) == 4
    assert sum(disk.records_per_write) == 10


async def test_when_the_buffer_is_full_append_waits_and_then_succeeds(
    running: Running,
    intent: MakeIntent,
    disk: Any,
    monkeypatch: pytest.MonkeyPatch,
    requested: Requested,
) -> None:
    monkeypatch.setattr(journal, "MAX_BUFFERED", 3)
    async with running() as book, anyio.create_task_group() as group:
        disk.free.clear()
        for key in "abcdef":
            group.start_soon(book.append, intent(key))
        await anyio.wait_all_tasks_blocked()
        disk.free.set()

    assert max(disk.records_per_write) == 3
    assert set(requested()) == set("abcdef")


async def test_a_full_segment_is_followed_by_a_new_one_named_for_its_first_record(
    running: Running, intent: MakeIntent, tmp_path: Path, requested: Requested
) -> None:
    async with running(max_segment_bytes=2500) as book:
        for key in "abcdef":
            await book.append(intent(key))

    files = [segment.path.name for segment in list_segments(tmp_path)]
    firsts = [next(read_lines(segment)) for segment in list_segments(tmp_path)]
    assert files == [f"journal-{line.seq:020}.jsonl" for line in firsts]
    assert {line.header.type for line in firsts if line.header} == {CHECKPOINT}
    assert len(files) > 2
    assert requested() == list("abcdef")
    seqs = [int(event.sequence) for event in read_events(tmp_path)]
    assert seqs == list(range(1, len(seqs) + 1))


async def test_numbers_continue_where_the_last_writer_ended(
    running: Running, intent: MakeIntent
) -> None:
    async with running() as book:
        last = await book.append(intent("a"))

    async with running() as book:
        assert await book.append(intent("b")) == last + 2  # a checkpoint stands between


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        pytest.param("x" * (1 << 20), "too long", id="too long"),
        pytest.param("\udc80", "not Unicode", id="no Unicode"),
    ],
)
async def test_what_happened_is_recorded_though_its_record_cannot_be_written_as_it_is(
    running: Running,
    intent: MakeIntent,
    outcome: MakeOutcome,
    finding: MakeIntent,
    tmp_path: Path,
    message: str,
    problem: str,
) -> None:
    unreadable = outcome("a", message=message)

    async with running() as book:
        await book.append(intent("a"))
        await book.append_until_durable(unreadable)
        found = finding("b")
        why = replace(found.data.why, message=message)
        book.append_nowait(replace(found, data=replace(found.data, why=why)))
        await book.append(intent("c"))
        events = tuple(read_events(tmp_path))

    ended = next(event for event in events if event.causationid == "a")
    assert ended.type == EVICTION_SUCCEEDED
    assert "held was cut:" in ended.data.why.message
    assert problem in ended.data.why.message
    assert (ended.data.who.name, ended.data.outcome.result) == ("web-a", "evicted")
    assert [event.id for event in events if event.id in ("found-b", "c")] == ["found-b", "c"]


async def test_an_intent_whose_record_cannot_be_written_whole_is_refused(
    running: Running, intent: MakeIntent
) -> None:
    numbers = {f"n{each}": "x" * 1000 for each in range(300)}

    async with running() as book:
        whole = intent("a")
        too_long = replace(
            whole, data=replace(whole.data, why=replace(whole.data.why, numbers=numbers))
        )
        with pytest.raises(RecordUnwritable, match="too long"):
            await book.append_whole(too_long)
        await book.append_whole(whole)
        assert [each.event.id for each in book.open_intents] == ["a"]
