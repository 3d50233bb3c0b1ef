"""Every way to tamper with a journal is found, and the first bad record is named."""

import base64
import gzip
import tempfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.api.event import CHECKPOINT, Checkpoint
from reactive_desched.audit import verifying
from reactive_desched.audit.findings import Bad, Range, Report
from reactive_desched.audit.kept import Kept, parse_kept
from reactive_desched.audit.verifying import verify
from reactive_desched.errors import ConfigError
from reactive_desched.journal.checkpoint import Signer
from reactive_desched.journal.events import event
from reactive_desched.journal.notes import parse_key
from reactive_desched.journal.records import Entry, digest, encode, line, mark
from reactive_desched.journal.segments import segment, segments
from reactive_desched.testing.journals import new_signer, some_events, write_journal


class Made(NamedTuple):
    """A journal as it was written: its files, its records in order, and its signer."""

    files: dict[str, bytes]
    records: list[Entry]
    signer: Signer

    def raw(self, seq: int) -> bytes:
        return self.records[seq - 1].raw

    def named(self, seq: int) -> str:
        """The name of the file that begins with this record."""
        return f"journal-{seq:020}.jsonl"

    def place(self, seq: int) -> tuple[str, int]:
        """The file and the offset of a record."""
        name = max(name for name in self.files if int(name[8:28]) <= seq)
        before = self.records[int(name[8:28]) - 1 : seq - 1]
        return name, sum(len(entry.raw) + 1 for entry in before)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """23 records in four files (1-7, 8-14, 15-21, 22-23), with checkpoints within them too."""
    folder = tmp_path_factory.mktemp("journal")
    records = write_journal(folder, some_events(16), per_segment=5, seal_every=3)
    files = {one.path.name: one.path.read_bytes() for one in segments(folder)}
    return Made(files, records, new_signer(folder))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    """Somebody else's key, under the same name."""
    return new_signer(tmp_path_factory.mktemp("other"))


def look(
    files: dict[str, bytes], *keys: Signer, kept: Kept | None = None, folder: Path | None = None
) -> Report:
    """Verify these files with these keys."""
    with tempfile.TemporaryDirectory() as name:
        directory = folder or Path(name)
        for file, raw in files.items():
            (directory / file).write_bytes(raw)
        return verify(directory, [parse_key(one.public_key) for one in keys], "--key", kept)


def found(files: dict[str, bytes], *keys: Signer, kept: Kept | None = None) -> Bad:
    """Verify, and return what is bad."""
    bad = look(files, *keys, kept=kept).bad
    assert bad is not None
    return bad


def whole(files: dict[str, bytes], *keys: Signer, kept: Kept | None = None) -> Report:
    """Verify what must be whole."""
    report = look(files, *keys, kept=kept)
    assert report.ok, report.bad
    assert report.bad is None
    return report


def with_lines(made: Made, name: str, edit: Callable[[list[bytes]], Any]) -> dict[str, bytes]:
    """Return the files, with the lines of one edited."""
    lines = made.files[name].splitlines(keepends=True)
    edit(lines)
    return {**made.files, name: b"".join(lines)}


def chained(raws: Sequence[bytes]) -> list[bytes]:
    """Chain the records anew, as somebody does who changed one and hides it."""
    result = [raws[0]]
    for raw in raws[1:]:
        old = mark(raw)
        assert old is not None
        prev = digest(result[-1])
        result.append(
            raw.replace(f'"prev":"{old.prev}","rec'.encode(), f'"prev":"{prev}","rec'.encode())
        )
    return result


def in_files(made: Made, raws: Sequence[bytes]) -> dict[str, bytes]:
    """Lay the records out in files as they were."""
    starts = [int(name[8:28]) for name in sorted(made.files)]
    ends = [*starts[1:], len(raws) + 1]
    return {
        made.named(start): b"".join(raw + b"\n" for raw in raws[start - 1 : end - 1])
        for start, end in zip(starts, ends, strict=True)
    }


def rewritten(made: Made, seq: int, edit: Callable[[bytes], bytes]) -> list[bytes]:
    """Return all records, with one edited and those after it chained anew."""
    raws = [entry.raw for entry in made.records]
    raws[seq - 1] = edit(raws[seq - 1])
    return [*raws[: seq - 1], *chained(raws[seq - 1 :])]


def resealed(raws: Sequence[bytes], change: Callable[[Checkpoint, str], Checkpoint]) -> list[bytes]:
    """Change every checkpoint by what now stands before it, and chain anew."""
    result: list[bytes] = []
    for seq, raw in enumerate(raws, 1):
        prev = digest(result[-1]) if result else "0" * 64
        result.append(_resealed(raw, seq, prev, change))
    return result


def _resealed(
    raw: bytes, seq: int, prev: str, change: Callable[[Checkpoint, str], Checkpoint]
) -> bytes:
    was = mark(raw)
    assert was is not None
    read = event(was.type, raw)
    assert read is not None
    data = change(read.data, prev) if was.type == CHECKPOINT else read.data
    fresh = msgspec.structs.replace(read, data=data, prev="", recordedtime="", sequence="")
    return line(encode(fresh), prev, read.recordedtime, seq)


def flipped(raw: bytes, at: int, mask: int = 1) -> bytes:
    """Return the text with one byte changed."""
    return raw[:at] + bytes([raw[at] ^ mask]) + raw[at + 1 :]


# --- what is whole ----------------------------------------------------------------------------


def test_a_whole_journal_is_whole_and_says_what_vouches_for_it(made: Made) -> None:
    report = whole(made.files, made.signer)

    assert (report.records, report.segments, report.compressed) == (23, 4, 0)
    assert report.first is not None
    assert (report.first.sequence, report.first.time) == (1, "2026-03-29T01:30:01.000000Z")
    assert report.last is not None
    assert (report.last.sequence, report.last.time) == (23, "2026-03-29T01:30:23.000000Z")
    (use,) = report.verified
    assert (use.checkpoints, use.first, use.last) == (7, 1, 22)
    assert (report.signed_to, report.unsigned) == (21, 2)


def test_compressed_files_count_like_plain_ones(made: Made) -> None:
    report = whole(packed(made), made.signer)

    assert (report.records, report.segments, report.compressed) == (23, 4, 3)


def test_a_journal_that_retention_cut_off_in_front_begins_with_a_checkpoint(made: Made) -> None:
    report = whole(without(made, 1, 8), made.signer)

    assert report.first is not None
    assert (report.first.sequence, report.records) == (15, 9)


@pytest.mark.parametrize("kept_bytes", [1, 70, -1])
def test_a_torn_last_line_is_told_and_is_no_fault(made: Made, kept_bytes: int) -> None:
    name, offset = made.place(23)
    last = made.raw(23) + b"\n"
    torn = {**made.files, name: made.files[name][:offset] + last[:kept_bytes]}

    report = whole(torn, made.signer)

    assert report.records == 22
    assert report.torn is not None
    found = (report.torn.file, report.torn.offset, report.torn.bytes)
    assert found == (name, offset, len(last[:kept_bytes]))


@pytest.mark.parametrize("written", [0, 100])
def test_a_file_whose_heading_is_not_written_yet_is_no_fault(made: Made, written: int) -> None:
    name = made.named(22)

    report = whole({**made.files, name: made.files[name][:written]}, made.signer)

    assert report.records == 21
    assert (report.torn is not None) == (written > 0)


def test_a_journal_that_is_being_written_is_whole_at_every_moment(
    made: Made, tmp_path: Path
) -> None:
    name = made.named(22)
    for size in range(0, len(made.files[name]), 37):
        part = {**made.files, name: made.files[name][:size]}
        assert look(part, made.signer, folder=tmp_path).ok, size


def test_a_file_that_was_compressed_since_the_folder_was_listed_is_read(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed_before(monkeypatch, tmp_path, made)

    report = look(packed(made), made.signer, folder=tmp_path)

    assert report.ok, report.bad
    assert (report.records, report.compressed) == (23, 3)


def test_files_that_retention_removed_since_the_folder_was_listed_are_no_fault(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed_before(monkeypatch, tmp_path, made)

    report = look(without(made, 1, 8), made.signer, folder=tmp_path)

    assert report.ok, report.bad
    assert (report.records, report.removed) == (9, 2)


def test_a_file_in_the_middle_that_goes_meanwhile_is_missing(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed_before(monkeypatch, tmp_path, made)

    bad = look(without(made, 8), made.signer, folder=tmp_path).bad

    assert bad is not None
    assert (bad.sequence, bad.file) == (8, made.named(8))


# --- single bytes -----------------------------------------------------------------------------


@given(data=st.data())
def test_any_changed_byte_is_found_and_its_record_named(made: Made, data: st.DataObject) -> None:
    seq = data.draw(st.integers(1, 22))
    name, offset = made.place(seq)
    at = data.draw(st.integers(0, len(made.raw(seq))))
    mask = data.draw(st.integers(1, 255))
    files = {**made.files, name: flipped(made.files[name], offset + at, mask)}

    bad = found(files, made.signer)

    assert (bad.sequence, bad.file, bad.offset) == (seq, name, offset)


@pytest.mark.parametrize("seq", [1, 5, 8, 11, 14, 15, 20, 22])
@pytest.mark.parametrize("part", ["prev", "sequence", "recordedtime", "type", "id", "data"])
def test_each_part_of_a_record_is_covered(made: Made, seq: int, part: str) -> None:
    name, offset = made.place(seq)
    for ahead in (len(part) + 4, len(part) + 9):  # within the value
        at = made.raw(seq).rindex(f'"{part}":'.encode()) + ahead
        for mask in (1, 2, 4):
            bad = found(
                {**made.files, name: flipped(made.files[name], offset + at, mask)}, made.signer
            )
            assert (bad.sequence, bad.file, bad.offset) == (seq, name, offset), (at, mask)


def test_the_last_record_is_covered_by_nothing_and_that_is_said(made: Made) -> None:
    name, offset = made.place(23)
    at = offset + made.raw(23).index(b"reason")
    files = {**made.files, name: flipped(made.files[name], at)}

    report = whole(files, made.signer)

    assert (report.signed_to, report.unsigned) == (21, 2)


def test_a_damaged_record_is_told_with_its_time(made: Made) -> None:
    name, offset = made.place(10)

    bad = found({**made.files, name: flipped(made.files[name], offset + 1)}, made.signer)

    assert bad.time == "2026-03-29T01:30:10.000000Z"


def test_two_records_changed_beside_each_other_name_the_first(made: Made) -> None:
    name, offset = made.place(10)
    after = made.place(11)[1]
    raw = flipped(flipped(made.files[name], offset + 20), after + 20)

    assert found({**made.files, name: raw}, made.signer).sequence == 10


@pytest.mark.parametrize("mask", [1, 0x80])
@pytest.mark.parametrize("what", ["\\n\\n— ", "\\n4\\n", "kubernetes/"])
def test_a_changed_byte_in_a_note_names_its_checkpoint_alone(
    made: Made, mask: int, what: str
) -> None:
    name, offset = made.place(5)
    at = offset + made.raw(5).index(what.encode()) + len(what.encode()) + 3

    bad = found({**made.files, name: flipped(made.files[name], at, mask)}, made.signer)

    assert (bad.sequence, bad.suspects) == (5, None)


# --- whole lines ------------------------------------------------------------------------------


@given(seq=st.integers(1, 22))
def test_a_removed_record_is_found_and_named(made: Made, seq: int) -> None:
    name, offset = made.place(seq)
    raw = made.files[name]
    cut = raw[:offset] + raw[offset + len(made.raw(seq)) + 1 :]

    bad = found({**made.files, name: cut}, made.signer)

    # without the first record of all there is nothing that says what the second follows
    assert bad.sequence == (2 if seq == 1 else seq)


@given(seq=st.integers(1, 23))
def test_a_record_that_stands_twice_is_found_where_it_stands_again(made: Made, seq: int) -> None:
    name, offset = made.place(seq)
    again = offset + len(made.raw(seq)) + 1
    raw = made.files[name]
    twice = raw[:again] + made.raw(seq) + b"\n" + raw[again:]

    bad = found({**made.files, name: twice}, made.signer)

    assert (bad.sequence, bad.file, bad.offset) == (seq, name, again)
    assert bad.reason == "it stands here twice"


@given(data=st.data())
def test_two_swapped_records_are_found_where_the_first_should_be(
    made: Made, data: st.DataObject
) -> None:
    start = data.draw(st.sampled_from([1, 8, 15, 22]))
    many = len(made.files[made.named(start)].splitlines())
    one, two = sorted(
        data.draw(st.lists(st.integers(0, many - 1), min_size=2, max_size=2, unique=True))
    )

    def swap(lines: list[bytes]) -> None:
        lines[one], lines[two] = lines[two], lines[one]

    bad = found(with_lines(made, made.named(start), swap), made.signer)

    assert (bad.file, bad.offset) == made.place(start + one)
    assert bad.sequence in (start + one, start + two)


@given(seq=st.integers(2, 22), of=st.integers(1, 23))
def test_an_old_record_put_in_again_is_found_where_it_stands(made: Made, seq: int, of: int) -> None:
    name, offset = made.place(seq)
    raw = made.files[name]
    files = {**made.files, name: raw[:offset] + made.raw(of) + b"\n" + raw[offset:]}

    bad = found(files, made.signer)

    at = offset + len(made.raw(seq)) + 1 if of == seq else offset
    assert (bad.file, bad.offset) == (name, at)


@pytest.mark.parametrize("prev_is_right", [True, False])
def test_a_forged_record_put_in_between_is_named_and_not_its_neighbours(
    made: Made, *, prev_is_right: bool
) -> None:
    name, offset = made.place(10)
    prev = digest(made.raw(9)) if prev_is_right else "ab" * 32
    read = event("", made.raw(9))
    assert read is not None
    fresh = msgspec.structs.replace(read, id="forged", prev="", recordedtime="", sequence="")
    forged = line(encode(fresh), prev, read.recordedtime, 10)
    raw = made.files[name]

    bad = found({**made.files, name: raw[:offset] + forged + b"\n" + raw[offset:]}, made.signer)

    assert (bad.sequence, bad.offset) == (10, offset)


def test_an_empty_line_is_found(made: Made) -> None:
    name, offset = made.place(10)
    raw = made.files[name]

    bad = found({**made.files, name: raw[:offset] + b"\n" + raw[offset:]}, made.signer)

    assert (bad.sequence, bad.offset) == (10, offset)
    assert "no record" in bad.reason


def test_a_line_of_endless_length_is_found(made: Made) -> None:
    name = made.named(22)
    end = len(made.files[name])

    bad = found({**made.files, name: made.files[name] + b"x" * (1 << 19)}, made.signer)

    assert (bad.sequence, bad.offset) == (24, end)


def test_a_line_that_is_no_json_is_found_though_its_hash_is_right(made: Made) -> None:
    raws = rewritten(made, 22, lambda raw: raw)
    bad = found(in_files(made, [*raws[:-1], raws[-1][:-1] + b",}"]), made.signer)

    assert (bad.sequence, bad.reason) == (23, "it cannot be read: it is no whole record")


# --- whole files ------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [8, 15])
def test_a_removed_file_is_found_and_its_first_record_named(made: Made, start: int) -> None:
    bad = found(without(made, start), made.signer)

    assert bad.sequence == start
    assert bad.file == made.named(start + 7)
    assert f"all to {start + 6}" in bad.reason


def test_two_files_under_each_others_names_are_found(made: Made) -> None:
    one, two = made.named(8), made.named(15)

    bad = found({**made.files, one: made.files[two], two: made.files[one]}, made.signer)

    assert (bad.sequence, bad.file, bad.offset) == (15, one, 0)
    assert "renamed or swapped" in bad.reason


@pytest.mark.parametrize(("start", "to"), [(1, 2), (8, 9), (22, 24)])
def test_a_renamed_file_is_found(made: Made, start: int, to: int) -> None:
    files = {**without(made, start), made.named(to): made.files[made.named(start)]}

    bad = found(files, made.signer)

    assert (bad.sequence, bad.file) == (start, made.named(to))


def test_a_copy_of_a_file_under_a_later_name_is_found(made: Made) -> None:
    bad = found({**made.files, made.named(24): made.files[made.named(15)]}, made.signer)

    assert (bad.file, bad.offset) == (made.named(24), 0)


@pytest.mark.parametrize("left", [0, 3000, -1, -700])
def test_a_file_in_the_middle_that_ends_too_early_is_found(made: Made, left: int) -> None:
    name = made.named(8)
    raw = made.files[name][:left]

    bad = found({**made.files, name: raw}, made.signer)

    whole_lines = raw.count(b"\n")
    assert bad.sequence == 8 + whole_lines
    assert bad.file == (made.named(15) if raw.endswith(b"\n") or not raw else name)


def test_a_file_in_the_middle_that_ends_with_a_whole_line_too_early_is_found(made: Made) -> None:
    bad = found(with_lines(made, made.named(8), list.pop), made.signer)

    assert (bad.sequence, bad.file) == (14, made.named(15))
    assert made.named(8) in bad.reason


def test_a_file_must_begin_with_a_checkpoint(made: Made) -> None:
    raws = [entry.raw for entry in made.records]
    files = in_files(made, raws)
    moved = files[made.named(8)].splitlines(keepends=True)
    files[made.named(1)] += moved[0]
    files[made.named(9)] = b"".join(moved[1:])
    del files[made.named(8)]

    bad = found(files, made.signer)

    assert (bad.sequence, bad.file) == (9, made.named(9))
    assert "begins with a checkpoint" in bad.reason


def test_a_compressed_file_that_ends_too_early_is_found(made: Made) -> None:
    name = made.named(8) + ".gz"
    files = packed(made)

    for size in range(1, len(files[name]), 97):
        bad = found({**files, name: files[name][:size]}, made.signer)
        left = zlib.decompressobj(31).decompress(files[name][:size])
        assert (bad.file, bad.sequence) == (name, 8 + left.count(b"\n"))
        assert bad.offset == left.rfind(b"\n") + 1
        assert "damaged" in bad.reason


@given(data=st.data())
def test_a_changed_byte_in_a_compressed_file_is_found(made: Made, data: st.DataObject) -> None:
    name, files = made.named(8) + ".gz", packed(made)
    at = data.draw(st.integers(10, len(files[name]) - 1))  # before it: who compressed it, and when
    mask = data.draw(st.integers(1, 255))
    changed = flipped(files[name], at, mask)
    if _text(changed) == made.files[made.named(8)]:
        return  # some bits of a compressed stream mean nothing

    bad = found({**files, name: changed}, made.signer)

    assert bad.file == name
    assert 8 <= bad.sequence <= 14


def test_a_compressed_file_whose_checksum_alone_is_wrong_is_found(made: Made) -> None:
    name, files = made.named(8) + ".gz", packed(made)

    bad = found({**files, name: flipped(files[name], len(files[name]) - 6)}, made.signer)

    assert (bad.sequence, bad.file) == (14, name)


# --- history written anew ---------------------------------------------------------------------


def test_a_record_changed_and_chained_anew_is_found_by_the_next_checkpoint(made: Made) -> None:
    raws = rewritten(made, 10, lambda raw: raw.replace(b"shop", b"bank"))

    bad = found(in_files(made, raws), made.signer)

    assert (bad.sequence, bad.suspects) == (12, Range(8, 11))


def test_checkpoints_that_follow_without_a_right_signature_are_found(made: Made) -> None:
    raws = rewritten(made, 10, lambda raw: raw.replace(b"shop", b"bank"))

    def follow(data: Checkpoint, prev: str) -> Checkpoint:
        was = parse_kept(data.note).root
        note = data.note.replace(_base64(was), _base64(prev))
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


def test_a_note_of_another_journal_is_bad(made: Made, tmp_path: Path) -> None:
    signer = new_signer(tmp_path, "//elsewhere/descheduler/x/1")
    raws = resealed_by(signer, [one.raw for one in made.records], since=5)

    bad = found(in_files(made, raws), made.signer, signer)

    assert bad.sequence == 5
    assert "another journal" in bad.reason


# --- keys -------------------------------------------------------------------------------------


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


# --- a checkpoint that was kept ---------------------------------------------------------------


def test_a_kept_checkpoint_that_is_true_agrees(made: Made) -> None:
    for size in range(24):
        root = digest(made.raw(size)) if size else "0" * 64
        report = whole(made.files, made.signer, kept=Kept(size, root[:12]))
        assert report.kept is not None
        assert (report.kept.size, report.kept.agrees) == (size, True)


def test_a_kept_note_names_the_key_that_signed_it(made: Made) -> None:
    kept = parse_kept(made.signer.note(21, digest(made.raw(21))))

    report = whole(made.files, made.signer, kept=kept)

    assert report.kept is not None
    assert report.kept.key == parse_key(made.signer.public_key).short


@pytest.mark.parametrize("last", [21, 22])
def test_an_end_that_was_cut_off_is_found_by_a_kept_checkpoint(made: Made, last: int) -> None:
    raws = [entry.raw for entry in made.records[:last]]
    files = {name: raw for name, raw in in_files(made, [*raws, b""]).items() if raw.strip()}
    files = {name: raw.replace(b"\n\n", b"\n") for name, raw in files.items()}

    bad = found(files, made.signer, kept=Kept(23, digest(made.raw(23))))

    assert bad.sequence == last + 1
    assert "cut off" in bad.reason


def test_a_journal_without_any_file_is_cut_off_too(made: Made) -> None:
    assert found({}, made.signer, kept=Kept(3, "0" * 12)).sequence == 1


@pytest.mark.parametrize("size", range(1, 24))
def test_a_kept_checkpoint_that_says_another_hash_is_told(made: Made, size: int) -> None:
    report = look(made.files, made.signer, kept=Kept(size, "123456789abc"))

    assert report.bad is not None
    assert report.bad.sequence == size
    assert (report.bad.file, report.bad.offset) == made.place(size)
    assert report.kept is not None
    assert report.kept.agrees is False


def test_a_kept_checkpoint_over_what_retention_removed_proves_nothing(made: Made) -> None:
    files = without(made, 1, 8)

    assert whole(files, made.signer, kept=Kept(14, digest(made.raw(14)))).ok
    bad = found(files, made.signer, kept=Kept(13, digest(made.raw(13))))

    assert bad.sequence == 13
    assert "no longer here" in bad.reason


def test_a_kept_checkpoint_of_another_journal_is_told(made: Made, tmp_path: Path) -> None:
    note = new_signer(tmp_path, "//elsewhere/descheduler/x/1").note(5, digest(made.raw(5)))

    assert "elsewhere" in found(made.files, made.signer, kept=parse_kept(note)).reason


def test_a_kept_checkpoint_that_its_key_did_not_sign_is_refused(made: Made) -> None:
    note = made.signer.note(5, digest(made.raw(5))).replace("\n5\n", "\n6\n")

    with pytest.raises(ConfigError, match="altered"):
        look(made.files, made.signer, kept=parse_kept(note))


def test_what_is_bad_before_it_leaves_a_kept_checkpoint_uncompared(made: Made) -> None:
    kept = Kept(21, digest(made.raw(21)))

    report = look(without(made, 8), made.signer, kept=kept)

    assert report.kept is not None
    assert report.kept.agrees is None


# --- folders ----------------------------------------------------------------------------------


def test_a_folder_without_a_journal_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no journal here"):
        verify(tmp_path, [], "", None)


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        verify(tmp_path / "nowhere", [], "", None)


# --- making them ------------------------------------------------------------------------------


def packed(made: Made) -> dict[str, bytes]:
    """Return the files with all but the last compressed."""
    *closed, last = sorted(made.files)
    small = {f"{name}.gz": gzip.compress(made.files[name], mtime=0) for name in closed}
    return {**small, last: made.files[last]}


def without(made: Made, *starts: int) -> dict[str, bytes]:
    """Return the files but those that begin with these records."""
    gone = {made.named(start) for start in starts}
    return {name: raw for name, raw in made.files.items() if name not in gone}


def listed_before(monkeypatch: pytest.MonkeyPatch, folder: Path, made: Made) -> None:
    """Let the folder's list be of the time when all files were there, uncompressed."""
    listed = [segment(folder, int(name[8:28])) for name in sorted(made.files)]
    monkeypatch.setattr(verifying, "segments", lambda _: listed)


def resealed_by(signer: Signer, raws: Sequence[bytes], *, since: int) -> list[bytes]:
    """Sign the checkpoints from a record on with another key."""

    def sign(data: Checkpoint, prev: str) -> Checkpoint:
        if data.size + 1 < since:
            return data
        return msgspec.structs.replace(data, root=prev, note=signer.note(data.size, prev))

    return resealed(raws, sign)


def _base64(root: str) -> str:
    return base64.b64encode(bytes.fromhex(root)).decode()


def _text(raw: bytes) -> bytes | None:
    try:
        return gzip.decompress(raw)
    except (OSError, EOFError, zlib.error):
        return None
