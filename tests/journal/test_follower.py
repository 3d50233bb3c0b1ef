import gzip
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from reactive_desched.journal.follower import JournalFollower, newest_records, seq_before
from reactive_desched.journal.records import MAX_RECORD_BYTES, JournalRecord, recorded_at
from reactive_desched.journal.segments import Segment, list_segments, segment_at
from tests.support.journals import some_events, write_journal


@pytest.fixture
def records(tmp_path: Path) -> list[JournalRecord]:
    """The records of a journal that is elsewhere, to be written here bit by bit."""
    return write_journal(tmp_path / "elsewhere", some_events(60), per_segment=100)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "journal"
    folder.mkdir()
    return folder


@pytest.fixture
def missed() -> list[tuple[int, int]]:
    return []


@pytest.fixture
def follower(folder: Path, missed: list[tuple[int, int]]) -> Iterator[JournalFollower]:
    with closing(
        JournalFollower(folder, 0, lambda first, last: missed.append((first, last)))
    ) as one:
        yield one


def append(folder: Path, first_seq: int, *raw: bytes) -> Path:
    path = segment_at(folder, first_seq).path
    with path.open("ab") as file:
        file.write(b"".join(raw))
    return path


def text(records: list[JournalRecord]) -> bytes:
    return b"".join(record.raw + b"\n" for record in records)


def compress(path: Path) -> None:
    path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()


def test_an_empty_folder_has_nothing_new_yet(follower: JournalFollower) -> None:
    assert list(follower.read_new()) == []


def test_a_line_is_given_when_it_is_whole_and_only_once(
    folder: Path, follower: JournalFollower, records: list[JournalRecord]
) -> None:
    raw = records[0].raw
    append(folder, 1, raw[:100])
    assert list(follower.read_new()) == []
    append(folder, 1, raw[100:])
    assert list(follower.read_new()) == []
    append(folder, 1, b"\n")
    assert list(follower.read_new()) == records[:1]
    assert list(follower.read_new()) == []


def test_a_torn_line_that_is_cut_off_and_written_anew_was_never_given(
    folder: Path, follower: JournalFollower, records: list[JournalRecord]
) -> None:
    path = append(folder, 1, text(records[:2]), records[2].raw[:50])
    assert list(follower.read_new()) == records[:2]
    path.write_bytes(text(records[:4]))
    assert list(follower.read_new()) == records[2:4]


def test_what_was_cut_off_behind_the_place_does_not_come_again(
    folder: Path, follower: JournalFollower, records: list[JournalRecord]
) -> None:
    path = append(folder, 1, text(records[:4]))
    assert list(follower.read_new()) == records[:4]
    path.write_bytes(text(records[:2]))
    assert list(follower.read_new()) == []
    shorter = [
        JournalRecord(one.seq, one.raw.replace(b'"specversion":"1.0",', b"")) for one in records
    ]
    append(folder, 1, text(shorter[2:6]))
    assert list(follower.read_new()) == shorter[4:6]


def test_what_was_cut_off_and_has_grown_beyond_the_place_meanwhile_is_read_from_a_line_on(
    folder: Path,
    follower: JournalFollower,
    records: list[JournalRecord],
    missed: list[tuple[int, int]],
) -> None:
    path = append(folder, 1, text(records[:4]))
    assert list(follower.read_new()) == records[:4]
    longer = [JournalRecord(one.seq, one.raw[:-1] + b',"z":0}') for one in records]
    path.write_bytes(text(records[:2]) + text(longer[2:8]))

    assert list(follower.read_new()) == longer[4:8]
    assert missed == []


def test_a_file_put_in_the_place_of_the_one_being_followed_is_followed(
    folder: Path,
    follower: JournalFollower,
    records: list[JournalRecord],
    missed: list[tuple[int, int]],
) -> None:
    path = append(folder, 1, text(records[:4]))
    assert list(follower.read_new()) == records[:4]
    other = folder / "restored"
    other.write_bytes(text(records[:6]))
    other.replace(path)

    assert list(follower.read_new()) == records[4:6]
    assert missed == []


def test_the_end_of_a_file_is_not_lost_when_the_next_one_is_begun(
    folder: Path, follower: JournalFollower, records: list[JournalRecord]
) -> None:
    append(folder, 1, text(records[:3]))
    assert list(follower.read_new()) == records[:3]
    append(folder, 1, text(records[3:5]))
    append(folder, 6, text(records[5:8]))
    assert list(follower.read_new()) == records[3:8]


def test_a_file_that_is_compressed_under_the_reader_is_read_to_its_end(
    folder: Path,
    follower: JournalFollower,
    records: list[JournalRecord],
    missed: list[tuple[int, int]],
) -> None:
    path = append(folder, 1, text(records[:3]))
    assert list(follower.read_new()) == records[:3]
    append(folder, 1, text(records[3:5]))
    append(folder, 6, text(records[5:6]))
    compress(path)
    assert list(follower.read_new()) == records[3:6]
    assert missed == []


def test_a_file_that_is_compressed_between_looking_and_opening_is_read_all_the_same(
    folder: Path,
    follower: JournalFollower,
    records: list[JournalRecord],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = append(folder, 1, text(records[:3]))
    append(folder, 4, text(records[3:5]))

    def look(directory: Path) -> list[Segment]:
        found = list_segments(directory)
        if path.exists():
            compress(path)
        return found

    monkeypatch.setattr("reactive_desched.journal.reader.list_segments", look)

    assert list(follower.read_new()) == records[:5]


def test_a_reader_that_is_far_behind_reads_compressed_files(
    folder: Path, follower: JournalFollower, records: list[JournalRecord]
) -> None:
    for first in range(0, 60, 10):
        compress(append(folder, first + 1, text(records[first : first + 10])))
    append(folder, 61, text(records[60:]))

    assert list(follower.read_new()) == records


def test_records_that_were_removed_are_reported(
    folder: Path,
    follower: JournalFollower,
    records: list[JournalRecord],
    missed: list[tuple[int, int]],
) -> None:
    path = append(folder, 1, text(records[:3]))
    assert list(follower.read_new()) == records[:3]
    path.unlink()
    append(folder, 9, text(records[8:10]))

    assert list(follower.read_new()) == records[8:10]
    assert missed == [(4, 8)]


@pytest.mark.parametrize("packed", [False, True])
def test_a_damaged_line_is_left_out_and_reported(
    folder: Path,
    follower: JournalFollower,
    records: list[JournalRecord],
    missed: list[tuple[int, int]],
    packed: bool,  # noqa: FBT001  # a parametrised fact
) -> None:
    path = append(folder, 1, text(records[:3]), b"{damaged}\n", text(records[4:6]))
    append(folder, 7, text(records[6:7]))
    if packed:
        compress(path)

    assert list(follower.read_new()) == [*records[:3], *records[4:7]]
    assert missed == [(4, 4)]


def test_a_compressed_file_that_breaks_off_costs_its_rest(
    folder: Path,
    follower: JournalFollower,
    records: list[JournalRecord],
    missed: list[tuple[int, int]],
) -> None:
    path = append(folder, 1, text(records[:40]))
    compress(path)
    packed = path.with_name(path.name + ".gz")
    packed.write_bytes(packed.read_bytes()[:-200])
    append(folder, 41, text(records[40:42]))

    found = list(follower.read_new())

    assert found[-2:] == records[40:42]
    assert found[:-2] == records[: len(found) - 2]
    assert missed == [(len(found) - 1, 40)]


def test_behind_a_file_that_breaks_off_the_next_one_is_followed_from_its_beginning(
    folder: Path,
    follower: JournalFollower,
    records: list[JournalRecord],
    missed: list[tuple[int, int]],
) -> None:
    path = append(folder, 1, gzip.compress(text(records[:1]))[:-8])
    path.rename(path.with_name(path.name + ".gz"))
    append(folder, 2)
    assert list(follower.read_new()) == records[:1]
    assert list(follower.read_new()) == []

    append(folder, 2, text(records[1:4]))

    assert list(follower.read_new()) == records[1:4]
    assert missed == []


def test_garbage_without_a_line_end_does_not_hold_up_what_comes_behind_it(
    folder: Path, follower: JournalFollower, records: list[JournalRecord]
) -> None:
    append(folder, 1, text(records[:2]), b"x" * (3 * MAX_RECORD_BYTES), b"\n", text(records[2:4]))

    assert list(follower.read_new()) == records[:4]


@pytest.mark.parametrize("most", [0, 1, 7, 25, 100])
def test_the_newest_are_found_from_the_end_on_backwards(
    folder: Path, records: list[JournalRecord], most: int
) -> None:
    for first in range(0, 60, 20):
        compress(append(folder, first + 1, text(records[first : first + 20])))
    append(folder, 61, text(records[60:]))

    found = newest_records(folder, most, lambda entry: entry.seq % 3 == 0)

    assert found.records == [one for one in records if one.seq % 3 == 0][-most or 100 :]
    assert found.last_seq == records[-1].seq


@pytest.mark.parametrize("at", [1, 2, 20, 21, 22, 40, 61])
def test_a_place_is_found_for_a_moment(folder: Path, records: list[JournalRecord], at: int) -> None:
    for first in range(0, 60, 20):
        compress(append(folder, first + 1, text(records[first : first + 20])))
    append(folder, 61, text(records[60:]))
    moment = recorded_at(records[at - 1].raw)
    assert moment is not None

    assert seq_before(folder, moment) == at - 1
    assert list_segments(folder)[0].first_seq == 1
