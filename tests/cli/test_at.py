"""`plan`, `nodes` and `why` with --at: which moment is shown, and what is said without one."""

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reactive_desched.controller.readiness import sync_pause
from reactive_desched.recording.coverage import summarize_recording
from reactive_desched.recording.items import Instant
from reactive_desched.recording.reader import read_items
from reactive_desched.recording.recording_file import write_file
from reactive_desched.recording.segments import find_segments, recording_paths
from reactive_desched.replay import replaying
from reactive_desched.state.resources import RESOURCES_TO_SYNC
from reactive_desched.text.times import format_second
from tests.cli.conftest import Run


def middle(journal: Path) -> str:
    """Return a moment that the recording has."""
    found = summarize_recording(journal / "recording")
    return format_second((found.first_s + found.last_s) / 2)


@pytest.mark.parametrize("words", [("plan",), ("nodes",)], ids=" ".join)
@pytest.mark.parametrize("where", ["", "recording"])
def test_a_moment_is_judged_by_the_policy_that_was_in_force(
    words: tuple[str, ...], where: str, journal: Path, run: Run
) -> None:
    at = middle(journal)
    status, out, _ = run(*words, "--at", at, "--recording", str(journal / where), "-o", "json")

    looked_at = json.loads(out)["lookedAt"]
    assert status == 0
    assert looked_at["now"] == at
    assert looked_at["recording"] == str(journal / "recording")
    assert looked_at["lastChange"] <= at
    assert looked_at["policy"]["file"] == "drawn policy"


def test_the_journal_that_is_named_has_the_recording_too(journal: Path, run: Run) -> None:
    status, out, _ = run("plan", "--at", middle(journal), "--journal", str(journal))

    assert status == 0
    assert f"the recording {journal}/recording" in out
    assert "last change" in out


def test_another_policy_is_tried_on_a_moment(journal: Path, tmp_path: Path, run: Run) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n", "utf-8")
    where = ("--at", middle(journal), "--recording", str(journal))

    _, out, _ = run("plan", *where, "--policy", str(policy), "-o", "json")

    assert json.loads(out)["lookedAt"]["policy"]["file"] == str(policy)


def test_why_answers_as_of_the_moment(journal: Path, run: Run) -> None:
    at = ("--at", middle(journal), "--recording", str(journal))
    _, out, _ = run("plan", *at, "--all", "-o", "json")
    report = json.loads(out)
    pod = (report["others"] or report["decisions"])[0]["pod"]

    status, out, _ = run("why", f"{pod['namespace']}/{pod['name']}", *at)

    assert status == 0
    assert out.startswith(f"as of {middle(journal)} in the recording {journal}/recording;")
    assert pod["name"] in out


def test_what_waited_is_listed(journal: Path, run: Run) -> None:
    at = middle(journal)
    status, out, _ = run("pending", "--at", at, "--recording", str(journal), "-o", "json")

    assert status == 0
    assert json.loads(out)["time"].removesuffix("Z").startswith(at.removesuffix("Z"))

    status, out, _ = run("pending", "--at", at, "--journal", str(journal))
    assert status == 0
    assert out.startswith(f"as of {at} in the recording {journal}/recording;")


def test_the_controller_is_shown_as_it_was(journal: Path, run: Run) -> None:
    at = middle(journal)
    status, out, _ = run("status", "--at", at, "--recording", str(journal), "-o", "json")

    answer = json.loads(out)
    assert status == 0
    assert datetime.fromisoformat(answer["time"]) == datetime.fromisoformat(at)
    assert answer["policy"]["file"] == "drawn policy"
    assert answer["pause"] == ""
    waited_for = {name for each in answer["pauses"] if "/" in (name := each["name"])}
    assert waited_for == set(map(sync_pause, RESOURCES_TO_SYNC))
    assert answer["pods"] > 0
    assert answer["recent"]

    status, out, _ = run("status", "--at", at, "--journal", str(journal))
    assert status == 0
    assert out.startswith(f"as of {at} in the recording {journal}/recording;")
    assert "as recorded" in out


@pytest.mark.parametrize("settles_s", [60.0, 900.0])
def test_after_a_long_recording_the_controller_is_run_from_near_the_moment(
    settles_s: float, journal: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("pending", "--at", middle(journal), "--journal", str(journal), "-o", "json")
    _, whole, err = run(*words)
    assert "the controller was run from" not in err
    monkeypatch.setattr(replaying, "NEAR_BYTES", 0)
    monkeypatch.setattr(replaying, "SETTLES_S", settles_s)
    status, near, err = run(*words)

    assert status == 0
    assert "the controller was run from" in err
    expected, found = json.loads(whole), json.loads(near)
    for name in ("time", "total", "byGate", "bySetting", "pause", "hold"):
        assert found[name] == expected[name]


@pytest.mark.parametrize(
    ("at", "words"),
    [
        ("1970-01-02", "begins at"),
        ("2100-01-01T00:00:00Z", "the controller stopped"),
    ],
)
def test_a_moment_that_is_not_recorded_is_refused_with_what_is(
    at: str, words: str, journal: Path, run: Run
) -> None:
    status, out, err = run("plan", "--at", at, "--recording", str(journal))

    assert (status, out) == (1, "")
    assert words in err
    assert_names_times_that_it_has(err, run, ("--recording", str(journal)))


def assert_names_times_that_it_has(err: str, run: Run, where: tuple[str, ...]) -> None:
    """Ask again about both ends of the time that an error names, and behind each of its gaps."""
    named = re.findall(r"(?:name a time from|to) (\S+?Z)", err)
    assert len(named) > 1
    for at in named:
        status, _, again = run("plan", "--at", at, *where)
        assert status == 0, (at, again)


def test_the_times_that_are_named_are_those_of_a_whole_picture_also_behind_a_gap(
    journal: Path, tmp_path: Path, run: Run
) -> None:
    second = sorted((journal / "recording").glob("*.rdrec"))[1]
    second.write_bytes(second.read_bytes()[:-40])
    whole = list(read_items(recording_paths(journal / "recording"), lambda _: None))
    at = Instant(whole[0].at.wall_s + 0.25, whole[0].at.monotonic_s + 0.25)
    slow, file = replace(whole[0], at=at), tmp_path / "slow.rdrec"
    write_file((slow, *whole[1:]), file)  # its first picture took most of a second

    for path in (journal / "recording", file):
        where = ("--recording", str(path))
        _, _, err = run("plan", "--at", "1970-01-02", *where)
        assert ", not from" in err, path
        assert_names_times_that_it_has(err, run, where)


@pytest.mark.parametrize("made", ["nothing", "a folder", "an empty journal"])
def test_where_there_is_no_recording_it_is_said_how_to_have_one(
    made: str, tmp_path: Path, run: Run
) -> None:
    where = tmp_path / "here"
    if made != "nothing":
        where.mkdir()
    if made == "an empty journal":
        (where / "recording").mkdir()
    status, _, err = run("plan", "--at", "2h", "--recording", str(where))

    assert status == 1
    assert str(where) in err
    assert "--recording PATH" in err


@pytest.mark.parametrize("at", ["noon", "", "2 fortnights", "2026-13-01", "-2h"])
def test_what_is_no_moment_is_refused_with_examples(at: str, journal: Path, run: Run) -> None:
    status, _, err = run("plan", f"--at={at}", "--recording", str(journal))

    assert status == 2
    assert "--at" in err
    assert "2026-05-01T12:00:00Z" in err


def test_an_age_counts_back_from_now(journal: Path, run: Run) -> None:
    status, _, err = run("plan", "--at", "2h ago", "--recording", str(journal))

    assert status == 1  # the story plays in the future of this machine
    assert "begins at" in err


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "--at", "2h", "-f", "x.json"),
        ("plan", "--at", "2h", "--now", "2026-05-01T12:00:00Z"),
        ("plan", "--recording", "x", "--policy", "p.yaml"),
        ("plan", "--at", "2h", "--settings", "s.yaml"),
        ("plan",),
        ("why", "a/b", "--recording", "x"),
        ("pending", "--recording", "x"),
        ("pending", "--journal", "x"),
        ("pending", "--at", "2h", "--server", "http://127.0.0.1:1"),
        ("why", "a/b", "--at", "2h", "--server", "http://127.0.0.1:1"),
    ],
    ids=" ".join,
)
def test_flags_that_contradict_a_moment_are_refused(
    words: tuple[str, ...], journal: Path, run: Run
) -> None:
    more: Any = () if "--recording" in words or "--at" not in words else ("--recording", journal)
    at = [middle(journal) if word == "2h" else word for word in words]
    status, _, err = run(*at, *map(str, more))

    assert status == 2
    assert "--" in err


def test_a_damaged_segment_is_named_and_the_moments_of_others_are_shown(
    journal: Path, run: Run
) -> None:
    segments = sorted((journal / "recording").glob("*.rdrec"))
    begins = [each.at.wall_s for each in find_segments(segments, lambda _: None)]
    raw = bytearray(segments[0].read_bytes())
    raw[-10] ^= 0xFF
    segments[0].write_bytes(bytes(raw))
    where = ("--recording", str(journal))

    status, out, err = run("plan", "--at", format_second(begins[1] - 1), *where)
    assert (status, out) == (1, "")
    assert "the recording is damaged here" in err
    assert segments[0].name in err

    status, _, err = run("plan", "--at", format_second(begins[-1] + 2), *where)
    assert status == 0
    assert "damaged" not in err


def test_where_nothing_can_be_read_the_file_and_the_place_are_named(
    journal: Path, tmp_path: Path, run: Run
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\nprofiles: [{name: a}]\n"
    )
    at, segments = middle(journal), sorted((journal / "recording").glob("*.rdrec"))
    for each in segments:
        raw = bytearray(each.read_bytes())
        raw[40] ^= 0xFF
        each.write_bytes(bytes(raw[:4000]))
    where = ("--recording", str(journal))

    for words in (
        ("recording", "status", str(journal)),
        ("nodes", "--at", at, *where),
        ("policy", "diff", str(policy), *where),
    ):
        status, out, err = run(*words)
        assert (status, out) == (1, "")
        assert f"{segments[0].name}, byte " in err
