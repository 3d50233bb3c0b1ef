"""`events tail` of a folder: which records it shows, and what it says of those it cannot."""

from collections.abc import Callable
from pathlib import Path

import pytest
from anyio import to_thread

from reactive_desched.cli import main
from reactive_desched.journal.records import JournalRecord
from reactive_desched.journal.tail import LiveTail
from tests.support.golden import Golden
from tests.support.journals import SOURCE, some_events, write_journal
from tests.support.served_journal import EPOCH, serve_stream

Shown = Callable[..., list[bytes]]


def test_the_last_ten_lines_come_as_they_are(
    folder: Path, lines: list[bytes], shown: Shown
) -> None:
    assert shown("--journal", str(folder)) == lines[-10:]


@pytest.mark.parametrize("count", ["0", "1", "60", "1000"])
def test_as_many_as_are_asked_for_come_from_as_many_files_as_it_takes(
    folder: Path, lines: list[bytes], shown: Shown, count: str
) -> None:
    expected = lines[max(0, len(lines) - int(count)) :]
    assert shown("--journal", str(folder), "--limit", count) == expected


def test_the_former_name_of_limit_means_the_same(
    folder: Path, lines: list[bytes], shown: Shown
) -> None:
    assert shown("--journal", str(folder), "--last", "7") == lines[-7:]


def test_the_last_of_those_wanted_are_found_wherever_they_are(
    folder: Path, lines_about: Callable[..., list[bytes]], shown: Shown
) -> None:
    chosen = shown(
        "--journal", str(folder), "--limit", "30", "--type", "eviction", "--node", "n1,n2"
    )

    wanted = [line for line in lines_about("eviction.") if b'"node":"n3"' not in line]
    assert chosen == wanted[-30:]


@pytest.mark.parametrize(
    ("start", "first"),
    [
        ("oldest", 1),
        ("now", 124),
        ("0", 1),
        ("57", 58),
        (f"{EPOCH}.57", 58),
        ("2026-03-29T01:31:40Z", 100),
        ("2026-03-29", 1),
        ("2026-03-30", 124),
        ("876000h", 1),
    ],
)
def test_a_place_to_begin_is_behind_what_it_names(
    folder: Path, lines: list[bytes], shown: Shown, start: str, first: int
) -> None:
    assert len(lines) == 123
    assert shown("--journal", str(folder), "--from", start) == lines[first - 1 :]


def test_since_and_until_bound_the_time(folder: Path, lines: list[bytes], shown: Shown) -> None:
    where = ("--journal", str(folder))
    middle = "2026-03-29T01:31:40Z"
    after = shown(*where, "--since", middle)
    before = shown(*where, "--since", "2026-03-29", "--until", middle)

    assert after == lines[99:]
    assert before == lines[:99]
    assert shown(*where, "--until", middle) == before[-10:]


def test_a_pattern_stands_for_every_name_that_fits(
    folder: Path, lines_about: Callable[..., list[bytes]], shown: Shown
) -> None:
    chosen = shown("--journal", str(folder), "--limit", "100", "--node", "n?", "--type", "eviction")
    fewer = shown("--journal", str(folder), "--limit", "100", "--node", "*1", "--type", "eviction")

    assert chosen == lines_about("eviction.")[-100:]
    assert fewer == [line for line in chosen if b'"node":"n1"' in line] != []


@pytest.mark.usefixtures("records")
@pytest.mark.parametrize("flag", ["--since", "--until"])
def test_a_text_that_is_not_a_time_is_refused_with_the_ways_to_write_one(
    folder: Path, capfd: pytest.CaptureFixture[str], flag: str, golden: Golden
) -> None:
    assert main(["events", "tail", "--journal", str(folder), flag, "5y"]) == 2

    assert capfd.readouterr().err.startswith(golden(flag=flag))


def test_without_a_place_the_journal_of_the_controller_is_read(
    tmp_path: Path, shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    records = write_journal(tmp_path / "journal", some_events(5))

    assert shown() == [record.raw for record in records[-10:]]


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param(["--from", "sometime"], id="--from sometime"),
        pytest.param(["--from", "3y"], id="--from 3y"),
        pytest.param(["--from", "2026-13-01"], id="--from 2026-13-01"),
        pytest.param(["--type", "evicton"], id="--type evicton"),
        pytest.param(["--pod", "a,,b"], id="--pod a,,b"),
    ],
)
@pytest.mark.usefixtures("records")
def test_what_is_wrong_is_named_with_what_there_is(
    folder: Path, capfd: pytest.CaptureFixture[str], flags: list[str], golden: Golden
) -> None:
    assert main(["events", "tail", "--journal", str(folder), *flags]) == 2
    captured = capfd.readouterr()
    assert golden() in captured.err
    assert captured.out == ""


@pytest.mark.usefixtures("records")
def test_a_wrong_place_is_refused_in_one_sentence(
    folder: Path, capfd: pytest.CaptureFixture[str], golden: Golden
) -> None:
    assert main(["events", "tail", "--journal", str(folder), "--from", "yesterday"]) == 2

    assert capfd.readouterr().err == golden() + "\n"


@pytest.fixture
def without_the_first(folder: Path, records: list[JournalRecord]) -> None:
    """Retention removes the first file, with records 1 to 51."""
    min(folder.glob("journal-*")).unlink()


@pytest.mark.anyio
@pytest.mark.usefixtures("without_the_first")
@pytest.mark.parametrize("where", ["folder", "server"])
@pytest.mark.parametrize(
    ("start", "why"),
    [
        ("9999999", "far ahead"),
        (f"{EPOCH}.124", "ahead"),
        ("another.3", "another journal"),
        ("another.100", "another journal"),
        ("20", "removed"),
        (f"{EPOCH}.51", ""),
        ("2026-03-29T03:30:00+02:00", ""),
        ("2026-03-29", ""),
        ("2026-03-28", ""),
    ],
)
async def test_a_position_that_is_gone_is_reported_and_all_that_is_left_follows(
    folder: Path,
    lines: list[bytes],
    capfdbinary: pytest.CaptureFixture[bytes],
    where: str,
    start: str,
    why: str,
    golden: Golden,
) -> None:
    async with serve_stream(LiveTail(folder, SOURCE, 52, 123)) as served:
        place = ("--journal", str(folder)) if where == "folder" else ("--server", served.url)
        words = ["events", "tail", "-o", "json", *place, "--from", start]
        assert await to_thread.run_sync(main, words) == 0

    captured = capfdbinary.readouterr()
    assert captured.out.splitlines() == lines[51:]
    assert captured.err.decode() == (golden(why) + "\n" if why else "")


def test_a_folder_that_is_not_there_is_named_with_both_ways_out(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["events", "tail", "--journal", str(tmp_path / "none")]) == 2
    told = capfd.readouterr().err
    assert str(tmp_path / "none") in told
    assert "--journal" in told
    assert "--server" in told


def test_a_folder_without_a_journal_is_named_as_one_that_is_not_there(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "readme.txt").write_text("hello")
    assert main(["events", "tail", "--journal", str(tmp_path)]) == 2
    assert f"{tmp_path}: there is no journal here" in capfd.readouterr().err


def test_records_that_are_damaged_are_reported_where_they_are_missing(
    folder: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    records = write_journal(folder, some_events(20), per_segment=50)
    (path,) = folder.glob("journal-*")
    path.write_bytes(path.read_bytes().replace(records[7].raw, b"damage"))

    words = ["events", "tail", "-o", "json", "--journal", str(folder), "--from", "5"]
    assert main(words) == 0
    captured = capfdbinary.readouterr()
    assert captured.out.splitlines() == [one.raw for one in records[5:7] + records[8:]]
    assert b"record 8 is missing here: removed, or damaged" in captured.err
