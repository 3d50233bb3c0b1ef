"""`policy diff` has another version of the program decide for one side, or says why it cannot."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from reactive_desched._version import __version__
from reactive_desched.cli import main
from tests.policy_diff.test_configurations import PLAIN, QUICK, SLOW, record, write
from tests.support.golden import Golden

pytestmark = pytest.mark.waits

OTHER: Final = """\
#!{python}
import sys
sys.path.insert(0, {root!r})
import reactive_desched._version as version
version.__version__ = "9.9.9"
{change}
from reactive_desched.cli import main
sys.exit(main(sys.argv[1:]))
"""
ROOT: Final = str(Path(__file__).parents[2])
NO_POD_IS_YOUNG: Final = """\
from reactive_desched.gate import guards
guards.young_pod.__code__ = (lambda finding, inputs: None).__code__
"""
TAINTS_FAIL: Final = """\
from reactive_desched.plugins.node_taints import NodeTaintsPlugin
def fail(self, subject, view):
    raise LookupError("no price")
NodeTaintsPlugin.judge = fail
"""


def program(folder: Path, change: str = "") -> Path:
    """Write another version of this program, which differs by a change."""
    path = folder / "other-version"
    path.write_text(OTHER.format(python=sys.executable, root=ROOT, change=change))
    path.chmod(0o700)
    return path


def decisions(capsys: pytest.CaptureFixture[str], recording: Path, *args: object) -> str:
    """Return what another version would answer that decides as this one."""
    given = map(str, args)
    assert main(["policy", "diff", *given, "--recording", str(recording), "--decisions"]) == 0
    return capsys.readouterr().out.replace(f'"version":"{__version__}"', '"version":"9.9.9"')


def answering(folder: Path, answer: str) -> Path:
    """Write a program that answers so, and keeps the words of its call."""
    (folder / "answer").write_text(answer)
    words = f"*) echo $* > {folder}/called; cat {folder}/answer ;;"
    return script(folder, f"version) echo reactive-desched 9.9.9 ;;\n{words}")


def script(folder: Path, text: str) -> Path:
    """Write a program that answers in its own way: the words of its call are in $*."""
    path = folder / "script"
    path.write_text(f'#!/bin/sh\ncase "$*" in\n{text}\nesac\n')
    path.chmod(0o700)
    return path


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return record(tmp_path, PLAIN, SLOW)


def compare(capsys: pytest.CaptureFixture[str], recording: Path, *args: object) -> dict[str, Any]:
    given = map(str, args)
    assert main(["policy", "diff", *given, "--recording", str(recording), "-o", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def moved(report: dict[str, Any], side: str) -> list[str]:
    return [each["pod"] for each in report[side]]


def refused(capsys: pytest.CaptureFixture[str], recording: Path, *args: object) -> str:
    assert main(["policy", "diff", *map(str, args), "--recording", str(recording)]) == 2
    return capsys.readouterr().err


def test_an_upgrade_is_tried_with_what_is_in_force(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the other version no pod is too young."""
    other = program(tmp_path, NO_POD_IS_YOUNG)

    report = compare(capsys, recording, "--new-program", other)

    assert moved(report, "onlyNew") == ["on-n0", "on-n2"]
    assert report["new"]["files"] == ["the recorded policy", "the recorded settings"]
    assert [report[side]["version"] for side in ("old", "new")] == [__version__, "9.9.9"]


def test_a_plugin_that_fails_in_either_version_is_the_status(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = program(tmp_path, TAINTS_FAIL)
    asked = ["policy", "diff", "--recording", str(recording)]
    failing = subprocess.run([other, *asked, "--decisions"], capture_output=True, check=False)
    assert failing.returncode == 1
    assert b"no price" in failing.stdout

    assert main([*asked, "--new-program", str(other), "-o", "json"]) == 1

    report = json.loads(capsys.readouterr().out)
    assert not report["old"]["pluginFaults"]
    assert "no price" in report["new"]["pluginFaults"][0]


def test_each_side_has_its_files_its_settings_and_its_program(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quick, slow = write(tmp_path, "quick.yaml", QUICK), write(tmp_path, "slow.yaml", SLOW)
    policy = write(tmp_path, "policy.yaml", PLAIN)
    other = answering(tmp_path, decisions(capsys, recording, quick))
    given = policy, policy, "--old-settings", quick, "--new-settings", slow, "--lenient-policy"

    report = compare(capsys, recording, *given, "--old-program", other)

    assert (moved(report, "onlyOld"), moved(report, "onlyNew")) == (["on-n0", "on-n2"], [])
    assert (tmp_path / "called").read_text().split() == [
        *("policy", "diff", str(policy), "--recording", str(recording), "--settings", str(quick)),
        *("--until", "2027-01-15T08:10:00.001000Z", "--lenient-policy", "--decisions"),
    ]


def test_both_versions_decide_over_the_same_time(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = answering(tmp_path, decisions(capsys, recording))

    compare(capsys, recording, "--new-program", other, "--since", "9m", "--until", "1m")

    called = (tmp_path / "called").read_text()
    assert "--since 2027-01-15T08:01:00Z --until 2027-01-15T08:09:00Z" in called


def test_the_page_names_both_versions(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    other = answering(tmp_path, decisions(capsys, recording))
    given = "--recording", str(recording), "--new-program", str(other), "-o", "md"

    assert main(["policy", "diff", *given]) == 0
    said = capsys.readouterr().out

    assert golden(version=__version__) in said


OLD_VERSION: Final = "version) echo reactive-desched 0.0.1 ;;\n"


FORM: Final = '{"api_version": "reactive-desched/v1alpha1", "kind": "PolicyDecisions"}'


@pytest.mark.parametrize(
    "answers",
    [
        "*) echo 'error: unrecognized arguments: --decisions' >&2; exit 2 ;;",
        "*) echo a page ;;",
        '*) echo \'{"api_version": "v9", "kind": "PolicyDecisions"}\' ;;',
        f"*) echo '{FORM}' ;;",
        "*) echo 'the recording cannot be read' >&2; exit 1 ;;",
        "*) exit 3 ;;",
    ],
    ids=["flag", "JSON", "form", "fields", "error", "silent"],
)
def test_a_version_that_cannot_say_it_is_refused_with_the_reason(
    answers: str,
    recording: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    golden: Golden,
) -> None:
    other = script(tmp_path, OLD_VERSION + answers)

    said = refused(capsys, recording, "--old-program", other)

    assert said.strip().removeprefix("reactive-desched: ") == golden(path=other)


@pytest.mark.parametrize(
    "program", ["/bin/true", "/no/such/program", "/etc/passwd"], ids=["other", "none", "a-file"]
)
def test_what_is_no_version_of_this_program_is_refused(
    program: str,
    recording: Path,
    capsys: pytest.CaptureFixture[str],
    golden: Golden,
) -> None:
    said = refused(capsys, recording, "--new-program", program)

    assert said.strip().removeprefix("reactive-desched: ") == golden()


def test_without_a_file_or_a_version_there_is_nothing_to_compare(
    recording: Path, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["policy", "diff", "--recording", str(recording)])

    assert ended.value.code == 2
    assert golden() in capsys.readouterr().err
