"""The program as a process: what it does when it is interrupted, and what its help says."""

import os
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


@pytest.mark.parametrize("words", [(), ("audit",), ("policy",)], ids=["program", "audit", "policy"])
def test_the_help_of_a_process_is_what_argparse_makes_of_it(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process runs with stand-ins for modules that argparse imports; the tests do not."""
    monkeypatch.setenv("COLUMNS", "80")
    described = cli.parser()
    for word in words:
        described = described.subcommands[word]

    printed = subprocess.run(
        [sys.executable, "-m", "reactive_desched", *words, "--help"],
        capture_output=True,
        check=True,
        env={**os.environ, "NO_COLOR": "1"},
        timeout=60,
    )

    assert printed.stdout.decode() == described.format_help()
