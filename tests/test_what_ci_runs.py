"""What CI runs is every test, the long ones too."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
LEAVES_OUT = ' -m "not long"'


def recipe(target: str) -> str:
    """Return the last command that `make` would run for a target."""
    made = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", target],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return made.stdout.splitlines()[-1]


def test_make_test_leaves_out_the_long_tests_and_nothing_else_of_test_all() -> None:
    assert recipe("test").replace(LEAVES_OUT, "") == recipe("test-all")
    assert LEAVES_OUT in recipe("test")


def test_ci_runs_every_test_and_selects_none() -> None:
    commands = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()

    assert "make test-all" in commands
    assert " -m " not in recipe("test-all").partition("pytest")[2]
    assert " -k " not in recipe("test-all")
