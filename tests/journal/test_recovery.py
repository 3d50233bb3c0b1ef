import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.errors import JournalError
from reactive_desched.journal.disk import Disk
from reactive_desched.journal.log import Log
from reactive_desched.journal.reading import read
from reactive_desched.journal.records import IntentRecord, OutcomeRecord, encode
from reactive_desched.journal.recovery import recover

MakeIntent = Callable[[str], IntentRecord]
MakeOutcome = Callable[[str], OutcomeRecord]
WriteLog = Callable[..., Path]


@pytest.fixture
def write(clock: Callable[[], object]) -> WriteLog:
    """Return a way to go on writing in a directory; it returns the last file."""

    def write(directory: Path, *records: IntentRecord | OutcomeRecord) -> Path:
        log = Log(directory, disk=Disk(), max_segment_bytes=1 << 20, clock=clock)  # type: ignore[arg-type]  # tells the time
        log.resume(recover(directory))
        for record in records:
            log.commit([encode(record)], None)
        log.close()
        return max(directory.glob("*.jsonl"))

    return write


def ids(directory: Path) -> list[str]:
    return [record.id for record in read(directory) if isinstance(record, IntentRecord)]


def test_a_journal_cut_at_any_byte_keeps_every_whole_record_and_goes_on(
    tmp_path: Path, write: WriteLog, intent: MakeIntent
) -> None:
    whole = write(tmp_path, intent("a"), intent("b")).read_bytes()
    ends = [end for end in range(len(whole)) if whole[end : end + 1] == b"\n"]

    for cut in range(len(whole)):
        directory = tmp_path / str(cut)
        directory.mkdir()
        (directory / "journal-00000000000000000001.jsonl").write_bytes(whole[:cut])

        found = recover(directory)
        write(directory, intent("c"))

        survivors = sum(end < cut for end in ends)
        kept = max((end + 1 for end in ends if end < cut), default=0)
        assert found.torn_bytes == cut - kept, cut
        assert ids(directory) == [*["a", "b"][: max(0, survivors - 1)], "c"], cut
        assert [r.seq for r in read(directory)] == list(range(1, max(survivors, 1) + 2)), cut
        if found.torn is None:
            assert cut == kept, cut
        else:
            assert found.torn.read_bytes() == whole[kept:cut], cut


@given(st.binary(min_size=1, max_size=200))
def test_whatever_stands_behind_the_last_whole_record_is_set_aside(tail: bytes) -> None:
    line = b'{"seq":1,"kind":"segment","time":"2026-03-29T01:30:00Z","format":1}\n'
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "journal-00000000000000000001.jsonl"
        path.write_bytes(line + tail)

        found = recover(Path(name))

        assert path.read_bytes() == line
        assert found.next_seq == 2
        assert found.torn is not None
        assert found.torn.read_bytes() == tail


def test_a_second_torn_end_is_kept_behind_the_first(
    tmp_path: Path, write: WriteLog, intent: MakeIntent
) -> None:
    path = write(tmp_path, intent("a"))
    for tail in (b'{"seq":3', b"xyz"):
        with path.open("ab") as file:
            file.write(tail)
        recover(tmp_path)

    assert path.with_name(path.name + ".torn").read_bytes() == b'{"seq":3xyz'


def test_a_damaged_line_with_whole_lines_behind_it_is_named_and_never_removed(
    tmp_path: Path, write: WriteLog, intent: MakeIntent, outcome: MakeOutcome
) -> None:
    path = write(tmp_path, intent("a"), intent("b"), outcome("a"), intent("c"))
    damaged = path.read_bytes().replace(b'"id":"b"', b'"id":\xff"')
    path.write_bytes(damaged)

    found = recover(tmp_path)

    assert path.read_bytes() == damaged
    assert found.torn is None
    assert found.damaged_lines == 1
    assert found.damaged == [f"{path}: byte {damaged.index(bytes([10]), 150) + 1}"]
    assert list(found.open) == ["c"]
    assert found.next_seq == 6


def test_a_line_of_a_kind_from_a_later_version_is_neither_damaged_nor_cut(
    tmp_path: Path, write: WriteLog, intent: MakeIntent
) -> None:
    path = write(tmp_path, intent("a"))
    later = b'{"seq":3,"kind":"verdict","new":[1]}\n'
    with path.open("ab") as file:
        file.write(later)

    found = recover(tmp_path)

    assert path.read_bytes().endswith(later)
    assert (found.damaged_lines, found.torn, found.next_seq) == (0, None, 4)


def test_a_journal_in_a_later_format_is_left_alone(tmp_path: Path) -> None:
    heading = b'{"seq":1,"kind":"segment","time":"2026-03-29T01:30:00Z","format":2}\n'
    (tmp_path / "journal-00000000000000000001.jsonl").write_bytes(heading)

    with pytest.raises(JournalError, match="in format 2 by a newer version"):
        recover(tmp_path)


def test_a_torn_heading_is_written_again_under_the_same_name(
    tmp_path: Path, write: WriteLog, intent: MakeIntent
) -> None:
    first = write(tmp_path, intent("a"))
    last = tmp_path / "journal-00000000000000000003.jsonl"
    last.write_bytes(b'{"seq":3,"kind":"segm')

    write(tmp_path, intent("b"))

    assert sorted(tmp_path.glob("*.jsonl")) == [first, last]
    assert [record.seq for record in read(tmp_path)] == [1, 2, 3, 4]
    assert list(recover(tmp_path).open) == ["a", "b"]
