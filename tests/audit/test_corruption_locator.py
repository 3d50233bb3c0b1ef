"""Changed, removed, added and moved records are found, and the right one is named."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.journal.events import event
from reactive_desched.journal.records import digest, encode, line
from tests.support.tampering import (
    Made,
    flipped,
    found,
    in_files,
    make,
    rewritten,
    whole,
    with_lines,
    without,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("journal"))


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


def test_a_damaged_record_still_accuses_the_one_before(made: Made) -> None:
    name, offset = made.place(10)
    after = made.place(11)[1]
    raw = flipped(flipped(made.files[name], offset + 20), after)

    assert found({**made.files, name: raw}, made.signer).sequence == 10


@pytest.mark.parametrize("seq", [21, 22])
def test_at_the_end_a_signature_tells_which_of_two_records_was_changed(
    made: Made, seq: int
) -> None:
    files = with_lines(made, made.named(22), list.pop)
    name, offset = made.place(seq)
    at = made.raw(seq).rindex(b'"prev":"') + 9 if seq == 22 else 20

    bad = found({**files, name: flipped(files[name], offset + at)}, made.signer)

    assert (bad.sequence, bad.file) == (seq, name)


def test_the_first_record_that_is_left_names_itself_when_its_prev_is_changed(made: Made) -> None:
    files = without(made, 1)
    name = made.named(8)
    at = made.raw(8).rindex(b'"prev":"') + 9

    bad = found({**files, name: flipped(files[name], at)}, made.signer)

    assert (bad.sequence, bad.suspects) == (8, None)


def test_a_changed_byte_in_a_signature_names_its_checkpoint_alone(made: Made) -> None:
    name, offset = made.place(5)
    at = made.raw(5).index("— ".encode()) + len(f"— {made.signer.origin} ") + 30

    bad = found({**made.files, name: flipped(made.files[name], offset + at, 3)}, made.signer)

    assert (bad.sequence, bad.suspects) == (5, None)


@pytest.mark.parametrize("mask", [1, 0x80])
@pytest.mark.parametrize("what", ["\\n\\n— ", "\\n4\\n", "kubernetes/"])
def test_a_changed_byte_in_a_note_names_its_checkpoint_alone(
    made: Made, mask: int, what: str
) -> None:
    name, offset = made.place(5)
    at = offset + made.raw(5).index(what.encode()) + len(what.encode()) + 3

    bad = found({**made.files, name: flipped(made.files[name], at, mask)}, made.signer)

    assert (bad.sequence, bad.suspects) == (5, None)


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


@pytest.mark.parametrize("of", [1, 9, 22])
def test_an_old_record_at_the_end_is_told_to_stand_there_again(made: Made, of: int) -> None:
    name = made.named(22)

    bad = found({**made.files, name: made.files[name] + made.raw(of) + b"\n"}, made.signer)

    assert (bad.sequence, bad.offset) == (of, len(made.files[name]))
    assert "stands here again" in bad.reason


def test_a_record_put_in_the_place_of_another_is_told(made: Made) -> None:
    name = made.named(8)
    raw = made.files[name].replace(made.raw(10), made.raw(20))

    bad = found({**made.files, name: raw}, made.signer)

    assert (bad.sequence, bad.offset) == (10, made.place(10)[1])
    assert bad.reason == "record 20 stands in its place"


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
