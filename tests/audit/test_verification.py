"""What is whole is told to be whole, and a kept checkpoint is held against it."""

from pathlib import Path

import pytest

from reactive_desched.audit.pinned_checkpoint import PinnedCheckpoint, parse_pinned
from reactive_desched.audit.verification import verify
from reactive_desched.errors import ConfigError
from reactive_desched.journal.records import digest
from reactive_desched.journal.signing.signed_note import parse_key
from tests.support.journals import new_signer
from tests.support.tampering import (
    SampleJournal,
    compressed,
    first_bad,
    in_files,
    make_journal,
    verify_files,
    verify_intact,
    without_files,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SampleJournal:
    return make_journal(tmp_path_factory.mktemp("journal"))


def test_a_whole_journal_is_whole_and_says_what_vouches_for_it(made: SampleJournal) -> None:
    report = verify_intact(made.files, made.signer)

    assert (report.records, report.segments, report.compressed) == (23, 4, 0)
    assert report.first is not None
    assert (report.first.sequence, report.first.time) == (1, "2026-03-29T01:30:01.000000Z")
    assert report.last is not None
    assert (report.last.sequence, report.last.time) == (23, "2026-03-29T01:30:23.000000Z")
    (use,) = report.verified
    assert (use.checkpoints, use.first, use.last) == (7, 1, 22)
    assert (report.signed_to, report.unsigned) == (21, 2)


def test_compressed_files_count_like_plain_ones(made: SampleJournal) -> None:
    report = verify_intact(compressed(made), made.signer)

    assert (report.records, report.segments, report.compressed) == (23, 4, 3)


def test_a_journal_that_retention_cut_off_in_front_begins_with_a_checkpoint(
    made: SampleJournal,
) -> None:
    report = verify_intact(without_files(made, 1, 8), made.signer)

    assert report.first is not None
    assert (report.first.sequence, report.records) == (15, 9)


@pytest.mark.parametrize("kept_bytes", [1, 70, -1])
def test_a_torn_last_line_is_reported_and_is_no_fault(made: SampleJournal, kept_bytes: int) -> None:
    name, offset = made.file_and_offset(23)
    last = made.raw(23) + b"\n"
    torn = {**made.files, name: made.files[name][:offset] + last[:kept_bytes]}

    report = verify_intact(torn, made.signer)

    assert report.records == 22
    assert report.torn is not None
    found = (report.torn.file, report.torn.offset, report.torn.bytes)
    assert found == (name, offset, len(last[:kept_bytes]))


@pytest.mark.parametrize("written", [0, 100])
def test_a_file_whose_heading_is_not_written_yet_is_no_fault(
    made: SampleJournal, written: int
) -> None:
    name = made.file_of(22)

    report = verify_intact({**made.files, name: made.files[name][:written]}, made.signer)

    assert report.records == 21
    assert (report.torn is not None) == (written > 0)


def test_a_journal_that_is_being_written_is_whole_at_every_moment(
    made: SampleJournal, tmp_path: Path
) -> None:
    name = made.file_of(22)
    for size in range(0, len(made.files[name]), 37):
        part = {**made.files, name: made.files[name][:size]}
        assert verify_files(part, made.signer, folder=tmp_path).ok, size


def test_a_kept_checkpoint_that_is_true_agrees(made: SampleJournal) -> None:
    for size in range(24):
        root = digest(made.raw(size)) if size else "0" * 64
        report = verify_intact(made.files, made.signer, kept=PinnedCheckpoint(size, root[:12]))
        assert report.kept is not None
        assert (report.kept.size, report.kept.agrees) == (size, True)


def test_a_kept_note_names_the_key_that_signed_it(made: SampleJournal) -> None:
    kept = parse_pinned(made.signer.sign(21, digest(made.raw(21))))

    report = verify_intact(made.files, made.signer, kept=kept)

    assert report.kept is not None
    assert report.kept.key == parse_key(made.signer.public_key).identity


@pytest.mark.parametrize("last", [21, 22])
def test_an_end_that_was_cut_off_is_found_by_a_kept_checkpoint(
    made: SampleJournal, last: int
) -> None:
    raws = [entry.raw for entry in made.records[:last]]
    files = {name: raw for name, raw in in_files(made, [*raws, b""]).items() if raw.strip()}
    files = {name: raw.replace(b"\n\n", b"\n") for name, raw in files.items()}

    bad = first_bad(files, made.signer, kept=PinnedCheckpoint(23, digest(made.raw(23))))

    assert bad.sequence == last + 1
    assert "cut off" in bad.reason


def test_a_journal_without_any_file_is_cut_off_too(made: SampleJournal) -> None:
    assert first_bad({}, made.signer, kept=PinnedCheckpoint(3, "0" * 12)).sequence == 1


@pytest.mark.parametrize("size", range(1, 24))
def test_a_kept_checkpoint_that_says_another_hash_is_reported(
    made: SampleJournal, size: int
) -> None:
    report = verify_files(made.files, made.signer, kept=PinnedCheckpoint(size, "123456789abc"))

    assert report.bad is not None
    assert report.bad.sequence == size
    assert (report.bad.file, report.bad.offset) == made.file_and_offset(size)
    assert report.kept is not None
    assert report.kept.agrees is False


def test_a_kept_checkpoint_over_what_retention_removed_proves_nothing(made: SampleJournal) -> None:
    files = without_files(made, 1, 8)

    assert verify_intact(files, made.signer, kept=PinnedCheckpoint(14, digest(made.raw(14)))).ok
    bad = first_bad(files, made.signer, kept=PinnedCheckpoint(13, digest(made.raw(13))))

    assert bad.sequence == 13
    assert "no longer here" in bad.reason


def test_a_kept_checkpoint_of_another_journal_is_reported(
    made: SampleJournal, tmp_path: Path
) -> None:
    note = new_signer(tmp_path, "//elsewhere/descheduler/x/1").sign(5, digest(made.raw(5)))

    assert "elsewhere" in first_bad(made.files, made.signer, kept=parse_pinned(note)).reason


def test_a_kept_checkpoint_that_its_key_did_not_sign_is_refused(made: SampleJournal) -> None:
    note = made.signer.sign(5, digest(made.raw(5))).replace("\n5\n", "\n6\n")

    with pytest.raises(ConfigError, match="altered"):
        verify_files(made.files, made.signer, kept=parse_pinned(note))


def test_what_is_bad_before_it_leaves_a_kept_checkpoint_uncompared(made: SampleJournal) -> None:
    kept = PinnedCheckpoint(21, digest(made.raw(21)))

    report = verify_files(without_files(made, 8), made.signer, kept=kept)

    assert report.kept is not None
    assert report.kept.agrees is None


def test_a_folder_without_a_journal_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no journal here"):
        verify(tmp_path, [], "", None)


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        verify(tmp_path / "nowhere", [], "", None)
