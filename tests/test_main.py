"""The program as a process: what it does when it is interrupted, and its status."""

import subprocess
import sys

import pytest

from reactive_desched import cli
from reactive_desched.__main__ import main

LOADING = """\
import os, runpy, signal, sys

class Interrupting:
    def find_spec(self, name, *_):
        if name == "reactive_desched.cli":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
sys.argv = ["reactive-desched", "version"]
runpy.run_module("reactive_desched", run_name="__main__")
"""


def test_interrupted_while_it_loads_it_ends_quietly() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LOADING], capture_output=True, check=False, timeout=60
    )
    assert (ended.returncode, ended.stderr, ended.stdout) == (130, b"", b"")


def test_interrupted_before_a_command_runs_it_ends_quietly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted() -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "main", interrupted)
    assert main() == 130


def test_otherwise_the_status_is_the_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "main", lambda: 7)
    assert main() == 7
