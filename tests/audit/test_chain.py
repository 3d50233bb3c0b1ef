"""Files that are removed, renamed, swapped or cut off are found."""

import pytest

from tests.support.tampering import Made, found, in_files, make, with_lines, without


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("journal"))


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
