import contextlib
import itertools
import os
import pty
import sys
from pathlib import Path

import pytest

from reactive_desched.cli import main
from reactive_desched.errors import ConfigError
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import load_sources
from reactive_desched.policy.settings.pace import PACES, Pace
from reactive_desched.policy.starter import AIMS, Aim, StarterOptions, starter_policy

COMBINATIONS = [
    aims
    for count in range(1, len(Aim))
    for aims in itertools.combinations(Aim, count)
    if not {Aim.SPREAD, Aim.PACK} <= set(aims)
]


@pytest.mark.parametrize("aims", COMBINATIONS, ids="+".join)
def test_what_is_written_runs_without_a_warning(aims: tuple[Aim, ...]) -> None:
    for measured in {False, Aim.SPREAD in aims}:
        text = starter_policy(StarterOptions(aims, measured, "fast", 12))
        read = load_sources([SourceText(text, "policy.yaml")], plugin_registry())

        assert read.warnings == ()
        (profile,) = read.policy.profiles
        assert profile.evictor.node_fit
        assert len([*profile.deschedule, *profile.balance]) == text.count("- name: R") + sum(
            text.count(f"- name: {name}") for name in ("LowNode", "HighNode", "Drain")
        )
        cluster = read.settings.budgets.cluster
        assert cluster is not None
        assert cluster.evictions == 12
        assert read.settings.pace == "fast"
        assert all(aim in text.splitlines()[0] for aim in aims)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (StarterOptions([]), "at least one aim: spread"),
        (StarterOptions([Aim.SPREAD, Aim.PACK]), "work against each other"),
        (StarterOptions([Aim.PACK], measured=True), "only spread"),
    ],
)
def test_aims_that_make_no_policy_are_refused(options: StarterOptions, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        starter_policy(options)


def test_flags_write_a_file_and_never_over_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "policy.yaml"
    words = ["init", "--aim", "pack", "--out", str(file)]
    assert main(words) == 0
    assert f"plan --policy {file}" in capsys.readouterr().err
    written = file.read_text()
    assert "HighNodeUtilization" in written

    assert main([*words, "--aim", "drain-tainted"]) == 2
    assert "--force" in capsys.readouterr().err
    assert file.read_text() == written
    assert main([*words, "--aim", "drain-tainted", "--force"]) == 0
    assert "NodeTaints" in file.read_text()
    assert main(["init", "--aim", "pack", "--out", "-"]) == 0
    assert capsys.readouterr().out == written
    assert main(["init", "--aim", "pack", "--out", str(tmp_path / "no" / "file")]) == 2
    assert "No such file" in capsys.readouterr().err
    assert main(["init"]) == 2
    assert "--aim spread" in capsys.readouterr().err


@pytest.mark.parametrize("aim", Aim)
def test_each_aim_is_a_word_of_the_command(aim: Aim, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--aim", aim, "--out", "-"]) == 0
    assert capsys.readouterr().out == starter_policy(StarterOptions([aim]))


@pytest.mark.parametrize("pace", PACES)
def test_each_pace_is_a_word_of_the_command(pace: Pace, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--aim", "pack", "--pace", pace, "--out", "-"]) == 0
    text = starter_policy(StarterOptions([Aim.PACK], pace=pace))
    assert capsys.readouterr().out == text


def test_on_a_terminal_it_asks_until_the_answers_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, b"1,2\n9\n1, 3\nperhaps\ny\nquick\nCareful\n")
    file = tmp_path / "policy.yaml"
    with os.fdopen(theirs, "r") as keyboard, os.fdopen(os.dup(theirs), "w") as screen:
        monkeypatch.setattr(sys, "stdin", keyboard)
        monkeypatch.setattr(sys, "stderr", screen)
        assert main(["init", "--out", str(file)]) == 0

    shown = _read_to_the_end(ours)
    text = file.read_text()
    assert text == starter_policy(StarterOptions([Aim.SPREAD, Aim.DRAIN_TAINTED], True, "careful"))
    complaints = ("work against", "9 is not a number from 1 to 5", "write y or n")
    for complaint in (*complaints, "write careful, normal, fast"):
        assert complaint in shown
    assert all(aim in shown for aim in AIMS)


def _read_to_the_end(terminal: int) -> str:
    """Return what was shown on a terminal whose other end is closed."""
    shown = b""
    with contextlib.suppress(OSError):  # the other end is closed, and everything was read
        while chunk := os.read(terminal, 1 << 12):
            shown += chunk
    os.close(terminal)
    return shown.decode()
