"""`policy diff` compares policies over a recording that a simulated controller wrote."""

import io
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from reactive_desched.cli import main
from reactive_desched.policy_diff.command import DiffOptions, Side, diff_policies, write_report
from reactive_desched.policy_diff.document import write_diff
from reactive_desched.recording.frames import RECORDING_FOLDER
from reactive_desched.recording.items import Instant, Item, RecordingInterrupted
from reactive_desched.recording.reader import read_items
from reactive_desched.recording.recording_file import write_file
from reactive_desched.recording.segments import recording_paths
from reactive_desched.text.ages import format_duration
from tests.policy_diff.fidelity import draw, live_story
from tests.safety.story import read_policy
from tests.support.golden import Golden

SEED = 2


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the policies a.yaml and b.yaml, and the journal of a life with the first."""
    folder = tmp_path_factory.mktemp("lived")
    texts = draw(SEED)
    for name, text in zip("ab", texts, strict=True):
        (folder / f"{name}.yaml").write_text(text)
    (folder / "journal").mkdir()
    live_story(SEED, read_policy(texts[0]), folder / "journal")
    return folder


def diff(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    assert main(["policy", "diff", *map(str, args)]) == 0
    return capsys.readouterr().out


def test_a_policy_is_compared_with_the_one_that_was_in_force(
    lived: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = lived / "b.yaml", "--recording", lived / "journal", "-o", "json"

    report = json.loads(diff(capsys, *given))

    assert report["kind"] == "PolicyDiff"
    assert report["old"]["files"] == ["the recorded policy", "the recorded settings"]
    assert report["recorded"]["named"] == report["recorded"]["evictions"] == 3
    assert report["new"]["evictions"] > report["old"]["evictions"]
    assert sum(report["new"]["byHour"].values()) == report["new"]["evictions"]
    assert {each["plugin"] for each in report["onlyNew"]} == {"RemovePodsViolatingNodeTaints"}
    assert all("blocked by" in each["other"] for each in report["onlyNew"])


def test_the_same_policy_twice_differs_in_nothing(
    lived: Path, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    policy = lived / "a.yaml"

    said = diff(capsys, policy, policy, "--recording", lived / "journal" / RECORDING_FOLDER)

    assert said.partition("\n")[0] == golden()


def test_settings_alone_are_compared_with_the_recorded_policy(
    lived: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The settings of the policy's own file would stand beside them: both files are whole."""
    settings = lived / "settings.yaml"
    settings.write_text("apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n")
    policy = lived / "policy.yaml"
    policy.write_text((lived / "a.yaml").read_text().partition("---")[0])

    given = policy, policy, "--recording", lived / "journal", "--new-settings", settings
    report = json.loads(diff(capsys, *given, "-o", "json"))

    assert report["new"]["files"] == [str(policy), str(settings)]


@pytest.mark.parametrize("form", ["text", "md", "html"])
def test_each_form_has_the_pods_and_what_is_assumed(
    form: str, lived: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = lived / "b.yaml", "--recording", lived / "journal", "-o"
    pods = [each["pod"] for each in json.loads(diff(capsys, *given, "json"))["onlyNew"]]

    said = diff(capsys, *given, form)

    assert [pod for pod in pods if pod not in said] == []
    assert "What is assumed" in said
    assert "blocked by YoungPods/PodTooYoung" in said


def test_markdown_fits_a_comment_under_a_pull_request(
    lived: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = diff(capsys, lived / "b.yaml", "--recording", lived / "journal", "-o", "md")

    assert len(said) < 65_536


def test_markdown_has_fewer_rows_where_names_and_messages_are_long(
    lived: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A tenant chooses names: 200 pods of the longest, with what has a meaning in Markdown."""
    whole = diff_policies(
        DiffOptions(old=Side(), new=Side(str(lived / "b.yaml")), recording=recording_of(lived))
    )
    pods = tuple(
        replace(whole.only_new[0], pod=f"{number}" + "p" * 250, finding="|<script>" * 200)
        for number in range(200)
    )
    into = io.StringIO()

    write_report(replace(whole, only_new=pods, only_old=pods), "md", 50, into)
    said = into.getvalue()

    assert len(said) < 65_536
    assert "<script>" not in said
    assert "more; --limit 0 shows all" in said


def test_a_recording_that_is_shorter_than_what_was_asked_for_has_a_warning(
    lived: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = lived / "b.yaml", "--recording", lived / "journal", "-o", "json", "--since"

    week, minutes = (json.loads(diff(capsys, *given, age)) for age in ("7d", "10m"))

    length = format_duration(week["recorded"]["seconds"])
    assert f"{length} of the 7 d asked for" in "\n".join(week["warnings"])
    assert week["recorded"]["askedSince"] < week["recorded"]["since"]
    assert "asked for" not in "\n".join(minutes["warnings"])


def test_each_of_the_first_gaps_has_a_warning_also_where_a_process_was_killed(
    lived: Path, tmp_path: Path
) -> None:
    """One that was killed writes no end: the next one's picture continues nothing."""
    read = read_items(recording_paths(recording_of(lived)), print)
    items = [item for item in read if not isinstance(item, RecordingInterrupted)]
    span_s = items[-1].at.wall_s - items[0].at.wall_s + 120.0
    file = tmp_path / "killed.rdrec"
    write_file((later(item, span_s * life) for life in range(8) for item in items), file)

    options = DiffOptions(old=Side(), new=Side(str(lived / "b.yaml")), recording=file)
    found = diff_policies(options)

    *said, more = found.warnings[-6:]
    assert len(found.recorded.gaps) == 7
    assert [
        f"{gap[0]} to {gap[1]}" in each
        for gap, each in zip(found.recorded.gaps, said, strict=False)
    ] == [True] * 5
    assert "and 2 more gaps, 4 min" in more


def test_a_recording_that_ends_before_it_began_as_its_clock_was_set_back_is_compared(
    lived: Path, tmp_path: Path
) -> None:
    items = list(read_items(recording_paths(recording_of(lived)), print))
    half = len(items) // 2
    file = tmp_path / "back.rdrec"
    write_file([*items[:half], *(set_back(item, 7200.0) for item in items[half:])], file)

    found = diff_policies(DiffOptions(old=Side(), new=Side(str(lived / "b.yaml")), recording=file))

    assert found.recorded.until < found.recorded.since
    assert found.recorded.evictions
    assert "set back" in write_diff(found, "1", 0).period


def set_back(item: Item, seconds: float) -> Item:
    return replace(item, at=replace(item.at, wall_s=item.at.wall_s - seconds))


def later(item: Item, seconds: float) -> Item:
    at = Instant(item.at.wall_s + seconds, item.at.monotonic_s + seconds)
    return replace(item, at=at)


def recording_of(lived: Path) -> Path:
    return lived / "journal" / RECORDING_FOLDER


def test_a_wrong_policy_ends_with_its_line_and_two(
    lived: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = lived / "wrong.yaml"
    wrong.write_text((lived / "a.yaml").read_text().replace("RemovePods", "RemovePots"))

    assert main(["policy", "diff", str(wrong), "--recording", str(lived / "journal")]) == 2
    assert f"{wrong}:" in capsys.readouterr().err


def test_a_wrong_policy_leaves_the_earlier_report_as_it_is(lived: Path, tmp_path: Path) -> None:
    wrong, out = lived / "wrong.yaml", tmp_path / "diff.md"
    wrong.write_text((lived / "a.yaml").read_text().replace("RemovePods", "RemovePots"))
    out.write_text("earlier")
    given = [str(wrong), "--recording", str(lived / "journal"), "-o", "md", "--out", str(out)]

    assert main(["policy", "diff", *given]) == 2
    assert out.read_text() == "earlier"


def test_a_report_is_written_to_the_file_that_is_named(
    lived: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    given = lived / "b.yaml", "--recording", lived / "journal", "-o", "md"
    said = diff(capsys, *given)

    assert diff(capsys, *given, "--out", tmp_path / "diff.md") == ""
    assert (tmp_path / "diff.md").read_text() == said


def test_a_file_in_no_folder_is_refused_before_the_policies_are_run(
    lived: Path, tmp_path: Path
) -> None:
    out = tmp_path / "missing" / "diff.md"

    with pytest.raises(SystemExit):
        main(["policy", "diff", str(lived / "b.yaml"), "--out", str(out)])


def test_a_time_that_is_not_recorded_is_refused(
    lived: Path, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    given = [str(lived / "b.yaml"), "--recording", str(lived / "journal"), "--since", "2030-01-01"]

    assert main(["policy", "diff", *given]) == 1
    assert golden(path=lived / "journal" / RECORDING_FOLDER) in capsys.readouterr().err
