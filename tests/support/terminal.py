"""A terminal in which tests type what pages of the documentation print."""

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
from pathlib import Path

PROMPT = re.compile(rb"<(\d+):(\d+)>> ")
PS1 = r"<$?:\#>> "
CTRL_C = b"\x03"
PATIENCE_S = 150


class Terminal:
    """An interactive bash behind a pseudo-terminal.

    Each prompt holds the last exit status, and which command is next: Ctrl-C that comes after a
    program has ended brings one more prompt, which is not the end of the command typed then.
    """

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        pid, self._fd = pty.fork()
        if not pid:  # pragma: no cover -- the child
            os.chdir(folder)
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], environment)
        self._pid = pid
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("4H", 50, 500, 0, 0))
        self.seen = b""
        self._next = int(self._read_until(PROMPT)[1][2])

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

    def wait_for(self, text: bytes) -> str:
        """Return when a program in the background has printed something: all up to that."""
        printed, found = self._read_until(re.compile(re.escape(text)))
        return (printed + found[0]).decode(errors="replace")

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
        while int(prompt[2]) <= self._next:
            printed, prompt = self._read_until(PROMPT)
        self._next = int(prompt[2])
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
