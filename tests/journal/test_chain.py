"""What the journal writes besides what it is asked to: links, checkpoints, headings, gaps told."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest

from reactive_desched.api.event import CHECKPOINT, FINDING_MADE, JOURNAL_RESUMED
from reactive_desched.errors import JournalUnavailable
from reactive_desched.journal import journal as journal_module
from reactive_desched.journal.events import read_events
from reactive_desched.journal.journal import Journal
from reactive_desched.journal.records import GENESIS, AnyEvent, digest
from reactive_desched.journal.segments import list_segments
from reactive_desched.journal.signing.signed_note import (
    SignatureStatus,
    parse_key,
    parse_note,
    verify_note,
)

pytestmark = pytest.mark.anyio

Running = Callable[..., AbstractAsyncContextManager[Journal]]
MakeEvent = Callable[[str], AnyEvent]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "FIRST_RETRY_S", 0.01)
    monkeypatch.setattr(journal_module, "MAX_RETRY_S", 0.02)


async def until(claim: Callable[[], bool]) -> None:
    with anyio.fail_after(20):
        while not claim():  # noqa: ASYNC110  # what is waited for has no event to wait on
            await anyio.sleep(0.002)


def raw_lines(directory: Path) -> list[bytes]:
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.jsonl"))).splitlines()


async def test_every_record_holds_the_hash_of_the_line_before_across_files_and_restarts(
    running: Running, intent: MakeEvent, tmp_path: Path
) -> None:
    for life in "ab":
        async with running(max_segment_bytes=2500) as book:
            for key in "123456":
                await book.append(intent(life + key))

    raw, events = raw_lines(tmp_path), list(read_events(tmp_path))
    assert [event.prev for event in events] == [GENESIS, *map(digest, raw[:-1])]
    assert len(list_segments(tmp_path)) > 3
    assert len({event.source for event in events if event.type == CHECKPOINT}) == 1


async def test_a_checkpoint_signs_what_came_before_it(
    running: Running, intent: MakeEvent, tmp_path: Path
) -> None:
    async with running(every_records=3) as book:
        for key in "abcdefgh":
            await book.append(intent(key))
        signer = parse_key((tmp_path / "checkpoint.pub").read_text().strip())

    seals = [event for event in read_events(tmp_path) if event.type == CHECKPOINT]
    assert [int(seal.sequence) for seal in seals] == [1, 5, 9, 12]
    for seal in seals:
        note = parse_note(seal.data.note)
        assert verify_note(note, signer) is SignatureStatus.VALID
        assert (note.size, note.root) == (int(seal.sequence) - 1, seal.prev)
        assert (seal.data.size, seal.data.root) == (note.size, note.root)


async def test_a_quiet_journal_is_signed_once_after_a_while_and_not_again(
    running: Running, intent: MakeEvent, tmp_path: Path
) -> None:
    async with running(every_s=0.05) as book:
        await book.append(intent("a"))
        await until(lambda: book.tail.last_seq == 3)
        await anyio.sleep(0.2)
        assert book.tail.last_seq == 3
        assert (book.checkpointer.size, book.checkpointer.root) == (
            2,
            digest(raw_lines(tmp_path)[1]),
        )


async def test_at_the_end_everything_is_signed(
    running: Running, intent: MakeEvent, tmp_path: Path
) -> None:
    async with running() as book:
        await book.append(intent("a"))
    async with running():
        pass

    assert [event.type for event in read_events(tmp_path)][-1] == CHECKPOINT
    assert len(raw_lines(tmp_path)) == 3


async def test_a_reopened_journal_shows_its_last_checkpoint_at_once(
    running: Running, intent: MakeEvent, tmp_path: Path
) -> None:
    async with running() as book:
        await book.append(intent("a"))

    async with running() as book:
        assert (book.checkpointer.size, book.checkpointer.root) == (
            2,
            digest(raw_lines(tmp_path)[1]),
        )


async def test_a_note_stands_before_what_is_appended_after_it(
    running: Running, intent: MakeEvent, finding: MakeEvent, tmp_path: Path
) -> None:
    async with running() as book:
        book.append_nowait(finding("a"))
        await book.append(intent("a"))
        assert [event.id for event in read_events(tmp_path)][1:] == ["found-a", "a"]


async def test_a_note_outlasts_a_fault_of_the_disk_and_is_not_written_twice(
    running: Running, intent: MakeEvent, finding: MakeEvent, disk: Any, tmp_path: Path
) -> None:
    async with running() as book:
        disk.fault, disk.written_before_fault = OSError(28, "No space left on device"), 300
        book.append_nowait(finding("a"))
        with pytest.raises(JournalUnavailable):
            await book.append(intent("b"))
        book.append_nowait(finding("c"))
        disk.fault = None
        await until(lambda: book.healthy and book.tail.last_seq >= 4)

    told = [event.id for event in read_events(tmp_path) if event.type == FINDING_MADE]
    assert told == ["found-a", "found-c"]
    assert JOURNAL_RESUMED in [event.type for event in read_events(tmp_path)]
    raw, events = raw_lines(tmp_path), list(read_events(tmp_path))
    assert [event.prev for event in events] == [GENESIS, *map(digest, raw[:-1])]


async def test_what_is_left_out_is_counted_in_the_next_checkpoint(
    running: Running, intent: MakeEvent, finding: MakeEvent, tmp_path: Path
) -> None:
    async with running(every_records=2) as book:
        for _ in range(3):
            book.drop()
        book.drop_disruption()
        for key in "abcd":
            await book.append(intent(key))
        assert (book.records_unrecorded, book.disruptions_unrecorded) == (3, 1)

    seals = [event.data for event in read_events(tmp_path) if event.type == CHECKPOINT]
    assert [seal.unrecorded for seal in seals] == [0, 3, 0]
    assert [seal.unrecorded_disruptions for seal in seals] == [0, 1, 0]


async def test_while_too_much_is_on_its_way_notes_are_left_out(
    running: Running, finding: MakeEvent, disk: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(journal_module, "MAX_BUFFERED", 2)
    async with running() as book:
        disk.free.clear()
        for key in "abc":
            book.append_nowait(finding(key))
        assert book.records_unrecorded == 1
        disk.free.set()

    assert [e.id for e in read_events(tmp_path) if e.type == FINDING_MADE] == ["found-a", "found-b"]
