"""The commands of the README, and then of the tutorial, typed in order into one terminal."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.test_tutorial import type_tutorial
from tests.support.doc_commands import DocCommand, typed
from tests.support.terminal import PATIENCE_S, Terminal

# The wait for the default port, which other modules hold for minutes, does not count.
pytestmark = [pytest.mark.real, pytest.mark.timeout(600, func_only=True)]

ROOT = Path(__file__).resolve().parents[2]
FOLLOWING = ("reactive-desched events tail --follow", "curl -N ")
"""Commands that print until Ctrl-C."""


def steps() -> Iterator[tuple[str, str]]:
    """Yield what the README has one type or write, in order: ("console" or "yaml", text)."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.compile(r"^```(console|yaml)\n(.*?)^```", re.MULTILINE | re.DOTALL)
    for language, block in blocks.findall(text):
        if language == "yaml":
            yield language, block
            continue
        for line in block.splitlines():
            assert line.startswith("$ "), line
            yield language, re.split(r"\s{2,}#", line[2:])[0].rstrip()


def test_the_commands_of_the_readme_and_then_the_tutorial_work_as_printed_in_one_terminal(
    terminal: Terminal, tmp_path: Path
) -> None:
    done = []
    for language, text in steps():
        if language == "yaml":
            (tmp_path / "policy.yaml").write_text(text, encoding="utf-8")
        elif text.startswith(FOLLOWING):
            status, _ = terminal.follow(text, b"eviction")
            assert status in (0, 130), text
        elif typed(DocCommand("README.md", text)):
            if "--type eviction.succeeded" in text:
                await_success(terminal, f"{text} > /dev/null")  # the taint must stand for a time
            status, printed = terminal.type(text)
            assert (text, status) == (text, 0), printed
            if text == "unset KUBECONFIG":
                make_own_cluster(terminal)
            if text.startswith("reactive-desched sim"):
                terminal.wait_for(b"ready: scenario")
            if text.startswith("reactive-desched run"):
                await_ready(terminal)
            if text.startswith("reactive-desched audit") and " --out " not in text:
                assert "eviction" in printed or "verified" in printed or "evicted" in printed
        done.append(text)
    assert sum(text.startswith("reactive-desched") for text in done) >= 12
    assert terminal.type("kill '%env reactive-desched sim'; wait")[0] == 0
    assert terminal.type("rm -r ~/.kube")[0] == 0
    type_tutorial(terminal, tmp_path)


def make_own_cluster(terminal: Terminal) -> None:
    """Wait for what ends, and make the cluster that the reader's own kubeconfig names."""
    assert terminal.type("wait; jobs")[1].count("Running") == 0
    assert terminal.type("mkdir -p ~/.kube")[0] == 0
    own = "env reactive-desched sim --nodes 6 --pods 40 --write-kubeconfig ~/.kube/config &"
    assert terminal.type(own)[0] == 0
    terminal.wait_for(b"try: kubectl get nodes")


def await_success(terminal: Terminal, command: str) -> None:
    """Type a command until it ends with status 0."""
    for _ in range(PATIENCE_S):
        if terminal.type(command)[0] == 0:
            return
        time.sleep(1)
    raise AssertionError(f"waited in vain for: {command}")


def await_ready(terminal: Terminal) -> None:
    """Wait as a person does who looks at the log before the next command."""
    for _ in range(PATIENCE_S):
        status, _ = terminal.type("curl -sf localhost:10258/readyz")
        if status == 0:
            return
        time.sleep(1)
    raise AssertionError(terminal.type("cat run.log")[1])
