"""Files that are removed, renamed, swapped or cut off are found."""

import pytest

from tests.support.tampering import (
    SampleJournal,
    first_bad,
    in_files,
    make_journal,
    with_edited_lines,
    without_files,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SampleJournal:
    return make_journal(tmp_path_factory.mktemp("journal"))


@pytest.mark.parametrize("start", [8, 15])
def test_a_removed_file_is_found_and_its_first_record_named(
    made: SampleJournal, start: int
) -> None:
    bad = first_bad(without_files(made, start), made.signer)

    assert bad.sequence == start
    assert bad.file == made.file_of(start + 7)
    assert f"all to {start + 6}" in bad.reason


def test_two_files_under_each_others_names_are_found(made: SampleJournal) -> None:
    one, two = made.file_of(8), made.file_of(15)

    bad = first_bad({**made.files, one: made.files[two], two: made.files[one]}, made.signer)

    assert (bad.sequence, bad.file, bad.offset) == (15, one, 0)
    assert "renamed or swapped" in bad.reason


@pytest.mark.parametrize(("start", "to"), [(1, 2), (8, 9), (22, 24)])
def test_a_renamed_file_is_found(made: SampleJournal, start: int, to: int) -> None:
    files = {**without_files(made, start), made.file_of(to): made.files[made.file_of(start)]}

    bad = first_bad(files, made.signer)

    assert (bad.sequence, bad.file) == (start, made.file_of(to))


def test_a_copy_of_a_file_under_a_later_name_is_found(made: SampleJournal) -> None:
    bad = first_bad({**made.files, made.file_of(24): made.files[made.file_of(15)]}, made.signer)

    assert (bad.file, bad.offset) == (made.file_of(24), 0)


@pytest.mark.parametrize("left", [0, 3000, -1, -700])
def test_a_file_in_the_middle_that_ends_too_early_is_found(made: SampleJournal, left: int) -> None:
    name = made.file_of(8)
    raw = made.files[name][:left]

    bad = first_bad({**made.files, name: raw}, made.signer)

    whole_lines = raw.count(b"\n")
    assert bad.sequence == 8 + whole_lines
    assert bad.file == (made.file_of(15) if raw.endswith(b"\n") or not raw else name)


def test_a_file_in_the_middle_that_ends_with_a_whole_line_too_early_is_found(
    made: SampleJournal,
) -> None:
    bad = first_bad(with_edited_lines(made, made.file_of(8), list.pop), made.signer)

    assert (bad.sequence, bad.file) == (14, made.file_of(15))
    assert made.file_of(8) in bad.reason


def test_a_file_must_begin_with_a_checkpoint(made: SampleJournal) -> None:
    raws = [entry.raw for entry in made.records]
    files = in_files(made, raws)
    moved = files[made.file_of(8)].splitlines(keepends=True)
    files[made.file_of(1)] += moved[0]
    files[made.file_of(9)] = b"".join(moved[1:])
    del files[made.file_of(8)]

    bad = first_bad(files, made.signer)

    assert (bad.sequence, bad.file) == (9, made.file_of(9))
    assert "begins with a checkpoint" in bad.reason
