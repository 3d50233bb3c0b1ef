"""`policy convert` writes where it is told to, all of it or nothing."""

import io
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from reactive_desched.cli import main
from tests.support.golden import Golden

TAINTS = "RemovePodsViolatingNodeTaints"
OLD = f"""\
apiVersion: descheduler/v1alpha1
kind: DeschedulerPolicy
strategies: # ours
  {TAINTS}: {{enabled: true, weight: 1}}
"""
NEW = f"""\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles: # ours
  - name: strategy-{TAINTS}-profile
    pluginConfig:
      - name: DefaultEvictor
      - name: {TAINTS}
    plugins:
      filter:
        enabled:
          - DefaultEvictor
      preevictionfilter:
        enabled:
          - DefaultEvictor
      deschedule:
        enabled:
          - {TAINTS}
"""
WRONG = OLD.replace("weight", "weigth") + "ignorePvcPods: 5\n"


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file named p.yaml in the current folder."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "p.yaml"
    file.write_text(OLD)
    return file


def convert(*words: str) -> int:
    return main(["policy", "convert", *words])


def test_the_new_text_goes_to_standard_output_and_messages_to_stderr(
    policy: Path, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    assert convert("p.yaml") == 0
    assert capsys.readouterr() == (NEW, golden.shared("no effect", file="p.yaml") + "\n")
    assert policy.read_text() == OLD


def test_a_hyphen_reads_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(OLD.encode())))

    assert convert("-") == 0

    assert capsys.readouterr() == (NEW, golden.shared("no effect", file="stdin") + "\n")


def test_the_new_text_goes_to_a_file(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = policy.with_name("there.yaml")
    there.write_text("before")

    assert convert("p.yaml", "--out", "new.yaml") == 0
    assert convert("p.yaml", "--out", "there.yaml") == 0

    assert policy.with_name("new.yaml").read_text() == there.read_text() == NEW
    assert capsys.readouterr().out == ""
    assert sorted(each.name for each in policy.parent.iterdir()) == [
        "new.yaml",
        "p.yaml",
        "there.yaml",
    ]


def test_a_file_is_replaced_in_place_with_its_permissions(policy: Path) -> None:
    policy.chmod(0o640)

    assert convert("p.yaml", "--in-place") == 0

    assert policy.read_text() == NEW
    assert stat.S_IMODE(policy.stat().st_mode) == 0o640
    assert list(policy.parent.iterdir()) == [policy]


def test_a_link_stays_a_link_to_the_file_that_is_replaced(policy: Path) -> None:
    link = policy.with_name("link.yaml")
    link.symlink_to("p.yaml")

    assert convert("link.yaml", "-i") == 0

    assert link.is_symlink()
    assert policy.read_text() == NEW


@pytest.mark.parametrize("where", [["-i"], ["--out", "new.yaml"], []], ids=["place", "file", "out"])
def test_wrong_input_is_reported_as_a_whole_and_nothing_is_written(
    where: list[str], policy: Path, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    policy.write_text(WRONG)

    assert convert("p.yaml", *where) == 2

    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.splitlines() == [
        f"p.yaml:4:50: error: strategies.{TAINTS}.weigth: unknown field [RD201]",
        f"  4 |   {TAINTS}: {{enabled: true, weigth: 1}}",
        f"    | {'':49}^^^^^^",
        "    = help: did you mean weight?",
        golden(),
        "  5 | ignorePvcPods: 5",
        "    |                ^",
    ]
    assert policy.read_text() == WRONG
    assert list(policy.parent.iterdir()) == [policy]


def test_a_file_that_is_not_there_is_wrong_input(
    policy: Path, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    assert convert("gone.yaml") == 2
    assert capsys.readouterr().err == golden() + "\n"


def test_where_nothing_can_be_written_the_command_fails(
    policy: Path, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    assert convert("p.yaml", "--out", "gone/new.yaml") == 1
    assert capsys.readouterr().err.endswith(golden(folder=Path.cwd() / "gone") + "\n")


def test_a_file_stays_whole_when_the_new_one_cannot_take_its_place(
    policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", refuse)

    assert convert("p.yaml", "-i") == 1

    assert policy.read_text() == OLD
    assert list(policy.parent.iterdir()) == [policy]


def test_what_is_no_plain_file_is_written_to_and_not_replaced(
    policy: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert convert("p.yaml", "--out", "/dev/null") == 0
    assert Path("/dev/null").is_char_device()


def test_when_there_is_nothing_to_do_it_says_so_and_writes_the_text(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy.write_bytes(NEW.replace("\n", "\r\n").encode())

    assert convert("p.yaml") == 0
    assert capsys.readouterr().err == "p.yaml: nothing to convert\n"
    assert convert("p.yaml", "--out", "new.yaml") == 0
    assert policy.with_name("new.yaml").read_bytes() == policy.read_bytes()


def test_in_place_a_file_with_nothing_to_do_is_not_touched(policy: Path) -> None:
    policy.write_text(NEW)
    before = policy.stat()

    assert convert("p.yaml", "-i") == 0

    after = policy.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_the_ways_to_convert_are_asked_for_by_flags(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = "  RemoveDuplicates: {enabled: true}\n"
    policy.write_text(f"{OLD}{other}evictLocalStoragePods: true\ngracePeriodSeconds: -1\n")

    assert convert("p.yaml", "--merge", "--keep-deprecated", "--lenient-policy") == 0

    written = capsys.readouterr()
    assert "- name: default" in written.out
    assert "evictLocalStoragePods: true" in written.out
    assert "p.yaml:7:1: warning: gracePeriodSeconds: does not belong here" in written.err


def test_a_text_that_still_needs_a_lenient_reading_is_reported(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy.write_text(NEW + "gracePeriodSeconds: -1\nmetricsCollector: {enabled: false}\n")

    assert convert("p.yaml", "--lenient-policy") == 0

    assert capsys.readouterr().err.endswith("p.yaml: the new text still needs --lenient-policy\n")


@pytest.mark.parametrize(
    "words",
    [["-", "-i"], ["p.yaml", "-i", "--out", "x"], []],
    ids=["no file to replace", "two places", "no file"],
)
def test_what_cannot_be_meant_ends_with_usage(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        convert(*words)

    assert ended.value.code == 2
    assert "usage: reactive-desched policy convert" in capsys.readouterr().err


def test_help_says_what_merging_changes(capsys: pytest.CaptureFixture[str], golden: Golden) -> None:
    with pytest.raises(SystemExit):
        convert("--help")

    said = " ".join(capsys.readouterr().out.split())
    assert golden() in said


def test_what_is_wrong_is_a_comment_and_the_status_says_so(
    policy: Path, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    policy.write_text(f"{OLD}  RemoveDuplicates:\n    enabled: true\n    weihgt: 1\n")

    assert convert("p.yaml") == 3

    said = capsys.readouterr()
    assert said.out.rstrip() == golden("new text")
    assert said.err.rstrip() == golden("errors")


def test_a_part_is_written_in_the_place_of_the_file(policy: Path) -> None:
    policy.write_text(f"{OLD}  RemoveDuplicates:\n    enabled: perhaps\n")

    assert convert("--in-place", "p.yaml") == 3

    assert "# RemoveDuplicates:" in [line.strip() for line in policy.read_text().splitlines()]
