"""`replay`: equal decisions, differences with both stories, and what cannot be replayed."""

import json
import re
import shutil
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

from reactive_desched.api.event import DECISION_DEFER, DECISION_EVICT
from reactive_desched.recording.reader import summarize_recording
from reactive_desched.replay import replaying
from reactive_desched.text.times import format_second
from tests.cli.conftest import Run
from tests.safety.story import UNBROKEN, play_story


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("journal")
    play_story(Random(9), folder, steps=15, records=True, actions=UNBROKEN)
    return folder


@pytest.fixture
def run(run: Run) -> Run:
    return partial(run, "replay")


def test_a_journal_is_replayed_by_its_own_recording(journal: Path, run: Run) -> None:
    status, out, _ = run("--journal", str(journal))

    assert status == 0
    assert re.match(r"\d+ decisions, all equal\n", out)


def test_the_journal_beside_a_recording_is_found(journal: Path, run: Run) -> None:
    status, out, _ = run("--recording", str(journal / "recording"), "-o", "json")

    report = json.loads(out)
    assert status == 0
    assert report["equal"] > 3
    assert report["differences"] == []


def test_a_time_with_migration_jobs_is_left_out_with_the_number_of_its_decisions(
    journal: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    equal = json.loads(run("--journal", str(journal), "-o", "json")[1])["equal"]
    with_jobs = SimpleNamespace(controller=SimpleNamespace(migration=object()))
    monkeypatch.setattr(replaying, "read_configuration", lambda *_, **__: with_jobs)

    status, out, _ = run("--journal", str(journal), "-o", "json")

    (left_out,) = json.loads(out)["notCompared"]
    assert status == 1
    assert re.match(rf"\S+Z to \S+Z, {equal} decisions of the journal: ", left_out)

    since = ("--since", "2100-01-01", "--until", "2100-01-02")
    assert json.loads(run("--journal", str(journal), *since, "-o", "json")[1])["notCompared"] == []


def rewrite(journal: Path, pattern: str, text: str) -> None:
    """Replace the first place in the journal's files that a pattern matches."""
    (file,) = sorted(journal.glob("journal-*.jsonl"))
    written, count = re.subn(pattern, text, file.read_text(encoding="utf-8"), count=1)
    assert count == 1
    file.write_text(written, encoding="utf-8")


def test_another_decision_is_shown_with_both_stories(journal: Path, run: Run) -> None:
    rewrite(journal, f'"type":"{DECISION_EVICT}"', f'"type":"{DECISION_DEFER}"')

    status, out, _ = run("--journal", str(journal))

    assert status == 1
    assert "alone has defer" in out
    assert "alone has evict" in out
    assert "  journal  " in out
    assert "  replay   " in out


def test_a_time_is_compared_alone(journal: Path, run: Run) -> None:
    found = summarize_recording(journal / "recording")
    middle = format_second((found.first_s + found.last_s) / 2)
    whole, first, last = (
        json.loads(run("--journal", str(journal), "-o", "json", *words)[1])
        for words in ((), ("--until", middle), ("--since", middle))
    )

    assert first["equal"] + last["equal"] == whole["equal"]
    assert first["compared"][0]["to"] == middle
    assert last["compared"][0]["from"] == middle


@pytest.mark.parametrize("flag", ["--since", "--until"])
def test_what_is_no_time_is_refused(flag: str, journal: Path, run: Run) -> None:
    status, _, err = run("--journal", str(journal), flag, "noon")

    assert status == 2
    assert flag in err


def test_a_time_that_is_not_recorded_compares_nothing(journal: Path, run: Run) -> None:
    status, out, _ = run("--journal", str(journal), "--until", "1970-01-02")

    assert status == 1
    assert "nothing was compared" in out


def test_a_recording_without_a_journal_names_the_flag(
    journal: Path, tmp_path: Path, run: Run
) -> None:
    moved = tmp_path / "elsewhere" / "recording"
    shutil.copytree(journal / "recording", moved)
    status, _, err = run("--recording", str(moved))

    assert status == 2
    assert "--journal DIR" in err
