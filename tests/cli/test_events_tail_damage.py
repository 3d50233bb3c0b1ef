"""`events tail` begins where it is told to, whatever became of files before that place."""

from pathlib import Path

import pytest

from reactive_desched.cli import main
from reactive_desched.journal.records import JournalRecord
from tests.support.served_journal import EPOCH


@pytest.fixture
def damaged(folder: Path, records: list[JournalRecord]) -> list[JournalRecord]:
    """Damage the first file, with records 1 to 51, and return the others."""
    path = min(folder.glob("journal-*.gz"))
    path.write_bytes(path.read_bytes()[:60])
    return records[51:]


@pytest.mark.parametrize("place", ["51", f"{EPOCH}.51", "60", f"{EPOCH}.60"])
def test_a_damaged_file_before_the_place_is_not_asked(
    folder: Path,
    damaged: list[JournalRecord],
    capfdbinary: pytest.CaptureFixture[bytes],
    place: str,
) -> None:
    words = ["events", "tail", "-o", "json", "--journal", str(folder), "--from", place]
    assert main(words) == 0

    captured = capfdbinary.readouterr()
    behind = int(place.rpartition(".")[2])
    assert captured.out.splitlines() == [one.raw for one in damaged if one.seq > behind]
    assert captured.err == b""


def test_a_damaged_file_behind_the_position_is_reported(
    folder: Path, damaged: list[JournalRecord], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    words = ["events", "tail", "-o", "json", "--journal", str(folder), "--from", "5"]
    assert main(words) == 0

    captured = capfdbinary.readouterr()
    assert captured.out.splitlines() == [one.raw for one in damaged]
    assert b"records 6 to 51 are missing here" in captured.err


@pytest.mark.parametrize("count", ["-1", "x", "1.5", "²", "9" * 20])
@pytest.mark.usefixtures("records")
def test_a_count_that_is_no_number_of_records_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], count: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["events", "tail", "--journal", str(folder), f"--limit={count}"])

    assert ended.value.code == 2
    assert "is not a whole number" in capsys.readouterr().err


@pytest.mark.parametrize("count", ["200", "1000000000"])
def test_more_than_there_are_is_all_there_are(
    folder: Path,
    records: list[JournalRecord],
    capfdbinary: pytest.CaptureFixture[bytes],
    count: str,
) -> None:
    assert main(["events", "tail", "-o", "json", "--journal", str(folder), "--limit", count]) == 0

    assert capfdbinary.readouterr().out.splitlines() == [one.raw for one in records]
