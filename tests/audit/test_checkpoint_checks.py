"""History that was written anew is found by what was signed; keys, and changes of keys."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from reactive_desched.api.event import CHECKPOINT, Checkpoint
from reactive_desched.audit.findings import SequenceRange
from reactive_desched.audit.pinned_checkpoint import PinnedCheckpoint, parse_pinned
from reactive_desched.journal.events import decode_event
from reactive_desched.journal.records import digest, encode, format_line
from reactive_desched.journal.signing.signer import Ed25519Signer
from tests.support.golden import Golden
from tests.support.journals import new_signer
from tests.support.tampering import (
    SampleJournal,
    first_bad,
    in_base64,
    in_files,
    make_journal,
    re_checkpointed,
    resigned_by,
    rewritten,
    verify_files,
    verify_intact,
    without_files,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SampleJournal:
    return make_journal(tmp_path_factory.mktemp("journal"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Ed25519Signer:
    """Somebody else's key, under the same name."""
    return new_signer(tmp_path_factory.mktemp("other"))


def test_a_record_changed_and_chained_anew_is_found_by_the_next_checkpoint(
    made: SampleJournal,
) -> None:
    raws = rewritten(made, 10, lambda raw: raw.replace(b"shop", b"bank"))

    bad = first_bad(in_files(made, raws), made.signer)

    assert (bad.sequence, bad.suspects) == (12, SequenceRange(8, 11))


def test_checkpoints_that_follow_without_a_right_signature_are_found(made: SampleJournal) -> None:
    raws = rewritten(made, 10, lambda raw: raw.replace(b"shop", b"bank"))

    def follow(data: Checkpoint, prev: str) -> Checkpoint:
        was = parse_pinned(data.note).root
        note = data.note.replace(in_base64(was), in_base64(prev))
        return msgspec.structs.replace(data, root=prev, note=note)

    bad = first_bad(in_files(made, re_checkpointed(raws, follow)), made.signer)

    assert bad.sequence == 12
    assert bad.suspects is not None
    assert (bad.suspects.first, bad.suspects.last) == (8, 12)


def test_history_signed_anew_with_another_key_is_found(
    made: SampleJournal, other: Ed25519Signer
) -> None:
    raws = rewritten(made, 10, lambda raw: raw.replace(b"shop", b"bank"))

    report = verify_files(in_files(made, resigned_by(other, raws, since=12)), made.signer)

    assert report.bad is not None
    assert report.bad.sequence == 12
    assert "not trusted" in report.bad.reason
    assert report.signed_to == 7
    assert [use.first for use in report.unknown] == [12]


def test_without_its_checkpoints_a_new_history_is_found_by_a_kept_one(made: SampleJournal) -> None:
    raws = [entry.raw for entry in made.records[:21]]
    raws[20] = raws[20].replace(b"shop", b"bank")
    files = without_files(made._replace(files=in_files(made, raws)), 22)
    assert verify_intact(files, made.signer).unsigned == 3

    bad = first_bad(files, made.signer, kept=PinnedCheckpoint(21, digest(made.raw(21))))

    assert (bad.sequence, bad.file) == (21, made.file_of(15))
    assert bad.suspects == SequenceRange(1, 21)


@pytest.mark.parametrize(
    "change",
    [
        lambda data, _: msgspec.structs.replace(data, size=data.size + 1),
        lambda data, _: msgspec.structs.replace(data, root="ab" * 32),
        lambda data, _: msgspec.structs.replace(data, note="nothing"),
    ],
    ids=["its size", "its root", "its note"],
)
def test_a_checkpoint_that_contradicts_itself_is_bad(
    made: SampleJournal, change: Callable[[Checkpoint, str], Checkpoint], golden: Golden
) -> None:
    bad = first_bad(
        in_files(made, re_checkpointed([one.raw for one in made.records], change)), made.signer
    )

    assert bad.sequence == 1
    assert golden() in bad.reason


@pytest.mark.parametrize("data_too", [True, False])
def test_a_checkpoint_that_was_signed_for_another_place_is_bad(
    made: SampleJournal, golden: Golden, *, data_too: bool
) -> None:
    def moved(data: Checkpoint, prev: str) -> Checkpoint:
        size = data.size + 1
        note = made.signer.sign(size, prev)
        return msgspec.structs.replace(data, note=note, size=size if data_too else data.size)

    bad = first_bad(
        in_files(made, re_checkpointed([one.raw for one in made.records], moved)), made.signer
    )

    assert (bad.sequence, bad.reason) == (1, golden())


def test_the_first_record_of_all_follows_none(made: SampleJournal, golden: Golden) -> None:
    first = made.raw(1).replace(b"0" * 64, b"ab" * 32)
    read = decode_event(CHECKPOINT, first)
    assert read is not None
    note = made.signer.sign(0, "ab" * 32)
    data = msgspec.structs.replace(read.data, note=note)
    fresh = msgspec.structs.replace(read, data=data, prev="", recordedtime="", sequence="")
    raws = [format_line(encode(fresh), "ab" * 32, read.recordedtime, 1)]

    bad = first_bad({made.file_of(1): raws[0] + b"\n"}, made.signer)

    assert (bad.sequence, bad.reason) == (1, golden())


def test_a_note_of_another_journal_is_bad(made: SampleJournal, tmp_path: Path) -> None:
    signer = new_signer(tmp_path, "//elsewhere/descheduler/x/1")
    raws = resigned_by(signer, [one.raw for one in made.records], since=5)

    bad = first_bad(in_files(made, raws), made.signer, signer)

    assert bad.sequence == 5
    assert "another journal" in bad.reason


def test_after_a_change_of_keys_both_are_needed(made: SampleJournal, other: Ed25519Signer) -> None:
    files = in_files(made, resigned_by(other, [one.raw for one in made.records], since=12))

    report = verify_intact(files, made.signer, other)

    assert [(use.first, use.last) for use in report.verified] == [(1, 8), (12, 22)]
    assert report.unknown == ()


def test_the_new_key_vouches_for_what_the_old_one_signed(
    made: SampleJournal, other: Ed25519Signer
) -> None:
    files = in_files(made, resigned_by(other, [one.raw for one in made.records], since=12))

    report = verify_intact(files, other)

    assert [(use.first, use.last, use.checkpoints) for use in report.unknown] == [(1, 8, 3)]


def test_the_old_key_does_not_vouch_for_what_only_the_new_one_signed(
    made: SampleJournal, other: Ed25519Signer
) -> None:
    files = in_files(made, resigned_by(other, [one.raw for one in made.records], since=12))

    bad = first_bad(files, made.signer)

    assert bad.sequence == 12


def test_with_the_wrong_key_nothing_is_proved(made: SampleJournal, other: Ed25519Signer) -> None:
    report = verify_files(made.files, other)

    assert report.bad is not None
    assert report.bad.sequence == 1
    assert report.verified == ()
