"""The programs in `examples/`, run as people run them: each a process, ended with its block.

One that reads its input and ends can run in the process of the test instead, which is faster.
"""

import io
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Self
from unittest.mock import patch

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


class ExamplePrograms:
    """Starts examples in a folder, as often as needed; none outlives the block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[ExampleProgram] = []

    def __enter__(self) -> Self:
        """Begin with none."""
        return self

    def __exit__(self, *_: object) -> None:
        """End them all."""
        for program in self._running:
            program.kill()
            program.close()

    def start(self, name: str, *arguments: str) -> "ExampleProgram":
        """Start one by its file name."""
        shell = [sys.executable] if name.endswith(".py") else ["sh"]
        output = self._folder / f"{len(self._running)}-{name}.out"
        program = ExampleProgram([*shell, str(EXAMPLES / name), *arguments], output)
        self._running.append(program)
        return program


class ExampleProgram:
    """One that runs; what it prints goes to a file, so that no pipe fills up."""

    def __init__(self, argv: list[str], output: Path) -> None:
        self._output = output
        self._errors = output.with_suffix(".err")
        self._lives, held = os.pipe()  # it and its children hold the other end
        with self._output.open("wb") as out, self._errors.open("wb") as err:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=output.parent,
                start_new_session=True,  # a shell's children end with it
                pass_fds=(held,),
            )
        os.close(held)

    @property
    def printed(self) -> list[str]:
        """The whole lines it has printed so far."""
        return self._output.read_text().split("\n")[:-1]

    @property
    def stderr_text(self) -> str:
        """What it has written to standard error."""
        return self._errors.read_text()

    def wait_for(self, so: Callable[[list[str]], bool], within_s: float = 60) -> list[str]:
        """Return what it has printed as soon as that is so; blocks."""
        deadline = time.monotonic() + within_s
        while not so(printed := self.printed):
            if self._process.poll() is not None or time.monotonic() > deadline:
                status = self._process.returncode
                raise TimeoutError(f"status {status}; {printed[-5:]}; {self.stderr_text}")
            time.sleep(0.02)
        return printed

    def wait(self, within_s: float = 60) -> int:
        """Wait for its end and return its exit status."""
        return self._process.wait(within_s)

    def kill(self) -> None:
        """End it and its children as a lost machine would; ended already is fine.

        It returns once all of them are gone: a child that is killed may print a line before.
        """
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            os.read(self._lives, 1)

    def close(self) -> None:
        """Forget it."""
        os.close(self._lives)


class ExampleResult(NamedTuple):
    """How an example ended, and what it printed."""

    status: int
    output: str
    errors: str


def run_in_process(name: str, lines: bytes, *arguments: str) -> ExampleResult:
    """Run the `main` of an example in this process, with these lines as its standard input."""
    streams = [io.TextIOWrapper(io.BytesIO(text), "utf-8") for text in (lines, b"", b"")]
    given, output, errors = streams
    with (
        patch.object(sys, "argv", [name, *arguments]),
        patch.object(sys, "stdin", given),
        redirect_stdout(output),
        redirect_stderr(errors),
    ):
        try:
            status = _loaded(name)["main"]()
        except SystemExit as end:
            status = int(end.code or 0)
    for stream in (output, errors):
        stream.seek(0)
    return ExampleResult(status, output.read(), errors.read())


@cache
def _loaded(name: str) -> dict[str, Any]:  # Any: whatever its functions take
    return runpy.run_path(str(EXAMPLES / name))
