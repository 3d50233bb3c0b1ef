"""`events tail -f` of a folder that another process writes."""

import gzip
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from reactive_desched.journal.records import JournalRecord
from reactive_desched.journal.segments import segment_at
from tests.support.golden import Golden
from tests.support.journals import some_events, write_journal

Started = Callable[..., subprocess.Popen[bytes]]
NextLines = Callable[[subprocess.Popen[bytes], int], list[bytes]]


@pytest.fixture
def unwritten(tmp_path: Path, folder: Path) -> list[JournalRecord]:
    """The records of a journal whose folder is still empty."""
    folder.mkdir()
    return write_journal(tmp_path / "elsewhere", some_events(200), per_segment=500)


def raw(records: list[JournalRecord]) -> list[bytes]:
    return [record.raw for record in records]


def write_on(folder: Path, records: list[JournalRecord], rng: Random) -> None:
    """Write records in torn pieces, begin new files, and compress and remove closed ones."""
    path = segment_at(folder, records[0].seq).path
    for number, record in enumerate(records, 1):
        line = record.raw + b"\n"
        cut = rng.randrange(len(line))
        for piece in (line[:cut], line[cut:]):
            with path.open("ab") as file:
                file.write(piece)
            if rng.random() < 0.1:
                time.sleep(0.01)  # so that it is read in between
        if number % 30 == 0 and number < len(records):
            closed, path = path, segment_at(folder, record.seq + 1).path
            path.touch()
            time.sleep(0.02)  # as above
            packed = closed.with_name(closed.name + ".gz")
            packed.write_bytes(gzip.compress(closed.read_bytes()))
            closed.unlink()


def test_following_shows_every_line_once_while_files_are_torn_begun_and_compressed(
    folder: Path, unwritten: list[JournalRecord], started: Started, next_lines: NextLines
) -> None:
    segment_at(folder, 1).path.touch()
    tail = started("-f", "--journal", str(folder), "--from", "oldest", "-o", "json")

    write_on(folder, unwritten, Random(7))
    shown = next_lines(tail, len(unwritten))
    tail.send_signal(signal.SIGINT)
    rest, complaints = tail.communicate(timeout=60)

    assert shown == raw(unwritten)
    assert (rest, complaints, tail.returncode) == (b"", b"", 130)


def test_following_continues_behind_the_last_ones_shown(
    folder: Path, unwritten: list[JournalRecord], started: Started, next_lines: NextLines
) -> None:
    write_on(folder, unwritten[:20], Random(1))
    tail = started("-f", "--journal", str(folder), "--limit", "3", "-o", "json")
    first = next_lines(tail, 3)

    with segment_at(folder, 1).path.open("ab") as file:
        file.writelines(line + b"\n" for line in raw(unwritten[20:31]))
    then = next_lines(tail, 11)

    assert first + then == raw(unwritten[17:31])


def test_following_a_folder_without_a_journal_waits_for_one_and_says_so(
    folder: Path, started: Started, next_lines: NextLines, golden: Golden
) -> None:
    folder.mkdir()
    tail = started("-f", "--journal", str(folder), "-o", "json")
    assert tail.stderr is not None

    said = tail.stderr.readline().decode()
    records = write_journal(folder, some_events(5))

    assert said.endswith(golden(folder=folder) + "\n")
    assert next_lines(tail, len(records)) == raw(records)


@pytest.mark.parametrize("output", ["json", "table"])
def test_a_reader_that_has_gone_ends_it_without_a_word(
    folder: Path,
    unwritten: list[JournalRecord],
    started: Started,
    next_lines: NextLines,
    output: str,
) -> None:
    write_on(folder, unwritten[:20], Random(1))
    tail = started("-f", "--journal", str(folder), "--limit", "3", "-o", output)
    assert tail.stdout is not None
    assert tail.stderr is not None

    next_lines(tail, 1)
    tail.stdout.close()
    with segment_at(folder, 1).path.open("ab") as file:
        file.write(unwritten[20].raw + b"\n")

    assert (tail.stderr.read(), tail.wait(60)) == (b"", 141)
