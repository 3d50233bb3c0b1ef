"""The README's commands, typed in order into one terminal."""

import fcntl
import os
import pty
import re
import select
import socket
import struct
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.control_plane import RealTools

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]

ROOT = Path(__file__).resolve().parents[2]
PROMPT = re.compile(rb"<(\d+)>> ")
CTRL_C = b"\x03"
PATIENCE_S = 90
ELSEWHERE = {"make demo", "make test"}
"""Commands that tests/system/test_demo.py, and whoever runs this test, have tried already."""
FOLLOWING = ("reactive-desched events tail --follow", "curl -N ")
"""Commands that print until Ctrl-C."""


class Terminal:
    """An interactive bash behind a pseudo-terminal; each prompt holds the last exit status."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        pid, self._fd = pty.fork()
        if not pid:  # pragma: no cover -- the child
            os.chdir(folder)
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], environment)
        self._pid = pid
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("4H", 50, 500, 0, 0))
        self.seen = b""
        self._read_until(PROMPT)

    def type(self, command: str) -> tuple[int, str]:
        """Type a command; return its status and what was printed until the next prompt."""
        self._send(command.encode() + b"\n")
        return self._status()

    def follow(self, command: str, expected: bytes) -> tuple[int, str]:
        """Type a command that goes on, wait for something it prints, and press Ctrl-C."""
        self._send(command.encode() + b"\n")
        self._read_until(re.compile(re.escape(command.encode()) + rb"\r\n(?s:.*)" + expected))
        self._send(CTRL_C)
        return self._status()

    def wait_for(self, text: bytes) -> None:
        """Return when a program in the background has printed something."""
        self._read_until(re.compile(re.escape(text)))

    def close(self) -> None:
        """End every program in the background, then the shell."""
        give_up = time.monotonic() + PATIENCE_S
        self._send(CTRL_C)
        self.seen = b""
        while not PROMPT.search(self.seen):  # Ctrl-C takes some of what is typed next with it
            assert time.monotonic() < give_up, self.seen.decode()
            self._send(b"\n")
            if select.select([self._fd], [], [], 1)[0]:
                self.seen += os.read(self._fd, 65536)
        self._send(b"kill $(jobs -p); wait; exit\n")
        while os.waitpid(self._pid, os.WNOHANG) == (0, 0):
            assert time.monotonic() < give_up, self.seen.decode()
            if select.select([self._fd], [], [], 1)[0]:
                try:
                    self.seen += os.read(self._fd, 65536)
                except OSError:  # the shell has hung up, and is ending
                    os.waitpid(self._pid, 0)
                    break
        os.close(self._fd)

    def _send(self, data: bytes) -> None:
        os.write(self._fd, data)

    def _status(self) -> tuple[int, str]:
        printed, prompt = self._read_until(PROMPT)
        return int(prompt[1]), printed.decode(errors="replace")

    def _read_until(self, wanted: re.Pattern[bytes]) -> tuple[bytes, re.Match[bytes]]:
        give_up = time.monotonic() + PATIENCE_S
        while (found := wanted.search(self.seen)) is None:
            left = give_up - time.monotonic()
            assert left > 0, f"waited in vain for {wanted.pattern!r}:\n{self.seen.decode()}"
            if select.select([self._fd], [], [], min(left, 1))[0]:
                self.seen += os.read(self._fd, 65536)
        printed, self.seen = self.seen[: found.start()], self.seen[found.end() :]
        return printed, found


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


@pytest.fixture
def terminal(real_tools: RealTools, tmp_path: Path) -> Iterator[Terminal]:
    """A terminal in a folder that looks like a clone, with kubectl on the path."""
    with socket.socket() as port:
        port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        port.bind(("127.0.0.1", 10258))  # or another controller would answer
    for name in ("deploy", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "kubectl").symlink_to(real_tools.paths["kubectl"])
    environment = {
        "PATH": f"{tools}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "PS1": "<$?>> ",
        "TERM": "dumb",
    }
    opened = Terminal(tmp_path, environment)
    try:
        yield opened
    finally:
        opened.close()


def test_the_commands_of_the_readme_work_as_printed_in_one_terminal(
    terminal: Terminal, tmp_path: Path
) -> None:
    typed = []
    for language, text in steps():
        if language == "yaml":
            (tmp_path / "policy.yaml").write_text(text, encoding="utf-8")
        elif text.startswith(FOLLOWING):
            status, _ = terminal.follow(text, b"eviction")
            assert status in (0, 130), text
        elif text not in ELSEWHERE:
            status, printed = terminal.type(text)
            assert (text, status) == (text, 0), printed
            if text.startswith("reactive-desched sim"):
                terminal.wait_for(b"ready: scenario")
            if text.startswith("reactive-desched run"):
                await_ready(terminal)
            if text.startswith("reactive-desched audit"):
                assert "eviction" in printed or "verified" in printed or "evicted" in printed
        typed.append(text)
    assert {*ELSEWHERE} <= set(typed)
    assert sum(text.startswith("reactive-desched") for text in typed) >= 12


def await_ready(terminal: Terminal) -> None:
    """Wait as a person does who looks at the log before the next command."""
    for _ in range(PATIENCE_S):
        status, _ = terminal.type("curl -sf localhost:10258/readyz")
        if status == 0:
            return
        time.sleep(1)
    raise AssertionError(terminal.type("cat run.log")[1])
