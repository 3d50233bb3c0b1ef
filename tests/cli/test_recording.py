"""`recording`: status, exports with and without names, imports, and what is refused."""

import io
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from reactive_desched.cli import main
from reactive_desched.errors import RecordingError
from reactive_desched.recording.coverage import summarize_recording
from reactive_desched.recording.frames import segment_paths
from reactive_desched.recording.items import Instant, Item, PictureBegun, RecordingInterrupted
from reactive_desched.recording.reader import read_items, state_at
from reactive_desched.recording.recorded_state import RecordedState
from reactive_desched.recording.recording_file import write_file
from reactive_desched.recording.segments import find_segments
from reactive_desched.recording.well_known import KEPT_KEYS, KEPT_WORDS
from reactive_desched.text.times import format_timestamp, utc_time
from tests.cli.conftest import Run
from tests.recording.test_imports import KWOK
from tests.support.golden import Golden
from tests.support.recorded_cluster import fail_on_damage, holding

OLD_PODS = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: old
  pluginConfig:
  - name: PodLifeTime
    args: {maxPodLifeTimeSeconds: 1}
  plugins: {deschedule: {enabled: [PodLifeTime]}}
"""


@pytest.fixture
def run(run: Run) -> Run:
    return partial(run, "recording")


def items_of(path: Path) -> list[Item]:
    return list(read_items([path], fail_on_damage))


def timeless(items: Iterable[Item]) -> list[Item]:
    """Return items without their times, which an export has to the millisecond."""
    return [replace(item, at=Instant(0.0, 0.0)) for item in items]


def moment(seconds: float) -> str:
    return format_timestamp(utc_time(seconds))


def moments(folder: Path, count: int) -> Iterator[float]:
    """Yield moments from the second segment of a recording to its end."""
    begins = find_segments(segment_paths(folder), fail_on_damage)[1].at.wall_s + 7.0
    ends = summarize_recording(folder).last_s - 1.0
    yield from (begins + (ends - begins) * number / count for number in range(count))


def texts(value: Any) -> Iterator[str]:
    """Yield every text in JSON, those of keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts(each)


def test_status_says_which_time_is_recorded_its_gaps_and_what_is_damaged(
    journal: Path, run: Run
) -> None:
    folder = journal / "recording"
    status, out, _ = run("status", "--journal", str(journal), "-o", "json")
    found, summary = json.loads(out), summarize_recording(folder)
    assert status == 0
    assert found["recording"] == str(folder)
    assert found["first"] == moment(summary.first_s)
    assert found["segments"] == len(segment_paths(folder))
    assert found["gaps"] == found["damages"] == []

    second = segment_paths(folder)[1]
    content = bytearray(second.read_bytes())
    content[60] ^= 1
    second.write_bytes(content)
    status, out, _ = run("status", "--recording", str(folder), "-o", "json")
    found = json.loads(out)
    assert status == 1
    assert [each["file"] for each in found["damages"]] == [second.name]
    assert len(found["gaps"]) == 1
    status, out, _ = run("status", "--recording", str(folder))
    assert status == 1
    assert f"damaged     {second.name}, byte 12" in out
    assert "gap " in out


@pytest.mark.parametrize(
    "length", [0, 5, 12, 60, -9], ids=["emptied", "in its head", "its head", "in a frame", "last"]
)
def test_the_torn_end_of_a_process_that_was_killed_is_said_and_is_no_damage(
    journal: Path, run: Run, length: int
) -> None:
    *_, before, last = segment_paths(journal / "recording")
    content = last.read_bytes()
    last.write_bytes(content[:length])

    status, out, _ = run("status", "--recording", str(journal))

    assert status == 0
    assert f"torn end    {last.name}, byte" in out
    last.write_bytes(content)
    before.write_bytes(before.read_bytes()[:length])
    status, out, _ = run("status", "--recording", str(journal))
    assert status == 1
    assert f"damaged     {last.name}, byte 0" in out


def test_an_export_has_the_same_cluster_at_every_moment_of_its_period(
    journal: Path, run: Run, tmp_path: Path
) -> None:
    folder, file = journal / "recording", tmp_path / "out.rdrec"
    asked = list(moments(folder, 9))
    since, until = moment(asked[0]), moment(asked[-1])
    status, _, err = run(
        *("export", "--journal", str(journal), "--since", since, "--until", until, str(file))
    )

    assert status == 0
    assert str(file) in err
    assert file.stat().st_mode & 0o777 == 0o600
    exported = items_of(file)
    assert isinstance(exported[0], PictureBegun)
    assert {each.at.wall_s >= asked[0] - 0.001 for each in exported} == {True}
    assert exported[-1].at.wall_s <= asked[-1]
    for at_s in asked[1:]:
        before, _ = state_at(folder, at_s, fail_on_damage)
        after, _ = state_at(file, min(at_s, exported[-1].at.wall_s), fail_on_damage)
        assert holding(after) == holding(before)
        assert after.pauses == before.pauses
        assert after.samples == before.samples
        assert (after.leads, after.denied) == (before.leads, before.denied)
        assert without_time(after) == without_time(before)


def test_an_export_says_how_much_of_its_period_is_recorded(
    journal: Path, run: Run, tmp_path: Path
) -> None:
    found = summarize_recording(journal / "recording")
    asked = {"short": found.first_s - 86_400.0, "whole": found.first_s + 1.0}
    said = {
        name: run(
            "export", "--journal", str(journal), "--since", moment(since_s), str(tmp_path / name)
        )
        for name, since_s in asked.items()
    }

    assert [status for status, _, _ in said.values()] == [0, 0]
    assert " of the 1 d " in said["short"][2]
    assert "asked for" not in said["whole"][2]


def without_time(state: RecordedState) -> object:
    found = state.configuration
    return None if found is None else (found.policy, found.settings, found.flags)


@pytest.mark.parametrize("period", ["before", "gap"])
def test_nothing_is_exported_of_a_period_in_which_nothing_is_recorded(
    period: str, journal: Path, run: Run, tmp_path: Path
) -> None:
    folder, out = journal / "recording", tmp_path / "out.rdrec"
    segment_paths(folder)[1].unlink()
    found = summarize_recording(folder)
    ends_s, _ = found.interruptions[0]
    since_s = found.first_s - 3600.0 if period == "before" else ends_s + 1.0
    since, until = moment(since_s), moment(since_s + 0.5)
    status, _, _ = run(
        *("export", "--journal", str(journal), "--since", since, "--until", until, str(out))
    )

    assert (status, out.exists()) == (1, False)


def test_a_full_disk_behind_standard_output_is_said(journal: Path) -> None:
    command = sys.executable, "-m", "reactive_desched", "recording", "export", "--journal"
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [*command, str(journal), "-"], stdout=full, stderr=subprocess.PIPE, check=False
        )

    assert ended.returncode == 1
    assert "No space left on device" in ended.stderr.decode()
    assert "Traceback" not in ended.stderr.decode()


def test_all_of_a_recording_is_exported_without_a_period(
    journal: Path, run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "out.rdrec"
    assert run("export", "--recording", str(journal), str(file))[0] == 0

    paths = segment_paths(journal / "recording")
    assert timeless(items_of(file)) == timeless(read_items(paths, fail_on_damage))
    assert summarize_recording(file).segments == len(paths)


def test_an_export_for_a_pipe_is_the_same(
    journal: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stdout(io.StringIO):
        buffer = io.BytesIO()

    file = tmp_path / "out.rdrec"
    assert run("export", "--recording", str(journal), str(file))[0] == 0
    monkeypatch.setattr(sys, "stdout", Stdout())
    assert main(["recording", "export", "--recording", str(journal), "-"]) == 0

    assert Stdout.buffer.getvalue() == file.read_bytes()


def test_an_anonymized_export_has_none_of_the_names_and_the_same_objects(
    journal: Path, run: Run, tmp_path: Path
) -> None:
    file, again = tmp_path / "out.rdrec", tmp_path / "again.rdrec"
    assert run("export", "--anonymize", "--recording", str(journal), str(file))[0] == 0
    assert run("anonymize", str(journal), str(again))[0] == 0

    original = list(read_items(segment_paths(journal / "recording"), fail_on_damage))
    names = set()
    for item in original:
        obj = getattr(item, "obj", None)
        names |= {getattr(obj, field, "") for field in ("name", "namespace", "node")}
    kept = KEPT_WORDS | KEPT_KEYS  # words that Kubernetes gives a meaning
    names = {name for name in names if len(name) > 2} - kept
    assert names
    for path in (file, again):
        found = items_of(path)
        assert [type(each) for each in found] == [type(each) for each in original]
        times = zip(found, original, strict=True)
        assert {abs(one.at.wall_s - other.at.wall_s) < 0.002 for one, other in times} == {True}
        left = set(texts(json.loads(msgspec.json.encode(found, enc_hook=list))))
        assert names & left == set()
    assert file.read_bytes() != again.read_bytes()


def test_what_is_damaged_is_left_out_of_an_export_and_said(
    journal: Path, run: Run, tmp_path: Path
) -> None:
    second = segment_paths(journal / "recording")[1]
    content = second.read_bytes()
    second.write_bytes(content[: len(content) // 2])
    file = tmp_path / "out.rdrec"

    status, _, err = run("export", "--recording", str(journal), str(file))

    assert status == 0
    assert second.name in err
    assert any(isinstance(item, RecordingInterrupted) for item in items_of(file))
    assert not summarize_recording(file).damages


def test_a_recording_of_kwokctl_is_imported(run: Run, tmp_path: Path) -> None:
    source, file = tmp_path / "kwok.yaml", tmp_path / "out.rdrec"
    source.write_text(KWOK, encoding="utf-8")
    status, _, err = run("import", str(source), str(file), "--began", "2026-05-01T03:00:00Z")

    assert status == 0
    assert "policy" in err  # what the file lacks
    summary = summarize_recording(file)
    assert moment(summary.first_s) == "2026-05-01T03:00:00Z"
    state, _ = state_at(file, summary.first_s, fail_on_damage)
    assert set(state.objects["nodes"]) == {"node0"}


def test_a_trace_of_simkube_is_recognized(run: Run, tmp_path: Path) -> None:
    source, file = tmp_path / "trace", tmp_path / "out.rdrec"
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 2, "template": {"metadata": {}, "spec": {"containers": []}}},
    }
    event = {"ts": 1_700_000_000, "applied_objs": [deployment], "deleted_objs": []}
    trace = {"version": 2, "config": {}, "events": [event], "index": {}, "pod_lifecycles": {}}
    source.write_bytes(msgspec.msgpack.encode(trace))

    status, _, err = run("import", str(source), str(file))

    assert (status, "SimKube" in err) == (0, True)
    assert set(state_at(file, 1_700_000_000.0, fail_on_damage)[0].objects) == {"deployments"}


def test_what_cannot_be_done_is_refused_with_the_remedy(
    journal: Path, run: Run, tmp_path: Path, golden: Golden
) -> None:
    there = tmp_path / "there.rdrec"
    there.write_bytes(b"")
    kwok = tmp_path / "kwok.yaml"
    kwok.write_text(KWOK, encoding="utf-8")
    trace = tmp_path / "trace"
    trace.write_bytes(b"\x80")
    new, where = str(tmp_path / "new.rdrec"), ("--recording", str(journal))
    asked = (
        ("export", *where, str(there)),
        ("export", *where, str(tmp_path / "nowhere" / "new.rdrec")),
        ("export", *where, new, "--since", "soon"),
        ("export", *where, new, "--since", "2027-01-02", "--until", "2027-01-01"),
        ("export", *where, new, "--since", "2040-01-01"),
        ("export", "--recording", str(tmp_path), new),
        ("export", "--recording", str(there), new),
        ("status", "--recording", str(tmp_path / "nowhere")),
        ("anonymize", str(there), new),
        ("import", str(kwok), new),
        ("import", str(trace), new, "--began", "1h"),
        ("import", str(tmp_path / "nowhere"), new),
        ("import", str(there), new, "--began", "1h"),
        ("import", str(segment_paths(journal / "recording")[0]), new, "--began", "1h"),
    )
    said = []
    for words in asked:
        status, out, err = run(*words)
        assert (status > 0, out) == (True, ""), words
        said.append(f"{status} {err.rstrip()}".replace(str(tmp_path), "/folder"))
    assert not Path(new).exists()
    assert "\n".join(said) == golden()


@pytest.mark.parametrize("words", [("export", "--recording"), ("export",), ("anonymize",)])
@pytest.mark.parametrize("out", ["-", "new.rdrec"])
@pytest.mark.parametrize("damage", ["no recording", "cut", "flipped", "empty"])
def test_a_recording_that_cannot_be_read_is_no_export(
    damage: str, out: str, words: tuple[str, ...], journal: Path, run: Run, tmp_path: Path
) -> None:
    *later, first = reversed(segment_paths(journal / "recording"))
    for each in later:
        each.unlink()
    content = bytearray(first.read_bytes())
    content[50] ^= 1
    raw = {"no recording": b"kind: List\n", "cut": bytes(content[:30])}
    first.write_bytes(raw.get(damage, b"" if damage == "empty" else bytes(content)))
    new = tmp_path / "new.rdrec"
    to = "-" if out == "-" else str(new)

    status, written, err = run(*words, str(first), to)

    assert (status, written, new.exists()) == (1, "", False)
    assert "nothing that can be read" in err
    assert first.name in err


def test_what_is_damaged_before_the_first_picture_is_missing_up_to_that(
    journal: Path, run: Run, tmp_path: Path
) -> None:
    first, second, *_ = segment_paths(journal / "recording")
    first.write_bytes(first.read_bytes()[:60])
    file = tmp_path / "out.rdrec"
    status, _, err = run("export", "--recording", str(journal), str(file))

    gap, begun, *_ = items_of(file)
    assert status == 0
    assert first.name in err
    assert isinstance(gap, RecordingInterrupted)
    assert isinstance(begun, PictureBegun)
    assert gap.at == begun.at
    assert begun.at.wall_s == find_segments([second], fail_on_damage)[0].at.wall_s


def test_the_recording_is_named_without_a_flag_too(journal: Path, run: Run, tmp_path: Path) -> None:
    new = str(tmp_path / "new.rdrec")
    assert run("export", str(journal), new)[0] == 0
    for words in (("status", new), ("status", "-o", "text", new), ("status", "--recording", new)):
        status, out, _ = run(*words)
        assert status == 0
        assert out.split()[:2] == ["recording", new]
    with pytest.raises(SystemExit):
        run("status", new, "--recording", new)


def test_a_file_that_cannot_be_finished_is_not_there(tmp_path: Path) -> None:
    def items() -> Iterator[Item]:
        yield PictureBegun(Instant(1.0, 1.0))
        raise OSError(28, "No space left on device")

    with pytest.raises(RecordingError):
        write_file(items(), tmp_path / "out.rdrec")
    assert list(tmp_path.iterdir()) == []


def test_plan_says_the_same_of_an_anonymized_export_under_other_names(
    journal: Path, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "out.rdrec"
    assert run("export", "--anonymize", "--recording", str(journal), str(file))[0] == 0
    policy = tmp_path / "policy.yaml"
    policy.write_text(OLD_PODS, encoding="utf-8")
    at = moment(next(moments(journal / "recording", 3)))
    for words in ((), ("--policy", str(policy))):
        answers = []
        for path in (journal / "recording", file):
            where = ("--at", at, "--recording", str(path))
            assert main(["plan", *where, *words, "-o", "json"]) == 0
            summary = json.loads(capsys.readouterr().out)["summary"]
            answers.append([summary[each] for each in ("total", "byPlugin", "byGate")])
        assert answers[0] == answers[1]
    assert answers[0][0]["evict"] > 0
