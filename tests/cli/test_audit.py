"""The audit commands as a person calls them."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from reactive_desched.cli import main
from reactive_desched.cli.audit_flags import NO_RECORD_MATCHES
from reactive_desched.journal.segments import list_segments
from tests.support.golden import Golden
from tests.support.journals import some_events, write_journal

POD = "shop/web-6d4b75cb6d-00000"


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("journal")
    write_journal(folder, some_events(300), per_segment=100, compress=True)
    return folder


def call(*words: str, journal: Path) -> int:
    return main(["audit", *words, "--journal", str(journal)])


def test_query_prints_the_newest_last(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("query", "--pod", POD, "--limit", "3", journal=journal) == 0

    told = capsys.readouterr()
    head, *rows = told.out.splitlines()
    assert head.startswith("TIME (UTC)")
    assert len(rows) == 3
    assert rows == sorted(rows)
    assert all(POD in row for row in rows)
    assert "older records match" in told.err


def test_query_as_json_gives_the_events(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = (
        "--node",
        "n1",
        "--plugin",
        "PodLifeTime",
        "--outcome",
        "evicted,not_found",
        "-o",
        "json",
    )
    assert call("query", *words, journal=journal) == 0

    found = json.loads(capsys.readouterr().out)
    assert {event["data"]["who"]["node"] for event in found} == {"n1"}
    assert {event["data"]["why"]["plugin"] for event in found} == {"PodLifeTime"}
    assert {event["data"]["outcome"]["result"] for event in found} <= {"evicted", "not_found"}


def test_query_finds_decisions_and_outcomes_by_the_code_of_their_reason(
    journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def query(*words: str) -> list[tuple[str, str]]:
        call("query", *words, "--limit", "0", "-o", "json", journal=journal)
        return [
            (event["id"], part["reason"])
            for event in json.loads(capsys.readouterr().out)
            for part in (event["data"].get("decision", {}), event["data"].get("outcome", {}))
            if "reason" in part
        ]

    every = query()
    codes = {reason for _, reason in every}

    assert len(codes) > 1
    for code in codes:
        assert query("--reason", code) == [(id_, reason) for id_, reason in every if reason == code]
    assert query("--reason", ",".join(codes)) == every


@pytest.mark.parametrize("limit", ["-1", "x", "1.5", "9" * 20])
def test_a_limit_that_is_no_number_of_records_is_refused(
    journal: Path, capsys: pytest.CaptureFixture[str], limit: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        call("query", f"--limit={limit}", journal=journal)

    assert ended.value.code == 2
    assert "is not a whole number" in capsys.readouterr().err


def test_query_that_finds_nothing_says_so_with_status_1(
    journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("query", "--pod", "nobody", journal=journal) == 1
    assert capsys.readouterr() == ("", NO_RECORD_MATCHES)


def test_query_that_finds_nothing_is_an_empty_array_in_json(
    journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("query", "--pod", "nobody", "-o", "json", journal=journal) == 1
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.parametrize("command", ["query", "show X", "export", "report", "status"])
def test_where_there_is_no_journal_the_message_says_how_to_name_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, golden: Golden
) -> None:
    assert call(*command.split(), journal=tmp_path) == 2
    assert golden() in capsys.readouterr().err


@pytest.mark.parametrize("command", ["query", "show X", "export", "report", "status"])
@pytest.mark.parametrize("text", ["hello\nworld\n", "hello", '{"a":1}\n'])
def test_files_of_another_program_are_named_and_left_without_an_index(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, text: str, golden: Golden
) -> None:
    path = tmp_path / "journal-00000000000000000001.jsonl"
    path.write_text(text)

    assert call(*command.split(), journal=tmp_path) == 1

    said = capsys.readouterr()
    assert golden(path=path) in said.err
    assert "--journal DIR" in said.err
    assert said.out == ""
    assert list(tmp_path.iterdir()) == [path]


def test_a_journal_that_is_only_begun_stands_as_one_without_an_index(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "journal-00000000000000000001.jsonl"
    path.touch()

    assert call("status", journal=tmp_path) == 0
    assert "index     none is kept" in capsys.readouterr().out
    assert call("query", journal=tmp_path) == 1
    assert list(tmp_path.iterdir()) == [path]


def test_a_journal_with_one_whole_record_left_is_searched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_journal(tmp_path, some_events(3), per_segment=3)
    path = list_segments(tmp_path)[0].path
    last = path.read_bytes().splitlines(keepends=True)[-1]
    path.write_bytes(b"hello\nworld\n" + last)

    assert call("query", "-o", "json", journal=tmp_path) == 0

    said = capsys.readouterr()
    assert len(json.loads(said.out)) == 1
    assert "2 damaged lines are left out" in said.err


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
@pytest.mark.parametrize(
    "command", ["query --limit 0", "verify", "status", "tail --limit 1000", f"show {POD}"]
)
def test_on_a_terminal_no_line_is_wider_and_no_word_is_lost(
    journal: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    width: int,
) -> None:
    assert call(*command.split(), journal=journal) == 0
    in_a_pipe = capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    assert call(*command.split(), journal=journal) == 0

    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= width
    undated = re.sub(r"^2026-\S+ \S+", "", in_a_pipe, flags=re.MULTILINE)
    words = re.sub(r"\d", "0", undated).split()  # an age differs if a second has passed
    together = re.sub(r"\d", "0", "".join(shown.split()))
    assert {word for word in words if word[-_UNSHORTENED:] not in together} == set()


_UNSHORTENED = 8
"""A plugin may be shortened at its beginning, and a time at both ends."""


def test_in_a_pipe_a_record_has_one_line_however_long(
    journal: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    assert call("query", "--type", "eviction.refused", "--limit", "0", journal=journal) == 0

    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split("  ")[0] == "TIME (UTC)"
    assert head.split()[2:] == ["EVENT", "POD", "NODE", "CASE", "PLUGIN", "WHAT"]
    assert max(map(len, rows)) > 120
    for row in rows:
        time, kind, pod, node, case, plugin, *what = row.split(maxsplit=8)[1:]
        assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3}", time)
        assert (kind, len(case)) == ("eviction.refused", 10)
        assert what
        assert pod.partition("/")[0] in ("shop", "bank")
        assert node in ("n1", "n2", "n3")
        assert plugin.startswith(("RemovePods", "PodLifeTime"))


def test_the_journal_is_looked_for_where_run_keeps_it(
    journal: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state = journal.parent / "state"
    state.mkdir()
    (state / "journal").symlink_to(journal)
    monkeypatch.setenv("STATE_DIRECTORY", str(state))

    assert main(["audit", "query", "--limit", "1"]) == 0


def test_show_prints_a_case(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("show", POD, journal=journal) == 0

    assert capsys.readouterr().out.startswith(f"{POD} on n1: ")


def test_show_as_json_gives_the_events_of_the_case(
    journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("show", POD, "-o", "json", journal=journal) == 0

    events = json.loads(capsys.readouterr().out)
    assert len({event["correlationid"] for event in events}) == 1
    assert events[0]["type"].endswith("finding.made.v1")


@pytest.mark.parametrize(
    ("flag", "word", "name"),
    [
        pytest.param("--pod", "web-6d4b75cb6d-00*", "web-6d4b75cb6d-00", id="the start of a name"),
        pytest.param("--pod", "shop/web-*-0000?", "shop/web-*-0000?", id="a pattern"),
        pytest.param("--pod", "web-*-0000?", "web-*-0000?", id="a pattern of a name"),
        pytest.param("--owner", "Deployment/web", "Deployment/web", id="an owner"),
        pytest.param("--owner", "Deployment/w*", "Deployment/w", id="the start of an owner"),
        pytest.param("--owner", "StatefulSet/*", "StatefulSet/*", id="a pattern of owners"),
    ],
)
def test_a_name_stands_for_pods_or_an_owner(
    journal: Path, capsys: pytest.CaptureFixture[str], flag: str, word: str, name: str
) -> None:
    def query(*words: str) -> list[str]:
        status = call("query", *words, "--limit", "0", "-o", "json", journal=journal)
        found = [event["id"] for event in json.loads(capsys.readouterr().out)]
        assert (status == 0) == bool(found)
        return found

    every = query()
    by_flag = query(flag, word)

    assert 0 < len(by_flag) < len(every)
    assert query(name) == by_flag


@pytest.mark.parametrize("name", ["shop/web-", "shop/*", "Deployment/web"])
def test_show_of_a_name_that_fits_several_cases_shows_the_latest_and_says_so(
    journal: Path, capsys: pytest.CaptureFixture[str], name: str, golden: Golden
) -> None:
    assert call("query", name, "--limit", "1", "-o", "json", journal=journal) == 0
    [newest] = json.loads(capsys.readouterr().out)

    assert call("show", name, "-o", "json", journal=journal) == 0
    told = capsys.readouterr()
    assert newest["correlationid"] in {each["correlationid"] for each in json.loads(told.out)}
    assert golden(name=f"{name!r}") + " " in told.err


@pytest.mark.parametrize("number", ["2", "17", "250"])
def test_a_number_is_that_of_a_record_or_of_the_case_it_belongs_to(
    journal: Path, capsys: pytest.CaptureFixture[str], number: str
) -> None:
    """Some uid of a pod in this journal begins with each of these digits."""
    assert call("show", number, "-o", "json", journal=journal) == 0

    shown = json.loads(capsys.readouterr().out)
    assert int(number) in {int(event["sequence"]) for event in shown}


@pytest.mark.parametrize("number", ["888888", "999999"])
def test_a_number_without_a_record_stands_for_no_name(
    journal: Path, capsys: pytest.CaptureFixture[str], number: str, golden: Golden
) -> None:
    assert call("show", number, journal=journal) == 1
    assert golden.shared("a number", number=number) in capsys.readouterr().err


def test_show_of_nothing_has_status_1(
    journal: Path, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    assert call("show", "nothing", journal=journal) == 1
    assert golden() in capsys.readouterr().err


def test_export_writes_every_line(journal: Path, tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"

    assert call("export", "--out", str(path), journal=journal) == 0

    lines = b""
    for one in list_segments(journal):
        with one.open() as file:
            lines += file.read()
    assert path.read_bytes() == lines


def test_export_as_a_table(journal: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert call("export", "--format", "csv", "--type", "policy", journal=journal) == 0

    head, *rows = capfdbinary.readouterr().out.split(b"\r\n")
    assert head.startswith(b"sequence,time,")
    assert {row.split(b",")[3] for row in rows if row} == {b"policy.loaded", b"policy.rejected"}


def test_status_shows_the_state_of_the_journal(
    journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("status", journal=journal) == 0
    assert "segments  3," in capsys.readouterr().out


def test_damaged_lines_are_left_out_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    write_journal(tmp_path, some_events(30), per_segment=10)
    path = list_segments(tmp_path)[0].path
    path.write_bytes(path.read_bytes().replace(b'"prev":', b'"PREV":', 2))

    assert call("query", journal=tmp_path) == 0

    assert golden() in capsys.readouterr().err


def test_an_index_is_made_anew_when_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_journal(tmp_path, some_events(30))
    call("query", journal=tmp_path)
    (tmp_path / "index.sqlite").write_bytes(b"rubbish" * 1000)

    assert call("query", "--rebuild-index", "--limit", "1", journal=tmp_path) == 0


def test_a_reader_may_close_the_output_early(journal: Path) -> None:
    words = [sys.executable, "-m", "reactive_desched", "audit", "export", "--journal", str(journal)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""


def _imported(words: Sequence[str]) -> set[str]:
    code = (
        "import sys\nfrom reactive_desched.cli import main\n"
        f"try:\n    main({list(words)!r})\nexcept SystemExit:\n    pass\n"
        "sys.stderr.write(' '.join(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True, env=os.environ
    )
    return set(done.stderr.split())


@pytest.mark.parametrize("command", ["query", "show", "export", "status"])
def test_help_loads_nothing_heavy(command: str) -> None:
    heavy = {"sqlite3", "pydantic", "anyio", "cryptography", "msgspec", "aiohttp"}

    assert not _imported(["audit", command, "--help"]) & heavy


def test_a_query_loads_no_event_loop(journal: Path) -> None:
    heavy = {"anyio", "aiohttp", "cryptography", "kubernetes_asyncio", "pydantic"}

    assert not _imported(["audit", "query", "--journal", str(journal), "--limit", "1"]) & heavy
