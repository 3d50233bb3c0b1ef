"""A line nested more deeply than can be read is to every command one damaged line."""

import json
from pathlib import Path

import pytest

from reactive_desched.cli import main
from reactive_desched.journal.records import JournalRecord
from reactive_desched.journal.segments import list_segments
from tests.support.journals import some_events, write_journal

pytestmark = pytest.mark.usefixtures("home")

DEEP = b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.fixture
def records(folder: Path) -> list[JournalRecord]:
    """A journal in whose file the line is the place of record 3."""
    written = write_journal(folder, some_events(10))
    [file] = list_segments(folder)
    file.path.write_bytes(file.path.read_bytes().replace(written[2].raw, DEEP))
    return [*written[:2], *written[3:]]


def test_verify_names_it(
    folder: Path, records: list[JournalRecord], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", "verify", "--journal", str(folder), "-o", "json"]) == 1

    bad = json.loads(capsys.readouterr().out)["bad"]
    assert bad["sequence"] == records[1].seq + 1
    assert bad["offset"] == sum(len(entry.raw) + 1 for entry in records[:2])


def test_status_counts_it(
    folder: Path, records: list[JournalRecord], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", "status", "--journal", str(folder), "-o", "json"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert (told["damagedLines"], told["last"]["sequence"]) == (1, records[-1].seq)


def test_query_leaves_it_out(
    folder: Path, records: list[JournalRecord], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", "query", "--journal", str(folder), "-o", "json"]) == 0

    told = capsys.readouterr()
    found = {int(event["sequence"]) for event in json.loads(told.out)}
    assert found == {entry.seq for entry in records}
    assert "1 damaged line is left out" in told.err


def test_export_leaves_it_out(
    folder: Path, records: list[JournalRecord], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["audit", "export", "--journal", str(folder)]) == 0

    assert capfdbinary.readouterr().out.splitlines() == [entry.raw for entry in records]


@pytest.mark.parametrize("start", [[], ["--from", "oldest"], ["--from", "2026-03-29"]])
def test_tail_leaves_it_out(
    folder: Path,
    records: list[JournalRecord],
    capfdbinary: pytest.CaptureFixture[bytes],
    start: list[str],
) -> None:
    words = ["events", "tail", "-o", "json", "--journal", str(folder), *start]
    assert main(words) == 0

    shown = capfdbinary.readouterr().out.splitlines()
    assert shown == [entry.raw for entry in records[-len(shown) :]]
    assert len(shown) >= len(records) - 1
