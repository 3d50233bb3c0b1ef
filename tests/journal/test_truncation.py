"""A journal whose end was cut off, or that was replaced: nobody may take what follows for it."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from reactive_desched.api.event import EVICTION_REQUESTED
from reactive_desched.audit.verifying import verify
from reactive_desched.journal.cursors import Cursors
from reactive_desched.journal.journal import Journal
from reactive_desched.journal.paths import CURSORS_DIR
from reactive_desched.journal.reading import read_events
from reactive_desched.journal.records import AnyEvent
from reactive_desched.journal.segments import list_segments
from reactive_desched.journal.signing.signed_note import parse_key
from reactive_desched.journal.signing.signer import KEY_FILE, PUBLIC_FILE

pytestmark = pytest.mark.anyio

Running = Callable[..., AbstractAsyncContextManager[Journal]]
MakeIntent = Callable[[str], AnyEvent]


def cut_after(directory: Path, records: int) -> None:
    [one] = list_segments(directory)
    one.path.write_bytes(b"".join(one.path.read_bytes().splitlines(keepends=True)[:records]))


def positions(directory: Path, **kept: int) -> Cursors:
    found = Cursors(directory / CURSORS_DIR)
    for name, seq in kept.items():
        found.save(name, seq, "2026-03-29T01:30:00Z")
    return found


async def test_behind_a_cut_end_another_epoch_begins_and_nobody_misses_what_comes(
    running: Running, intent: MakeIntent, tmp_path: Path
) -> None:
    async with running() as book:
        first = book.source
        for key in "abcd":
            await book.append(intent(key))
    kept = positions(tmp_path, kafka=5, webhook=2)
    cut_after(tmp_path, 3)

    async with running() as book:
        assert (book.recovery.truncated_from, book.recovery.next_seq) == (5, 4)
        assert book.source != first
        assert book.source.rpartition("/")[0] == first.rpartition("/")[0]
        assert {name: at.seq for name, at in kept.all().items()} == {"kafka": 3, "webhook": 2}
        second = book.source

    async with running() as book:
        assert (book.recovery.truncated_from, book.source) == (0, second)


async def test_a_journal_that_reaches_as_far_as_its_followers_goes_on_in_its_epoch(
    running: Running, intent: MakeIntent, tmp_path: Path
) -> None:
    async with running() as book:
        first, last = book.source, await book.append(intent("a")) + 1
    positions(tmp_path, kafka=last)

    async with running() as book:
        assert (book.recovery.truncated_from, book.source) == (0, first)


async def test_a_journal_of_which_only_the_positions_are_left_is_another(
    running: Running, intent: MakeIntent, tmp_path: Path
) -> None:
    async with running() as book:
        first = book.source
        await book.append(intent("a"))
    kept = positions(tmp_path, kafka=3)
    for one in list_segments(tmp_path):
        one.path.unlink()

    async with running() as book:
        assert (book.recovery.truncated_from, book.recovery.next_seq) == (3, 1)
        assert book.source != first
        assert kept.all()["kafka"].seq == 0


async def test_verifying_sees_that_followers_had_more_than_there_is(
    running: Running, intent: MakeIntent, tmp_path: Path
) -> None:
    async with running() as book:
        for key in "abcd":
            await book.append(intent(key))
    keys = [parse_key((tmp_path / PUBLIC_FILE).read_text().split()[0])]
    positions(tmp_path, kafka=5)
    assert verify(tmp_path, keys, "--key", None).ok
    cut_after(tmp_path, 3)

    bad = verify(tmp_path, keys, "--key", None).bad

    assert bad is not None
    assert bad.sequence == 4
    assert "up to 5" in bad.reason


async def test_what_stands_behind_a_cut_end_verifies_with_the_keys_of_both_epochs(
    running: Running, intent: MakeIntent, tmp_path: Path
) -> None:
    async with running() as book:
        for key in "abcd":
            await book.append(intent(key))
    positions(tmp_path, kafka=5)
    cut_after(tmp_path, 3)
    async with running() as book:
        await book.append(intent("e"))

    keys = [parse_key(text) for text in (tmp_path / PUBLIC_FILE).read_text().split()]

    assert len(keys) == 2
    assert verify(tmp_path, keys, "--key", None).ok
    requested = [event.id for event in read_events(tmp_path) if event.type == EVICTION_REQUESTED]
    assert requested == ["a", "b", "e"]


async def test_another_key_is_noticed_and_another_epochs_name_for_it_is_not(
    running: Running, intent: MakeIntent, tmp_path: Path
) -> None:
    async with running() as book:
        await book.append(intent("a"))
        assert not book.recovery.has_new_key
    positions(tmp_path, kafka=99)
    async with running() as book:
        assert not book.recovery.has_new_key
    (tmp_path / KEY_FILE).unlink()
    async with running() as book:
        assert book.recovery.has_new_key
    async with running() as book:
        assert not book.recovery.has_new_key


async def test_what_is_no_public_key_does_not_stay_among_them(
    running: Running, tmp_path: Path
) -> None:
    async with running():
        pass
    path = tmp_path / PUBLIC_FILE
    path.write_text("x\n" + path.read_text())
    async with running():
        pass

    assert len([parse_key(text) for text in path.read_text().split()]) == 1
