"""One child process with a log file and a certain end, for tests that run real programs."""

import contextlib
import resource
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Self

from tests.support.fork_server import ForkedProgram

_WIDTH = 400  # some servers log whole objects in a line


class ChildProcessFailedError(Exception):
    """A program did not run as it should; the text ends with the tail of its log."""


Running = subprocess.Popen[bytes] | ForkedProgram


@dataclass
class ChildProcess:
    """A program that can be started again; each run appends to the same log.

    `launch` starts it with its output to a file, instead of `argv`.
    """

    name: str
    argv: Sequence[str]
    log: Path
    launch: Callable[[BinaryIO], ForkedProgram] | None = None
    _process: Running | None = field(init=False, default=None)

    def start(self) -> None:
        """Start the program; at most one run of it lives at a time."""
        if self.alive:
            raise ChildProcessFailedError(f"{self.name} runs already")
        with self.log.open("ab") as log:
            self._process = self.launch(log) if self.launch else self._execute(log)

    def _execute(self, log: BinaryIO) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.argv, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )

    @property
    def alive(self) -> bool:
        """Whether the program runs now."""
        return self._process is not None and self._process.poll() is None

    def ensure_alive(self) -> None:
        """Raise ChildProcessFailedError with the last words of a program that has ended."""
        if not self.alive:
            code = self._process.returncode if self._process else "never started"
            raise ChildProcessFailedError(f"{self.name} has ended ({code}):\n{self.tail(30)}")

    def stop(self, within_s: float = 60) -> int:
        """Ask the program to end and return its exit status; raise when it does not obey."""
        self.ensure_alive()
        process = self._running()
        process.send_signal(signal.SIGTERM)
        try:
            return process.wait(within_s)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise ChildProcessFailedError(
                f"{self.name} ignored SIGTERM for {within_s} s"
            ) from error

    def kill(self) -> None:
        """End the program at once, without farewell; ended or never started is fine."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            self._process.wait()

    @contextlib.contextmanager
    def running(self) -> Iterator[Self]:
        """Run the program for the block, at whose end it must run still."""
        self.start()
        try:
            yield self
            self.ensure_alive()
        finally:
            self.kill()

    def freeze(self) -> None:
        """Stop the program's time, as a starved machine or a paused VM does."""
        self._running().send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen program go on."""
        self._running().send_signal(signal.SIGCONT)

    @contextlib.contextmanager
    def no_file_grows_beyond(self, size: int) -> Iterator[None]:
        """Have the kernel refuse what would make a file of the program longer, for the block."""
        pid, kind = self._running().pid, resource.RLIMIT_FSIZE
        before = resource.prlimit(pid, kind, (size, resource.RLIM_INFINITY))
        try:
            yield
        finally:
            resource.prlimit(pid, kind, before)

    def tail(self, lines: int, about: str = "") -> str:
        """Return the last lines of the log that contain `about`, the long ones cut."""
        if not self.log.exists():
            return "(no log)"
        with self.log.open(errors="replace") as log:
            found = deque((line for line in log if about in line), maxlen=lines)
        return "".join(line[:_WIDTH].rstrip() + "\n" for line in found)

    def _running(self) -> Running:
        if self._process is None:
            raise ChildProcessFailedError(f"{self.name} was never started")
        return self._process
