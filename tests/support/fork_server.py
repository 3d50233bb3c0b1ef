"""Programs forked from a process that has loaded their modules: a start takes 30 ms, not a second.

A forked program is one of its own, with its own memory, signals, files, exit status and end of the
interpreter. Only the start of the interpreter and the imports are shared. It is killed when the
process that asked for it has ended, or drops its `ForkedProgram`: an interrupted run of tests
leaves none behind.
"""

import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from typing import BinaryIO, Final, NoReturn, Self

from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import check_source

__all__ = ["ForkServer", "ForkedProgram"]

_PRELOADED: Final = (
    "anyio._backends._asyncio",
    "cryptography.hazmat.primitives.serialization",
    "reactive_desched.api.plugin",
    "reactive_desched.app.controller",
    "reactive_desched.app.run",
    "reactive_desched.app.run_once",
    "reactive_desched.cli.plan",
    "reactive_desched.cli.run",
    "reactive_desched.cli.sim",
    "reactive_desched.plan.command",
    "reactive_desched.plugins.node_taints",
    "reactive_desched.sim.command",
    "structlog",
    "uvloop",
)
_POLICY: Final = b"""\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: test
  pluginConfig:
  - {name: DefaultEvictor, args: {nodeFit: true}}
  plugins: {deschedule: {enabled: [RemovePodsViolatingNodeTaints]}}
---
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
"""
_MOST_BYTES: Final = 1 << 17  # of arguments and environment


class ForkedProgram:
    """A running program; its methods are those of `subprocess.Popen` of the same names."""

    def __init__(self, pid: int, reports: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._reports = reports

    def fileno(self) -> int:
        """Return what can be read from once the program has ended."""
        return self._reports.fileno()

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal; None while the program runs."""
        if self.returncode is None and select.select([self], [], [], 0)[0]:
            self.returncode = int(self._reports.recv(64))
            self._reports.close()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status; raise TimeoutExpired after `timeout` seconds."""
        if self.returncode is None:
            select.select([self], [], [], timeout)
        if (status := self.poll()) is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the program has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL, unless the program has ended."""
        self.send_signal(signal.SIGKILL)

    def close(self) -> None:
        """Wait for the program no longer: it is killed if it still runs."""
        self._reports.close()


class ForkServer:
    """The process that loads the modules once and forks every program."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**os.environ, **environment},
            )

    def __enter__(self) -> Self:
        """Keep the process while the block runs."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process; it starts no more programs."""
        with self._requests, self._process:
            self._process.kill()

    def start(
        self,
        module: str,
        arguments: Sequence[str],
        output: BinaryIO,
        errors: BinaryIO | None = None,
    ) -> ForkedProgram:
        """Start `python -m MODULE ARGUMENTS` with this process's environment, as it is now.

        Without `errors`, `output` takes standard error, too.
        """
        request = json.dumps([module, *arguments, dict(os.environ)]).encode()
        files = [output.fileno(), (errors or output).fileno()]
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            socket.send_fds(self._requests, [request], [theirs.fileno(), *files])
        pid = ours.recv(64)
        assert pid, "the fork server has ended"
        return ForkedProgram(int(pid), ours)

    def run(
        self, *arguments: str, timeout: float = 60, module: str = "reactive_desched"
    ) -> subprocess.CompletedProcess[str]:
        """Run `reactive-desched ARGUMENTS` to its end, as `subprocess.run` does with text."""
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            program = self.start(module, arguments, output, errors)
            with closing(program):
                status = program.wait(timeout)
            said = [_text(output), _text(errors)]
        return subprocess.CompletedProcess(arguments, status, *said)


def _text(file: BinaryIO) -> str:
    file.seek(0)
    return file.read().decode()


def _serve(requests: socket.socket) -> Sequence[str]:
    """Fork a program for each request; in the program, return its module and arguments."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps those that report
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the end of `requests` ends it
    while True:
        request, descriptors, *_ = socket.recv_fds(requests, _MOST_BYTES, 3)
        if not request:
            sys.exit()
        if not os.fork():
            break
        for descriptor in descriptors:
            os.close(descriptor)
    requests.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    reports, output, errors = descriptors
    if pid := os.fork():
        os.close(output)
        os.close(errors)
        _report(pid, socket.socket(fileno=reports))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.dup2(output, 1)
    os.dup2(errors, 2)
    os.closerange(3, max(descriptors) + 1)
    command: list[str]
    *command, environment = json.loads(request)
    os.environ.clear()
    os.environ.update(environment)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = [path for path in paths if path and path not in sys.path]
    return command


def _report(pid: int, reports: socket.socket) -> NoReturn:
    """Send the program's id, wait until it has ended and send its exit status.

    Nothing is ever received but the end of the other side: then nobody waits for the program. Until
    then its id stays its own, so that a signal that is sent as it ends reaches no other process.
    """
    reports.send(str(pid).encode())

    def kill_when_unwanted() -> None:
        reports.recv(1)
        os.kill(pid, signal.SIGKILL)

    waits = threading.Thread(target=kill_when_unwanted)
    waits.start()
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert ended is not None
    status = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
    with suppress(BrokenPipeError):
        reports.send(str(status).encode())
    waits.join()
    os._exit(0)


def main() -> None:
    """Load the modules, and become each program that is asked for, in a process forked for it."""
    for module in _PRELOADED:
        importlib.import_module(module)
    check_source(SourceText(_POLICY, "policy"), plugin_registry())  # pydantic builds its models
    gc.collect()
    gc.freeze()
    module, *sys.argv[1:] = _serve(socket.socket(fileno=int(sys.argv[1])))
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
