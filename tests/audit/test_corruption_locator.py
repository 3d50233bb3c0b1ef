"""Changed, removed, added and moved records are found, and the right one is named."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.journal.events import decode_event
from reactive_desched.journal.records import digest, encode, format_line
from tests.support.golden import Golden
from tests.support.tampering import (
    SampleJournal,
    first_bad,
    in_files,
    make_journal,
    rewritten,
    verify_intact,
    with_edited_lines,
    with_flipped_byte,
    without_files,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SampleJournal:
    return make_journal(tmp_path_factory.mktemp("journal"))


@given(data=st.data())
def test_any_changed_byte_is_found_and_its_record_named(
    made: SampleJournal, data: st.DataObject
) -> None:
    seq = data.draw(st.integers(1, 22))
    name, offset = made.file_and_offset(seq)
    at = data.draw(st.integers(0, len(made.raw(seq))))
    mask = data.draw(st.integers(1, 255))
    files = {**made.files, name: with_flipped_byte(made.files[name], offset + at, mask)}

    bad = first_bad(files, made.signer)

    assert (bad.sequence, bad.file, bad.offset) == (seq, name, offset)


@pytest.mark.parametrize("seq", [1, 5, 8, 11, 14, 15, 20, 22])
@pytest.mark.parametrize("part", ["prev", "sequence", "recordedtime", "type", "id", "data"])
def test_each_part_of_a_record_is_covered(made: SampleJournal, seq: int, part: str) -> None:
    name, offset = made.file_and_offset(seq)
    for ahead in (len(part) + 4, len(part) + 9):  # within the value
        at = made.raw(seq).rindex(f'"{part}":'.encode()) + ahead
        for mask in (1, 2, 4):
            bad = first_bad(
                {**made.files, name: with_flipped_byte(made.files[name], offset + at, mask)},
                made.signer,
            )
            assert (bad.sequence, bad.file, bad.offset) == (seq, name, offset), (at, mask)


def test_the_last_record_is_covered_by_nothing_and_that_is_said(made: SampleJournal) -> None:
    name, offset = made.file_and_offset(23)
    at = offset + made.raw(23).index(b"message")
    files = {**made.files, name: with_flipped_byte(made.files[name], at)}

    report = verify_intact(files, made.signer)

    assert (report.signed_to, report.unsigned) == (21, 2)


def test_a_damaged_record_is_reported_with_its_time(made: SampleJournal) -> None:
    name, offset = made.file_and_offset(10)

    bad = first_bad(
        {**made.files, name: with_flipped_byte(made.files[name], offset + 1)}, made.signer
    )

    assert bad.time == "2026-03-29T01:30:10.000000Z"


def test_two_records_changed_beside_each_other_name_the_first(made: SampleJournal) -> None:
    name, offset = made.file_and_offset(10)
    after = made.file_and_offset(11)[1]
    raw = with_flipped_byte(with_flipped_byte(made.files[name], offset + 20), after + 20)

    assert first_bad({**made.files, name: raw}, made.signer).sequence == 10


def test_a_damaged_record_still_accuses_the_one_before(made: SampleJournal) -> None:
    name, offset = made.file_and_offset(10)
    after = made.file_and_offset(11)[1]
    raw = with_flipped_byte(with_flipped_byte(made.files[name], offset + 20), after)

    assert first_bad({**made.files, name: raw}, made.signer).sequence == 10


@pytest.mark.parametrize("seq", [21, 22])
def test_at_the_end_a_signature_shows_which_of_two_records_was_changed(
    made: SampleJournal, seq: int
) -> None:
    files = with_edited_lines(made, made.file_of(22), list.pop)
    name, offset = made.file_and_offset(seq)
    at = made.raw(seq).rindex(b'"prev":"') + 9 if seq == 22 else 20

    bad = first_bad({**files, name: with_flipped_byte(files[name], offset + at)}, made.signer)

    assert (bad.sequence, bad.file) == (seq, name)


def test_the_first_record_that_is_left_names_itself_when_its_prev_is_changed(
    made: SampleJournal,
) -> None:
    files = without_files(made, 1)
    name = made.file_of(8)
    at = made.raw(8).rindex(b'"prev":"') + 9

    bad = first_bad({**files, name: with_flipped_byte(files[name], at)}, made.signer)

    assert (bad.sequence, bad.suspects) == (8, None)


def test_a_changed_byte_in_a_signature_names_its_checkpoint_alone(made: SampleJournal) -> None:
    name, offset = made.file_and_offset(5)
    at = made.raw(5).index("— ".encode()) + len(f"— {made.signer.origin} ") + 30

    bad = first_bad(
        {**made.files, name: with_flipped_byte(made.files[name], offset + at, 3)}, made.signer
    )

    assert (bad.sequence, bad.suspects) == (5, None)


@pytest.mark.parametrize("mask", [1, 0x80])
@pytest.mark.parametrize("what", ["\\n\\n— ", "\\n4\\n", "kubernetes/"])
def test_a_changed_byte_in_a_note_names_its_checkpoint_alone(
    made: SampleJournal, mask: int, what: str
) -> None:
    name, offset = made.file_and_offset(5)
    at = offset + made.raw(5).index(what.encode()) + len(what.encode()) + 3

    bad = first_bad(
        {**made.files, name: with_flipped_byte(made.files[name], at, mask)}, made.signer
    )

    assert (bad.sequence, bad.suspects) == (5, None)


@given(seq=st.integers(1, 22))
def test_a_removed_record_is_found_and_named(made: SampleJournal, seq: int) -> None:
    name, offset = made.file_and_offset(seq)
    raw = made.files[name]
    cut = raw[:offset] + raw[offset + len(made.raw(seq)) + 1 :]

    bad = first_bad({**made.files, name: cut}, made.signer)

    # without the first record of all there is nothing that says what the second follows
    assert bad.sequence == (2 if seq == 1 else seq)


@given(seq=st.integers(1, 23))
def test_a_record_that_stands_twice_is_found_where_it_stands_again(
    made: SampleJournal, seq: int
) -> None:
    name, offset = made.file_and_offset(seq)
    again = offset + len(made.raw(seq)) + 1
    raw = made.files[name]
    twice = raw[:again] + made.raw(seq) + b"\n" + raw[again:]

    bad = first_bad({**made.files, name: twice}, made.signer)

    assert (bad.sequence, bad.file, bad.offset) == (seq, name, again)
    assert bad.reason == "it stands here twice"


@given(data=st.data())
def test_two_swapped_records_are_found_where_the_first_should_be(
    made: SampleJournal, data: st.DataObject
) -> None:
    start = data.draw(st.sampled_from([1, 8, 15, 22]))
    many = len(made.files[made.file_of(start)].splitlines())
    one, two = sorted(
        data.draw(st.lists(st.integers(0, many - 1), min_size=2, max_size=2, unique=True))
    )

    def swap(lines: list[bytes]) -> None:
        lines[one], lines[two] = lines[two], lines[one]

    bad = first_bad(with_edited_lines(made, made.file_of(start), swap), made.signer)

    assert (bad.file, bad.offset) == made.file_and_offset(start + one)
    assert bad.sequence in (start + one, start + two)


@given(seq=st.integers(2, 22), of=st.integers(1, 23))
def test_an_old_record_put_in_again_is_found_where_it_stands(
    made: SampleJournal, seq: int, of: int
) -> None:
    name, offset = made.file_and_offset(seq)
    raw = made.files[name]
    files = {**made.files, name: raw[:offset] + made.raw(of) + b"\n" + raw[offset:]}

    bad = first_bad(files, made.signer)

    at = offset + len(made.raw(seq)) + 1 if of == seq else offset
    assert (bad.file, bad.offset) == (name, at)


@pytest.mark.parametrize("of", [1, 9, 22])
def test_an_old_record_repeated_at_the_end_is_reported(made: SampleJournal, of: int) -> None:
    name = made.file_of(22)

    bad = first_bad({**made.files, name: made.files[name] + made.raw(of) + b"\n"}, made.signer)

    assert (bad.sequence, bad.offset) == (of, len(made.files[name]))
    assert "stands here again" in bad.reason


def test_a_record_put_in_the_place_of_another_is_reported(made: SampleJournal) -> None:
    name = made.file_of(8)
    raw = made.files[name].replace(made.raw(10), made.raw(20))

    bad = first_bad({**made.files, name: raw}, made.signer)

    assert (bad.sequence, bad.offset) == (10, made.file_and_offset(10)[1])
    assert bad.reason == "record 20 stands in its place"


@pytest.mark.parametrize("prev_is_right", [True, False])
def test_a_forged_record_put_in_between_is_named_and_not_its_neighbours(
    made: SampleJournal, *, prev_is_right: bool
) -> None:
    name, offset = made.file_and_offset(10)
    prev = digest(made.raw(9)) if prev_is_right else "ab" * 32
    read = decode_event("", made.raw(9))
    assert read is not None
    fresh = msgspec.structs.replace(read, id="forged", prev="", recordedtime="", sequence="")
    forged = format_line(encode(fresh), prev, read.recordedtime, 10)
    raw = made.files[name]

    bad = first_bad({**made.files, name: raw[:offset] + forged + b"\n" + raw[offset:]}, made.signer)

    assert (bad.sequence, bad.offset) == (10, offset)


def test_an_empty_line_is_found(made: SampleJournal) -> None:
    name, offset = made.file_and_offset(10)
    raw = made.files[name]

    bad = first_bad({**made.files, name: raw[:offset] + b"\n" + raw[offset:]}, made.signer)

    assert (bad.sequence, bad.offset) == (10, offset)
    assert "not a record" in bad.reason


def test_a_line_of_endless_length_is_found(made: SampleJournal) -> None:
    name = made.file_of(22)
    end = len(made.files[name])

    bad = first_bad({**made.files, name: made.files[name] + b"x" * (1 << 19)}, made.signer)

    assert (bad.sequence, bad.offset) == (24, end)


def test_a_line_that_is_no_json_is_found_though_its_hash_is_right(
    made: SampleJournal, golden: Golden
) -> None:
    raws = rewritten(made, 22, lambda raw: raw)
    bad = first_bad(in_files(made, [*raws[:-1], raws[-1][:-1] + b",}"]), made.signer)

    assert (bad.sequence, bad.reason) == (23, golden())
