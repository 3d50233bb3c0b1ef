import tempfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.api.event import CHECKPOINT, EVICTION_REQUESTED
from reactive_desched.errors import JournalError
from reactive_desched.journal.disk import Disk
from reactive_desched.journal.events import read_events
from reactive_desched.journal.log import Rotation
from reactive_desched.journal.opened import JournalConfig, open_directory
from reactive_desched.journal.records import AnyEvent, digest, encode
from reactive_desched.journal.recovery import recover
from reactive_desched.journal.signing.checkpointer import CheckpointContext
from tests.support.journals import some_events, write_journal

MakeIntent = Callable[[str], AnyEvent]
MakeOutcome = Callable[..., AnyEvent]
WriteLog = Callable[..., Path]


@pytest.fixture
def write(clock: Callable[[], datetime]) -> WriteLog:
    """Return a way to go on writing in a directory; it returns the last file."""

    def write(directory: Path, *events: AnyEvent) -> Path:
        making = JournalConfig(Rotation(1 << 20, 1e9), every_records=1000, every_s=1e6)
        opened = open_directory(directory, Disk(), making, clock)
        for event in events:
            opened.writer.commit([encode(event)], lambda _: CheckpointContext())
        opened.writer.close()
        opened.lock.close()
        return max(directory.glob("*.jsonl"))

    return write


def ids(directory: Path) -> list[str]:
    return [event.id for event in read_events(directory) if event.type == EVICTION_REQUESTED]


def broken_links(directory: Path) -> list[str]:
    """Name the records whose `prev` is not the hash of the line before."""
    raw = b"".join(path.read_bytes() for path in sorted(directory.glob("*.jsonl"))).splitlines()
    events = list(read_events(directory))
    assert len(raw) == len(events)
    pairs = zip(raw, events[1:], strict=False)
    return [event.sequence for line, event in pairs if event.prev != digest(line)]


def test_a_journal_cut_at_any_byte_keeps_every_whole_record_and_continues_in_its_chain(
    tmp_path: Path, write: WriteLog, intent: MakeIntent
) -> None:
    whole = write(tmp_path, intent("a"), intent("b")).read_bytes()
    ends = [end for end in range(len(whole)) if whole[end : end + 1] == b"\n"]

    for cut in sorted({*range(0, len(whole), 13), *ends, *(end + 1 for end in ends[:-1])}):
        directory = tmp_path / str(cut)
        directory.mkdir()
        (directory / "journal-00000000000000000001.jsonl").write_bytes(whole[:cut])

        found = recover(directory)
        write(directory, intent("c"))

        survivors = sum(end < cut for end in ends)
        kept = max((end + 1 for end in ends if end < cut), default=0)
        assert found.torn_bytes == cut - kept, cut
        assert ids(directory) == [*["a", "b"][: max(0, survivors - 1)], "c"], cut
        seqs = [int(event.sequence) for event in read_events(directory)]
        assert seqs == list(range(1, max(survivors, 1) + 2)), cut
        assert broken_links(directory) == [], cut
        if found.torn_file is None:
            assert cut == kept, cut
        else:
            assert found.torn_file.read_bytes() == whole[kept:cut], cut


@given(st.binary(min_size=1, max_size=200))
def test_whatever_stands_behind_the_last_whole_record_is_set_aside(tail: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        [entry] = write_journal(Path(name), some_events(0))
        path = Path(name) / "journal-00000000000000000001.jsonl"
        path.write_bytes(entry.raw + b"\n" + tail)

        found = recover(Path(name))

        assert path.read_bytes() == entry.raw + b"\n"
        assert (found.next_seq, found.prev) == (2, digest(entry.raw))
        assert found.torn_file is not None
        assert found.torn_file.read_bytes() == tail


def test_a_second_torn_end_is_kept_behind_the_first(
    tmp_path: Path, write: WriteLog, intent: MakeIntent
) -> None:
    path = write(tmp_path, intent("a"))
    for tail in (b'{"causationid":3', b"xyz"):
        with path.open("ab") as file:
            file.write(tail)
        recover(tmp_path)

    assert path.with_name(path.name + ".torn").read_bytes() == b'{"causationid":3xyz'


def test_a_damaged_line_with_whole_lines_behind_it_is_named_and_never_removed(
    tmp_path: Path, write: WriteLog, intent: MakeIntent, outcome: MakeOutcome
) -> None:
    path = write(tmp_path, intent("a"), intent("b"), outcome("a"), intent("c"))
    damaged = path.read_bytes().replace(b'"id":"b"', b'"id":\xff"')
    path.write_bytes(damaged)

    found = recover(tmp_path)

    at = damaged.index(b'"id":\xff')
    assert path.read_bytes() == damaged
    assert found.torn_file is None
    assert f"{path}: byte {damaged.rindex(bytes([10]), 0, at) + 1}" in found.damage_locations
    assert list(found.open_intents) == ["c"]
    assert found.next_seq == 6


def test_a_record_that_was_altered_breaks_the_chain_and_is_reported(
    tmp_path: Path, write: WriteLog, intent: MakeIntent
) -> None:
    path = write(tmp_path, intent("a"), intent("b"))
    path.write_bytes(path.read_bytes().replace(b"web-a", b"web-x"))

    assert recover(tmp_path).damaged_lines == 1


def test_an_event_of_a_later_version_is_neither_damaged_nor_cut(
    tmp_path: Path, write: WriteLog, intent: MakeIntent
) -> None:
    path = write(tmp_path, intent("a"))
    raw = path.read_bytes().splitlines()[-1]
    later = raw.replace(b"eviction.requested.v1", b"eviction.pondered.v3")
    path.write_bytes(path.read_bytes().replace(raw, later))

    found = recover(tmp_path)

    assert (found.damaged_lines, found.torn_file, found.next_seq) == (0, None, 3)
    assert found.open_intents == {}


def test_a_journal_of_an_earlier_version_is_left_alone(tmp_path: Path) -> None:
    heading = b'{"seq":1,"kind":"segment","time":"2026-03-29T01:30:00Z","format":1}\n'
    path = tmp_path / "journal-00000000000000000001.jsonl"
    path.write_bytes(heading)

    with pytest.raises(JournalError, match="earlier version"):
        recover(tmp_path)
    assert path.read_bytes() == heading


def test_a_journal_that_lacks_its_last_file_is_left_alone(tmp_path: Path) -> None:
    write_journal(tmp_path, some_events(30), per_segment=10, compress=True)
    max(tmp_path.glob("*.jsonl")).unlink()

    with pytest.raises(JournalError, match="later ones are missing"):
        recover(tmp_path)


def test_a_torn_heading_is_written_again_under_the_same_name(
    tmp_path: Path, write: WriteLog, intent: MakeIntent
) -> None:
    first = write(tmp_path, intent("a"))
    last = tmp_path / "journal-00000000000000000003.jsonl"
    last.write_bytes(b'{"causationid":"x')

    write(tmp_path, intent("b"))

    assert sorted(tmp_path.glob("*.jsonl")) == [first, last]
    events = list(read_events(tmp_path))
    assert [int(event.sequence) for event in events] == [1, 2, 3, 4]
    assert [event.type for event in events] == [
        CHECKPOINT,
        EVICTION_REQUESTED,
        CHECKPOINT,
        EVICTION_REQUESTED,
    ]
    assert events[2].source == events[1].source
    assert broken_links(tmp_path) == []
    assert list(recover(tmp_path).open_intents) == ["a", "b"]
