import gzip
import io
from collections.abc import Iterator
from contextlib import closing
from os import truncate
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reactive_desched.journal import reader as reader_module
from reactive_desched.journal.reader import LineBatch, SegmentReader
from reactive_desched.journal.records import MAX_RECORD_BYTES
from reactive_desched.journal.segments import Segment, list_segments, segment_at
from tests.support.journals import some_events, write_journal

A, B, C, D = b"a\n", b"bb\n", b"ccc\n", b"dddd\n"


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[SegmentReader]:
    with closing(SegmentReader(tmp_path)) as one:
        yield one


def write(folder: Path, first_seq: int, *raw: bytes) -> Path:
    """Write a file's lines behind those that it has."""
    path = segment_at(folder, first_seq).path
    with path.open("ab") as file:
        file.write(b"".join(raw))
    return path


def compress(path: Path) -> Path:
    packed = path.with_name(path.name + ".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    return packed


def rest(reader: SegmentReader, place: tuple[int, int], most: int = 2) -> list[LineBatch]:
    found: list[LineBatch] = []
    while (portion := reader.read(*place, most)) is not None:
        assert portion not in found, "it came before"
        found.append(portion)
        place = portion.next_position
    return found


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "compressed"])
def test_lines_come_in_portions_that_say_where_they_stand(
    tmp_path: Path,
    reader: SegmentReader,
    packed: bool,  # noqa: FBT001  # a row's value
) -> None:
    path = write(tmp_path, 1, A, B, C)
    write(tmp_path, 4, D)
    if packed:
        compress(path)

    assert rest(reader, (1, 0)) == [
        LineBatch(1, 0, [A, B]),
        LineBatch(1, 5, [C]),
        LineBatch(4, 0, [D]),
    ]
    assert rest(reader, (1, 2)) == [LineBatch(1, 2, [B, C]), LineBatch(4, 0, [D])]
    assert rest(reader, (4, 0)) == [LineBatch(4, 0, [D])]
    assert rest(reader, (4, 5)) == []
    assert rest(reader, (2, 0)) == [LineBatch(4, 0, [D])]


def test_a_portion_ends_at_the_line_that_brings_it_to_its_size(
    tmp_path: Path, reader: SegmentReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "MAX_BATCH_BYTES", 4)
    write(tmp_path, 1, A, B, C, D)

    assert [one.lines for one in rest(reader, (1, 0), 100)] == [[A, B], [C], [D]]


def test_what_is_too_long_for_a_line_comes_in_pieces(tmp_path: Path, reader: SegmentReader) -> None:
    write(tmp_path, 1, A, bytes(2 * MAX_RECORD_BYTES + 7), b"\n", B)

    pieces = [line for one in rest(reader, (1, 0), 100) for line in one.lines]

    assert [len(each) for each in pieces] == [2, MAX_RECORD_BYTES, MAX_RECORD_BYTES, 8, 3]


def test_a_line_without_its_end_is_left_alone_while_it_may_be_written_still(
    tmp_path: Path, reader: SegmentReader
) -> None:
    write(tmp_path, 1, A, b"b")
    assert rest(reader, (1, 0)) == [LineBatch(1, 0, [A])]
    assert rest(reader, (1, 2)) == []

    write(tmp_path, 1, b"b\n")

    assert rest(reader, (1, 2)) == [LineBatch(1, 2, [B])]


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "compressed"])
def test_in_a_file_that_another_follows_it_is_torn_and_given_as_it_is(
    tmp_path: Path,
    reader: SegmentReader,
    packed: bool,  # noqa: FBT001  # a row's value
) -> None:
    path = write(tmp_path, 1, A, b"b")
    assert rest(reader, (1, 0)) == [LineBatch(1, 0, [A])]
    write(tmp_path, 3, C)
    if packed:
        compress(path)

    assert rest(reader, (1, 2)) == [LineBatch(1, 2, [b"b"]), LineBatch(3, 0, [C])]
    assert [line for one in rest(reader, (1, 0)) for line in one.lines] == [A, b"b", C]


def test_what_stood_behind_a_portion_and_was_cut_off_since_is_not_given(
    tmp_path: Path, reader: SegmentReader
) -> None:
    path = write(tmp_path, 1, A, B, b"half of a wri")
    assert reader.read(1, 0, 1) == LineBatch(1, 0, [A])

    path.write_bytes(A + C + D)

    assert rest(reader, (1, 2)) == [LineBatch(1, 2, [C, D])]


def test_a_file_that_was_compressed_is_read_on_where_it_was_left(
    tmp_path: Path, reader: SegmentReader
) -> None:
    path = write(tmp_path, 1, A, B, C)
    write(tmp_path, 4, D)
    assert reader.read(1, 0, 1) == LineBatch(1, 0, [A])

    compress(path)

    assert rest(reader, (1, 2)) == [LineBatch(1, 2, [B, C]), LineBatch(4, 0, [D])]


def test_of_files_that_were_removed_only_the_open_one_is_read_to_its_end(
    tmp_path: Path, reader: SegmentReader
) -> None:
    removed = [write(tmp_path, 1, A, B), write(tmp_path, 3, D)]
    write(tmp_path, 4, C)
    assert reader.read(1, 0, 1) == LineBatch(1, 0, [A])

    for path in removed:
        path.unlink()

    assert rest(reader, (1, 2)) == [LineBatch(1, 2, [B]), LineBatch(4, 0, [C])]
    assert rest(reader, (1, 2)) == [LineBatch(4, 0, [C])]


@pytest.mark.parametrize("until", [1, 2])
def test_files_that_vanish_between_looking_and_opening_are_looked_for_again(
    tmp_path: Path, reader: SegmentReader, monkeypatch: pytest.MonkeyPatch, until: int
) -> None:
    paths = [write(tmp_path, 1, A), write(tmp_path, 2, B)]
    write(tmp_path, 3, C)

    def look(directory: Path) -> list[Segment]:
        found = list_segments(directory)
        if len(paths) > 2 - until:
            paths.pop(0).unlink()
        return found

    monkeypatch.setattr(reader_module, "list_segments", look)

    assert [one.lines for one in rest(reader, (1, 0))] == [[B], [C]][until - 1 :]


def test_a_file_put_in_the_place_of_another_is_the_one_that_is_read(
    tmp_path: Path, reader: SegmentReader
) -> None:
    path = write(tmp_path, 1, A, B)
    assert rest(reader, (1, 0)) == [LineBatch(1, 0, [A, B])]
    (tmp_path / "restored").write_bytes(A + B + C)

    (tmp_path / "restored").replace(path)

    assert rest(reader, (1, 5)) == [LineBatch(1, 5, [C])]


def test_damage_is_reported_behind_what_can_still_be_read_and_the_next_file_follows(
    tmp_path: Path, reader: SegmentReader
) -> None:
    entries = write_journal(tmp_path, some_events(300), per_segment=200, compress=True)
    first, second = list_segments(tmp_path)
    whole = gzip.decompress(first.path.read_bytes())
    first.path.write_bytes(first.path.read_bytes()[:-2000])

    found = rest(reader, (1, 0), 60)

    (broken,) = [number for number, one in enumerate(found) if one.damaged]
    given = b"".join(line for one in found[: broken + 1] for line in one.lines)
    assert given
    assert whole.startswith(given)
    assert found[broken].next_position == (2, 0)
    behind = [entry for one in found[broken + 1 :] for entry in one.records()]
    assert behind == entries[second.first_seq - 1 :]


def test_only_whole_records_are_entries(tmp_path: Path, reader: SegmentReader) -> None:
    entries = write_journal(tmp_path / "elsewhere", some_events(3))
    first, second, third, _ = (entry.raw for entry in entries)
    write(tmp_path, 1, first, b"\n", b"{}\n", second, b"\n", third)
    write(tmp_path, 4)

    (portion,) = rest(reader, (1, 0), 100)

    assert portion.lines[-1] == third
    assert portion.records() == entries[:2]


def test_a_disk_that_fails_is_reported_with_the_file(
    tmp_path: Path, reader: SegmentReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, 1, A)

    class Failing(io.BytesIO):
        def readline(self, _: int | None = -1) -> bytes:
            raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(Segment, "open", lambda _: Failing(A))
        with pytest.raises(OSError, match=f"Input/output error: '{path}'"):
            reader.read(1, 0, 1)
    reader.close()

    assert reader.read(1, 0, 1) == LineBatch(1, 0, [A])


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        SegmentReader(tmp_path / "nowhere").read(1, 0, 1)


lines = st.sampled_from([A, B, C, D])
happenings = st.lists(
    st.tuples(st.sampled_from(["write", "write", "begin", "compress", "read"]), lines), max_size=30
)


@given(happenings, st.integers(1, 3))
@settings(deadline=None)
def test_whatever_happens_to_a_journal_every_line_comes_once_and_in_order(
    happened: list[tuple[str, bytes]], most: int
) -> None:
    written: list[bytes] = []
    found: list[bytes] = []
    with TemporaryDirectory() as made, closing(SegmentReader(Path(made))) as reader:
        place, folder, first = (1, 0), Path(made), 1
        for what, line in [*happened, ("read", b"")]:
            size = write(folder, first).stat().st_size
            match what:
                case "write":
                    written.append(line)
                    write(folder, first, line)
                case "begin":
                    first += 1
                case "compress":
                    for one in list_segments(folder)[:-1]:
                        _ = one.is_compressed or compress(one.path)
                case _:
                    path = write(folder, first, line[:-1])  # a write that fails, and is cut off
                    for portion in rest(reader, place, most):
                        found += portion.lines
                        place = portion.next_position
                    truncate(path, size)

    assert found == written
