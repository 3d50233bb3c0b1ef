"""Small clusters that people reported, each with what must come out of it.

They stand beside the repository, with the program that checks them; where they do not, one test is
skipped and says so.
"""

import json
import sys
from functools import cache
from pathlib import Path
from subprocess import CompletedProcess
from types import ModuleType

import pytest

from reactive_desched.cli import main
from tests.support.loaded_module import load_module

FOLDER = Path(__file__).parent.parent.parent / "shared" / "cases"
CASES = sorted(FOLDER.glob("*/case.json"))
COMMAND = [sys.executable, "-m", "reactive_desched"]


@cache
def checker() -> ModuleType:
    """Load what judges an answer, from beside the cases."""
    return load_module("check_cases", FOLDER / "check_cases.py")


@pytest.mark.skipif(bool(CASES), reason="the cases are there")
def test_the_cases_stand_beside_the_repository() -> None:
    pytest.skip(f"no cases at {FOLDER}: what people reported is not checked")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.parent.name)
def test_a_reported_cluster_is_answered_as_its_case_says(
    case: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, said = case.parent, json.loads(case.read_bytes())
    words = checker().command_line([], said, folder)
    monkeypatch.chdir(folder)

    status = main(words)

    done = CompletedProcess(words, status, *capsys.readouterr())
    assert list(checker().judge(said, folder, done)) == []


@pytest.mark.parametrize("case", CASES[:1], ids=lambda case: case.parent.name)
def test_the_program_answers_as_it_does_in_this_process(case: Path) -> None:
    _, faults, _ = checker().check(COMMAND, case.parent)

    assert not faults
