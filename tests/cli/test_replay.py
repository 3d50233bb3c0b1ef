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
from reactive_desched.cli import main
from reactive_desched.plugins.node_taints import NodeTaintsPlugin
from reactive_desched.recording.coverage import summarize_recording
from reactive_desched.recording.frames import read_frames, segment_paths
from reactive_desched.recording.items import RecordingInterrupted, Worked
from reactive_desched.recording.reader import read_items
from reactive_desched.recording.recording_file import write_file
from reactive_desched.recording.segments import ignore_damage, recording_paths
from reactive_desched.replay import replaying
from reactive_desched.replay.lives import Life
from reactive_desched.replay.replaying import ReplayReport
from reactive_desched.text.ages import format_duration
from reactive_desched.text.times import format_moment, format_second
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


@pytest.mark.parametrize("is_torn", [True, False])
def test_a_recording_that_is_damaged_but_at_a_torn_end_is_the_status(
    journal: Path,
    run: Run,
    is_torn: bool,  # noqa: FBT001 -- what is compared
) -> None:
    last = segment_paths(journal / "recording")[-1]
    content = bytearray(last.read_bytes())
    content[-9] ^= 1
    last.write_bytes(content[:-1] if is_torn else content)

    status, out, _ = run("--journal", str(journal))

    assert status == (0 if is_torn else 1)
    assert f"{'torn end' if is_torn else 'damaged'}: {last.name}, byte" in out


def test_a_plugin_that_fails_is_the_status(
    journal: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where that was to be expected, and all decisions are equal."""

    def fail(*_: object) -> None:
        raise LookupError("no price")

    monkeypatch.setattr(NodeTaintsPlugin, "judge", fail)
    monkeypatch.setattr(ReplayReport, "differences", ())
    status, _, err = run("--journal", str(journal))

    assert status == 1
    assert "no price" in err


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
    monkeypatch.setattr(Life, "has_job_steps", False)

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


def cut_recording(journal: Path, frames: int) -> None:
    """Leave out the last frames of a recording, as a controller that runs has not written them."""
    last = max((journal / "recording").glob("*.rdrec"))
    with last.open("rb+") as file:
        found = list(read_frames(file, last.name, ignore_damage))
        file.truncate(found[-frames].offset)


def test_the_last_turns_of_a_controller_that_still_writes_are_left_out_and_counted(
    story: Path, tmp_path: Path, run: Run
) -> None:
    left_out, equal = [], []
    for frames in range(1, 7):
        journal = shutil.copytree(story, tmp_path / str(frames))
        cut_recording(journal, frames)
        status, out, _ = run("--journal", str(journal), "-o", "json")
        report = json.loads(out)
        assert (status, report["differences"], report["damages"]) == (0, [], [])
        left_out.append(report["unrecorded"])
        equal.append(report["equal"])
    whole = json.loads(run("--journal", str(story), "-o", "json")[1])

    assert whole["unrecorded"] == 0
    assert left_out == sorted(left_out)
    assert left_out[-1] > 0
    assert equal[-1] + left_out[-1] >= whole["equal"]
    _, out, _ = run("--journal", str(journal))
    assert f"the journal's last {left_out[-1]} decision" in out
    _, out, _ = run("--journal", str(journal), "--until", report["compared"][-1]["to"])
    assert "left out" not in out


def test_what_waited_when_a_recording_was_interrupted_is_not_compared(
    journal: Path, run: Run
) -> None:
    items = list(read_items(recording_paths(journal / "recording"), ignore_damage))
    worked = [at for at, item in enumerate(items) if isinstance(item, Worked)]
    behind = items[worked[len(worked) // 2]].at  # the turns from there on had not been written
    ends = items[-1].at
    kept = [each for each in items if each.at < behind]
    file = journal / "interrupted.rdrec"
    write_file((*kept, RecordingInterrupted(ends, "changes come faster than recorded")), file)
    words = ("--journal", str(journal), "--recording", str(file), "-o", "json")

    status, out, _ = run(*words)

    report = json.loads(out)
    assert (status, report["differences"]) == (0, [])
    assert report["unrecorded"] > 0


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


def test_a_replay_says_how_much_of_what_was_asked_for_is_recorded(journal: Path, run: Run) -> None:
    found = summarize_recording(journal / "recording")
    since = format_second(found.first_s - 7 * 86_400)
    words = ("--journal", str(journal), "--since")

    _, short, _ = run(*words, since)
    _, whole, _ = run(*words, format_second(found.first_s + 1))

    length = format_duration(found.last_s - found.first_s)
    assert f"recorded    {length} of the 7 d " in short
    assert "recorded    " not in whole


def test_a_replay_names_the_times_in_which_nothing_is_recorded(journal: Path, run: Run) -> None:
    segment_paths(journal / "recording")[1].unlink()
    [(ends_s, begins_s)] = summarize_recording(journal / "recording").interruptions

    _, out, _ = run("--journal", str(journal))
    _, report, _ = run("--journal", str(journal), "-o", "json")
    _, before, _ = run("--journal", str(journal), "--until", format_second(ends_s))

    assert f"a gap       {format_second(ends_s)} to {format_second(begins_s)}, " in out
    assert json.loads(report)["gaps"] == [
        {"from": format_moment(ends_s), "to": format_moment(begins_s)}
    ]
    assert "a gap" not in before


@pytest.mark.parametrize("flag", ["--since", "--until"])
def test_what_is_no_time_is_refused(flag: str, journal: Path, run: Run) -> None:
    status, _, err = run("--journal", str(journal), flag, "noon")

    assert status == 2
    assert flag in err


def test_a_time_that_is_not_recorded_compares_nothing(journal: Path, run: Run) -> None:
    status, out, _ = run("--journal", str(journal), "--until", "1970-01-02")

    assert status == 1
    assert "nothing was compared" in out


def test_a_recording_into_which_nothing_was_written_compares_nothing(
    journal: Path, tmp_path: Path, run: Run
) -> None:
    copy = shutil.copytree(journal, tmp_path / "copy")
    for path in (copy / "recording").iterdir():
        path.write_bytes(b"")

    status, out, _ = run("--journal", str(copy))

    assert status == 1
    assert "nothing was compared" in out


def test_an_anonymized_recording_beside_its_journal_is_refused(
    journal: Path, tmp_path: Path, run: Run
) -> None:
    file = tmp_path / "renamed.rdrec"
    assert main(["recording", "anonymize", str(journal), str(file)]) == 0

    status, _, err = run("--recording", str(file), "--journal", str(journal))

    assert status == 1
    assert "anonymized" in err


def test_a_recording_without_a_journal_names_the_flag(
    journal: Path, tmp_path: Path, run: Run
) -> None:
    moved = tmp_path / "elsewhere" / "recording"
    shutil.copytree(journal / "recording", moved)
    status, _, err = run("--recording", str(moved))

    assert status == 2
    assert "--journal DIR" in err
