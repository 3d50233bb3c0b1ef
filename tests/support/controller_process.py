"""The controller as people run it: a process with a policy file, credentials and a journal."""

import sys
import urllib.error
import urllib.request
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol, Self

from tests.support.component import ChildProcess, ChildProcessFailedError
from tests.support.control_plane import wait_until
from tests.support.fork_server import ForkServer
from tests.support.ports import free_port

ANSWERS_S = 30
"""So long it may take to answer on a busy machine; one that has ended refuses at once."""

HEAD = "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings"


@dataclass
class ControllerProcess:
    """`reactive-desched run` in a folder of its own; started again, it finds its journal there.

    With `programs` it is forked, else a new interpreter, as people start it.
    """

    folder: Path
    kubeconfig: Path
    policy: str
    settings: str | None = None
    options: tuple[str, ...] = ()
    programs: ForkServer | None = None
    _component: ChildProcess = field(init=False)
    _port: int = field(init=False)

    def __post_init__(self) -> None:
        self._port = free_port()
        self.journal.mkdir(parents=True, exist_ok=True)
        arguments = self._arguments()
        argv = (sys.executable, "-m", "reactive_desched", *arguments)
        fork = None
        if self.programs is not None:
            fork = partial(self.programs.start, "reactive_desched", arguments)
        log = self.folder / "controller.log"
        self._component = ChildProcess("reactive-desched", argv, log, fork)

    def __enter__(self) -> Self:
        """Start it and wait until it says that it knows the cluster."""
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End it, whatever state it is in."""
        self.kill()

    @property
    def journal(self) -> Path:
        """The folder of its durable record."""
        return self.folder / "journal"

    def start(self, within_s: float = 60) -> None:
        """Start it and wait for readiness; also after `kill`, as a restarted container would."""
        self.launch()
        try:
            self.await_ready(within_s)
        except TimeoutError as error:
            raise ChildProcessFailedError(f"{error}; it said:\n{self.tail()}") from error

    def await_ready(self, within_s: float = 60) -> None:
        """Wait until it is ready; one that stood still is not, until it has synced."""
        wait_until(self._ready_or_dead, within_s=within_s, what="the controller is ready")

    def launch(self) -> None:
        """Start it, and wait for nothing."""
        self._component.start()

    def stop(self) -> int:
        """Ask it to end, as the kubelet does, and return its exit status."""
        return self._component.stop()

    def kill(self) -> None:
        """End it as a lost machine would."""
        self._component.kill()

    def freeze(self) -> None:
        """Stop its time: its watches go stale while the world moves on."""
        self._component.freeze()

    def thaw(self) -> None:
        """Let it go on."""
        self._component.thaw()

    def full_disk(self) -> AbstractContextManager[None]:
        """Let its journal grow no more, as on a full disk, while the block lasts."""
        sizes = [each.stat().st_size for each in self.journal.rglob("*.jsonl")]
        return self._component.no_file_grows_beyond(max(sizes))

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._component.alive

    @property
    def url(self) -> str:
        """Where it serves its pages, and takes orders."""
        return f"http://127.0.0.1:{self._port}"

    def page(self, path: str) -> str:
        """Return the text of a page, whatever its status."""
        try:
            with urllib.request.urlopen(f"{self.url}{path}", timeout=ANSWERS_S) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return error.read().decode()

    def probe(self, path: str) -> int | None:
        """Return the status of a probe endpoint; None when nobody answers."""
        try:
            with urllib.request.urlopen(f"{self.url}{path}", timeout=ANSWERS_S) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code
        except OSError:
            return None

    def metric(self, name: str) -> float | None:
        """Return the value of a metric without labels; None when nobody answers, or has it."""
        try:
            with urllib.request.urlopen(f"{self.url}/metrics", timeout=ANSWERS_S) as answer:
                lines = answer.read().decode().splitlines()
        except OSError:
            return None
        values = (line.rpartition(" ") for line in lines)
        return next((float(v) for n, _, v in values if n == f"reactive_desched_{name}"), None)

    def tail(self, lines: int = 40) -> str:
        """Return the last lines it logged."""
        return self._component.tail(lines)

    @property
    def log(self) -> str:
        """All that it logged, in every run."""
        return self._component.log.read_text(errors="replace")

    def _ready_or_dead(self) -> bool:
        self._component.ensure_alive()
        return self.probe("/readyz") == 200

    def _arguments(self) -> list[str]:
        arguments = [
            "run",
            f"--policy={self._write('policy.yaml', self.policy)}",
            f"--kubeconfig={self.kubeconfig}",
            f"--journal={self.journal}",
            f"--listen=127.0.0.1:{self._port}",
            "--log-format=json",
        ]
        settings = self._write("settings.yaml", recorded(self.settings or ""))
        return [*arguments, f"--settings={settings}", *self.options]

    def _write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path


def recorded(settings: str) -> str:
    """Return settings with which the controller records what it sees, so that it is replayed."""
    if "\nrecording:" in settings:
        return settings
    return f"{settings.rstrip() or HEAD}\nrecording: {{enabled: true}}\n"


class RunController(Protocol):
    """How a test asks for a running controller; the end of the block ends it and audits it."""

    def __call__(self, *options: str) -> AbstractContextManager[ControllerProcess]:
        """Start it with these further options."""
