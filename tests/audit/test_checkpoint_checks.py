"""History that was written anew is found by what was signed; keys, and changes of keys."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from reactive_desched.api.event import CHECKPOINT, Checkpoint
from reactive_desched.audit.findings import Range
from reactive_desched.audit.pinned_checkpoint import Kept, parse_kept
from reactive_desched.journal.events import event
from reactive_desched.journal.records import digest, encode, line
from reactive_desched.journal.signing.signer import Signer
from tests.support.journals import new_signer
from tests.support.tampering import (
    Made,
    found,
    in_base64,
    in_files,
    look,
    make,
    resealed,
    resealed_by,
    rewritten,
    whole,
    without,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("journal"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    """Somebody else's key, under the same name."""
    return new_signer(tmp_path_factory.mktemp("other"))


def test_a_record_changed_and_chained_anew_is_found_by_the_next_checkpoint(made: Made) -> None:
    raws = rewritten(made, 10, lambda raw: raw.replace(b"shop", b"bank"))

    bad = found(in_files(made, raws), made.signer)

    assert (bad.sequence, bad.suspects) == (12, Range(8, 11))


def test_checkpoints_that_follow_without_a_right_signature_are_found(made: Made) -> None:
    raws = rewritten(made, 10, lambda raw: raw.replace(b"shop", b"bank"))

    def follow(data: Checkpoint, prev: str) -> Checkpoint:
        was = parse_kept(data.note).root
        note = data.note.replace(in_base64(was), in_base64(prev))
        return msgspec.structs.replace(data, root=prev, note=note)

    bad = found(in_files(made, resealed(raws, follow)), made.signer)

    assert bad.sequence == 12
    assert bad.suspects is not None
    assert (bad.suspects.first, bad.suspects.last) == (8, 12)


def test_history_signed_anew_by_somebody_else_is_found(made: Made, other: Signer) -> None:
    raws = rewritten(made, 10, lambda raw: raw.replace(b"shop", b"bank"))

    report = look(in_files(made, resealed_by(other, raws, since=12)), made.signer)

    assert report.bad is not None
    assert report.bad.sequence == 12
    assert "not trusted" in report.bad.reason
    assert report.signed_to == 7
    assert [use.first for use in report.unknown] == [12]


def test_without_its_checkpoints_a_new_history_is_found_by_a_kept_one(made: Made) -> None:
    raws = [entry.raw for entry in made.records[:21]]
    raws[20] = raws[20].replace(b"shop", b"bank")
    files = without(made._replace(files=in_files(made, raws)), 22)
    assert whole(files, made.signer).unsigned == 3

    bad = found(files, made.signer, kept=Kept(21, digest(made.raw(21))))

    assert (bad.sequence, bad.file) == (21, made.named(15))
    assert bad.suspects == Range(1, 21)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda data, _: msgspec.structs.replace(data, size=data.size + 1), "stands after"),
        (lambda data, _: msgspec.structs.replace(data, root="ab" * 32), "not the one in its note"),
        (lambda data, _: msgspec.structs.replace(data, note="nothing"), "no checkpoint's note"),
    ],
    ids=["its size", "its root", "its note"],
)
def test_a_checkpoint_that_contradicts_itself_is_bad(
    made: Made, change: Callable[[Checkpoint, str], Checkpoint], reason: str
) -> None:
    bad = found(in_files(made, resealed([one.raw for one in made.records], change)), made.signer)

    assert bad.sequence == 1
    assert reason in bad.reason


@pytest.mark.parametrize("data_too", [True, False])
def test_a_checkpoint_that_was_signed_for_another_place_is_bad(
    made: Made, *, data_too: bool
) -> None:
    def moved(data: Checkpoint, prev: str) -> Checkpoint:
        size = data.size + 1
        note = made.signer.note(size, prev)
        return msgspec.structs.replace(data, note=note, size=size if data_too else data.size)

    bad = found(in_files(made, resealed([one.raw for one in made.records], moved)), made.signer)

    assert (bad.sequence, bad.reason) == (1, "it speaks of 1 records, and stands after 0")


def test_the_first_record_of_all_follows_none(made: Made) -> None:
    first = made.raw(1).replace(b"0" * 64, b"ab" * 32)
    read = event(CHECKPOINT, first)
    assert read is not None
    note = made.signer.note(0, "ab" * 32)
    data = msgspec.structs.replace(read.data, note=note)
    fresh = msgspec.structs.replace(read, data=data, prev="", recordedtime="", sequence="")
    raws = [line(encode(fresh), "ab" * 32, read.recordedtime, 1)]

    bad = found({made.named(1): raws[0] + b"\n"}, made.signer)

    assert (bad.sequence, bad.reason) == (1, "the first record of all follows another")


def test_a_note_of_another_journal_is_bad(made: Made, tmp_path: Path) -> None:
    signer = new_signer(tmp_path, "//elsewhere/descheduler/x/1")
    raws = resealed_by(signer, [one.raw for one in made.records], since=5)

    bad = found(in_files(made, raws), made.signer, signer)

    assert bad.sequence == 5
    assert "another journal" in bad.reason


def test_after_a_change_of_keys_both_are_needed(made: Made, other: Signer) -> None:
    files = in_files(made, resealed_by(other, [one.raw for one in made.records], since=12))

    report = whole(files, made.signer, other)

    assert [(use.first, use.last) for use in report.verified] == [(1, 8), (12, 22)]
    assert report.unknown == ()


def test_the_new_key_vouches_for_what_the_old_one_signed(made: Made, other: Signer) -> None:
    files = in_files(made, resealed_by(other, [one.raw for one in made.records], since=12))

    report = whole(files, other)

    assert [(use.first, use.last, use.checkpoints) for use in report.unknown] == [(1, 8, 3)]


def test_the_old_key_does_not_vouch_for_what_only_the_new_one_signed(
    made: Made, other: Signer
) -> None:
    files = in_files(made, resealed_by(other, [one.raw for one in made.records], since=12))

    bad = found(files, made.signer)

    assert bad.sequence == 12


def test_with_the_wrong_key_nothing_is_proved(made: Made, other: Signer) -> None:
    report = look(made.files, other)

    assert report.bad is not None
    assert report.bad.sequence == 1
    assert report.verified == ()
