"""A journal whose end was cut off, or that was replaced: nobody may take what follows for it."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from reactive_desched.api.event import CHECKPOINT, EPOCH_BEGAN, EVICTION_REQUESTED, EpochBegan
from reactive_desched.audit.findings import VerifyReport
from reactive_desched.audit.opening import open_catalogue
from reactive_desched.audit.pinned_checkpoint import PinnedCheckpoint, parse_pinned
from reactive_desched.audit.status import journal_status
from reactive_desched.audit.status_text import status_lines
from reactive_desched.audit.verification import verify
from reactive_desched.audit.verify_report import report_lines
from reactive_desched.journal import opened
from reactive_desched.journal.cursors import Cursors
from reactive_desched.journal.events import read_events
from reactive_desched.journal.journal import Journal
from reactive_desched.journal.paths import CURSORS_DIR
from reactive_desched.journal.records import AnyEvent
from reactive_desched.journal.segments import list_segments
from reactive_desched.journal.signing.signed_note import parse_key
from reactive_desched.journal.signing.signer import KEY_FILE, PUBLIC_FILE
from reactive_desched.text.layout import TextLayout

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 3, 29, 2, 30, tzinfo=UTC)
Running = Callable[..., AbstractAsyncContextManager[Journal]]
MakeIntent = Callable[[str], AnyEvent]


def cut_after(directory: Path, records: int) -> None:
    [one] = list_segments(directory)
    one.path.write_bytes(b"".join(one.path.read_bytes().splitlines(keepends=True)[:records]))


async def append(book: Journal, event: AnyEvent) -> None:
    """Append it as the recorder does: under the journal's own source."""
    await book.append(replace(event, source=book.source))


def verified(directory: Path, kept: PinnedCheckpoint | None = None) -> VerifyReport:
    keys = [parse_key(text) for text in (directory / PUBLIC_FILE).read_text().split()]
    return verify(directory, keys, "--key", kept)


def text_of(report: VerifyReport) -> str:
    return "\n".join(report_lines(report))


def kept_at(directory: Path, size: int) -> PinnedCheckpoint:
    """Return the checkpoint that speaks of so many records."""
    [found] = [e for e in read_events(directory) if e.type == CHECKPOINT and e.data.size == size]
    return parse_pinned(found.data.note)


def positions(directory: Path, **kept: int) -> Cursors:
    found = Cursors(directory / CURSORS_DIR)
    for name, seq in kept.items():
        found.save(name, seq, "2026-03-29T01:30:00Z")
    return found


async def test_behind_a_cut_end_another_epoch_begins_and_no_follower_misses_what_comes(
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


async def test_a_journal_that_reaches_as_far_as_its_followers_continues_in_its_epoch(
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

    report = verified(tmp_path)

    assert len(report.verified) == 2
    assert report.bad is None
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


async def test_the_start_of_another_epoch_is_a_record_that_says_what_is_missing_and_why(
    running: Running, intent: MakeIntent, tmp_path: Path
) -> None:
    async with running() as book:
        first = book.source
        for key in "abcd":
            await append(book, intent(key))
    positions(tmp_path, kafka=5)
    cut_after(tmp_path, 3)

    async with running() as book:
        second = book.source
    async with running():
        pass

    [began] = [event for event in read_events(tmp_path) if event.type == EPOCH_BEGAN]
    assert (began.source, int(began.sequence)) == (second, 4)
    assert began.data == EpochBegan(
        previous=first, first_missing=4, last_missing=5, message=began.data.message
    )
    assert "up to 5" in began.data.message


async def test_a_change_of_epoch_that_lost_nothing_says_so(
    running: Running, intent: MakeIntent, tmp_path: Path
) -> None:
    async with running() as book:
        await append(book, intent("a"))
    [one] = list_segments(tmp_path)
    raw = one.path.read_bytes().splitlines(keepends=True)
    raw[-1] = raw[-1].replace(b'"time":"2026', b'"time":"x026')  # whole, and not to be understood
    one.path.write_bytes(b"".join(raw))

    async with running():
        pass

    [began] = [event for event in read_events(tmp_path) if event.type == EPOCH_BEGAN]
    assert (began.data.previous, began.data.first_missing, began.data.last_missing) == (
        "",
        None,
        None,
    )


async def test_a_journal_that_is_begun_begins_no_other_epoch(
    running: Running, intent: MakeIntent, tmp_path: Path
) -> None:
    for key in "ab":
        async with running() as book:
            await append(book, intent(key))

    assert EPOCH_BEGAN not in [event.type for event in read_events(tmp_path)]
    assert verified(tmp_path).epochs == ()


async def test_a_start_and_a_stop_hide_no_cut_off_end(
    running: Running, intent: MakeIntent, tmp_path: Path
) -> None:
    async with running() as book:
        for key in "abcd":
            await append(book, intent(key))
    positions(tmp_path, kafka=5)
    cut_after(tmp_path, 3)
    for _ in range(2):
        async with running():
            pass

    report = verified(tmp_path)

    assert not report.ok
    assert report.bad is None
    [epoch] = report.epochs
    assert (epoch.sequence, epoch.first_missing, epoch.last_missing) == (4, 4, 5)
    assert "whole" not in text_of(report)
    assert "records 4 to 5" in text_of(report)


async def test_a_change_of_epoch_without_a_record_of_it_is_named_too(
    running: Running, intent: MakeIntent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running() as book:
        for key in "abcd":
            await append(book, intent(key))
    positions(tmp_path, kafka=5)
    cut_after(tmp_path, 3)
    monkeypatch.setattr(opened, "_record_epoch", lambda *_: None)
    async with running() as book:
        await append(book, intent("e"))

    report = verified(tmp_path)

    [epoch] = report.epochs
    assert (report.ok, report.bad) == (False, None)
    assert (epoch.first_missing, epoch.last_missing) == (None, None)
    assert "no record" in text_of(report)


@pytest.mark.parametrize("kept_as", ["note", "numbers"])
async def test_a_kept_checkpoint_that_covers_lost_records_says_that_they_are_lost(
    running: Running, intent: MakeIntent, tmp_path: Path, kept_as: str
) -> None:
    async with running() as book:
        for key in "abcd":
            await append(book, intent(key))
    kept = kept_at(tmp_path, 5)
    if kept_as == "numbers":
        kept = kept._replace(note=None)
    positions(tmp_path, kafka=5)
    cut_after(tmp_path, 3)
    async with running() as book:
        for key in "ef":
            await append(book, intent(key))

    report = verified(tmp_path, kept)

    assert report.bad is not None
    assert report.bad.sequence == 4
    assert "written anew" not in report.bad.reason
    assert "records 4 to 5" in report.bad.reason
    assert "another epoch" in report.bad.reason


async def test_a_kept_checkpoint_of_what_is_left_agrees_and_one_of_the_new_epoch_too(
    running: Running, intent: MakeIntent, tmp_path: Path
) -> None:
    async with running(every_records=2) as book:
        for key in "abcd":
            await append(book, intent(key))
    old = kept_at(tmp_path, 3)
    positions(tmp_path, kafka=7)
    cut_after(tmp_path, 4)
    async with running() as book:
        await append(book, intent("e"))

    for kept in (old, kept_at(tmp_path, 5)):
        report = verified(tmp_path, kept)
        assert report.kept is not None
        assert report.kept.agrees
        assert report.bad is None


async def test_the_status_shows_where_another_epoch_began(
    running: Running, intent: MakeIntent, tmp_path: Path
) -> None:
    async with running() as book:
        first = book.source
        for key in "abcd":
            await append(book, intent(key))
    positions(tmp_path, kafka=5)
    cut_after(tmp_path, 3)
    async with running():
        pass

    with open_catalogue(tmp_path, tmp_path) as catalogue:
        found = journal_status(catalogue, NOW)

    [epoch] = found.epochs
    assert (epoch.sequence, epoch.previous) == (4, first)
    assert (epoch.first_missing, epoch.last_missing) == (4, 5)
    assert "records 4 to 5" in " ".join("\n".join(status_lines(found, TextLayout())).split())
