"""Files that are damaged, compressed, or change while they are read."""

import zlib
from pathlib import Path
from typing import IO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.audit import verification
from reactive_desched.audit.live_files import open_segment
from reactive_desched.audit.verification import verify
from reactive_desched.journal.segments import Segment, list_segments, segment_at
from reactive_desched.journal.signing.signed_note import parse_key
from tests.support.journals import new_signer, some_events, write_journal
from tests.support.tampering import (
    SampleJournal,
    compressed,
    decompressed,
    first_bad,
    make_journal,
    verify_files,
    with_flipped_byte,
    without_files,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SampleJournal:
    return make_journal(tmp_path_factory.mktemp("journal"))


def listed_before(monkeypatch: pytest.MonkeyPatch, folder: Path, made: SampleJournal) -> None:
    """Let the folder's list be of the time when all files were there, uncompressed."""
    listed = [segment_at(folder, int(name[8:28])) for name in sorted(made.files)]
    monkeypatch.setattr(verification, "list_segments", lambda _: listed)


def test_a_file_that_was_compressed_since_the_folder_was_listed_is_read(
    made: SampleJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed_before(monkeypatch, tmp_path, made)

    report = verify_files(compressed(made), made.signer, folder=tmp_path)

    assert report.ok, report.bad
    assert (report.records, report.compressed) == (23, 3)


def test_files_that_retention_removed_since_the_folder_was_listed_are_no_fault(
    made: SampleJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed_before(monkeypatch, tmp_path, made)

    report = verify_files(without_files(made, 1, 8), made.signer, folder=tmp_path)

    assert report.ok, report.bad
    assert (report.records, report.removed) == (9, 2)


def test_retention_may_come_past_the_place_where_we_are(
    made: SampleJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_and_lose(one: Segment) -> tuple[Segment, IO[bytes]] | None:
        opened = open_segment(one)
        for start in (1, 8):
            (tmp_path / made.file_of(start)).unlink(missing_ok=True)
        return opened

    monkeypatch.setattr(verification, "open_segment", open_and_lose)

    report = verify_files(made.files, made.signer, folder=tmp_path)

    assert report.ok, report.bad
    assert (report.records, report.removed) == (7 + 9, 1)


def test_a_file_in_the_middle_that_goes_meanwhile_is_missing(
    made: SampleJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed_before(monkeypatch, tmp_path, made)

    bad = verify_files(without_files(made, 8), made.signer, folder=tmp_path).bad

    assert bad is not None
    assert (bad.sequence, bad.file) == (8, made.file_of(8))


def test_a_compressed_file_that_ends_too_early_is_found(made: SampleJournal) -> None:
    name = made.file_of(8) + ".gz"
    files = compressed(made)

    many = len(files[name])
    for size in (*range(1, many, 97), *range(many - 9, many)):
        bad = first_bad({**files, name: files[name][:size]}, made.signer)
        left = zlib.decompressobj(31).decompress(files[name][:size])
        assert (bad.file, bad.sequence) == (name, min(8 + left.count(b"\n"), 14))
        assert bad.offset == left.rfind(b"\n") + 1
        assert "damaged" in bad.reason


@pytest.mark.parametrize("lines", range(7))
def test_all_that_a_damaged_file_still_gives_is_read(made: SampleJournal, lines: int) -> None:
    name = made.file_of(8)
    text = b"".join(made.files[name].splitlines(keepends=True)[:lines])
    pack = zlib.compressobj(wbits=31)
    broken = pack.compress(text) + pack.flush(zlib.Z_FULL_FLUSH) + b"\xff" * 50

    bad = first_bad({**without_files(made, 8), f"{name}.gz": broken}, made.signer)

    assert (bad.sequence, bad.file, bad.offset) == (8 + lines, f"{name}.gz", len(text))


def test_of_a_large_damaged_file_no_record_is_lost_or_given_twice(tmp_path: Path) -> None:
    records = write_journal(tmp_path, some_events(600), per_segment=500)
    path = list_segments(tmp_path)[0].path
    text = b"".join(path.read_bytes().splitlines(keepends=True)[:432])
    pack = zlib.compressobj(wbits=31)
    broken = pack.compress(text) + pack.flush(zlib.Z_FULL_FLUSH) + b"\xff" * 50
    path.with_name(path.name + ".gz").write_bytes(broken)
    path.unlink()

    report = verify(tmp_path, [parse_key(new_signer(tmp_path).public_key)], "", None)

    assert report.records == 432
    assert report.bad is not None
    assert (report.bad.sequence, report.bad.offset) == (records[432].seq, len(text))


@given(place=st.integers(0, 99_999), mask=st.integers(1, 255))
def test_a_changed_byte_in_a_compressed_file_is_found(
    made: SampleJournal, place: int, mask: int
) -> None:
    name, files = made.file_of(8) + ".gz", compressed(made)
    header = 10  # who compressed it, and when
    at = header + place % (len(files[name]) - header)
    changed = with_flipped_byte(files[name], at, mask)
    if decompressed(changed) == made.files[made.file_of(8)]:
        return  # some bits of a compressed stream mean nothing

    bad = first_bad({**files, name: changed}, made.signer)

    assert bad.file == name
    assert 8 <= bad.sequence <= 14


def test_a_compressed_file_whose_checksum_alone_is_wrong_is_found(made: SampleJournal) -> None:
    name, files = made.file_of(8) + ".gz", compressed(made)

    bad = first_bad(
        {**files, name: with_flipped_byte(files[name], len(files[name]) - 6)}, made.signer
    )

    assert (bad.sequence, bad.file) == (14, name)
