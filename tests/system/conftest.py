"""Programs of ours: `sim` as the cluster, `run` as the controller.

They are forked from a process that has loaded their modules, with the mark `executed` each is a new
interpreter, as users start it: a test or two for each command.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import pytest

from tests.support.fork_server import ForkedProgram, ForkServer
from tests.support.limits import UNLIMITED

POLICY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: test
  pluginConfig:
  - name: DefaultEvictor
    args: {nodeFit: true}
  plugins:
    deschedule: {enabled: [RemovePodsViolatingNodeTaints]}
---
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
debounce: {quiet: 50ms}
"""
ENVIRONMENT = {"PYTHONWARNINGS": "error::ResourceWarning"}

PATIENCE_S = 180
"""Twice the 90 s for which a controller leaves a pod alone that an earlier process, which was
killed, may still have evicted: what follows takes as long on a busy machine.
"""


Launch = Callable[[str, Sequence[str], BinaryIO], "ForkedProgram | subprocess.Popen[bytes]"]
"""Starts a module with arguments; the file takes the output."""


class Program:
    """A process of ours; its output goes to a file that failures show."""

    def __init__(self, log: Path, launch: Launch, module: str, arguments: Sequence[str]) -> None:
        self.log = log
        with log.open("wb") as output:
            self.process = launch(module, arguments, output)

    @property
    def output(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Return the first match in the output; fail if the program ends or takes too long."""
        return wait_until(lambda: re.search(pattern, self.output), self)

    def wait_until(self, found: Callable[[], bool]) -> None:
        """Return when something holds; fail if the program ends or takes too long."""
        wait_until(lambda: found() or None, self)

    @property
    def url(self) -> str:
        """Where a controller serves, as soon as its log says so, in either format."""
        return self.wait_for(r'\burl"?[=:] ?"?(http[^\s"]+)')[1]

    def stop(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(20)
            raise AssertionError(f"did not stop:\n{self.output}") from None


T = TypeVar("T")


def wait_until(found: Callable[[], T | None], program: Program) -> T:
    """Return what is found; fail if the program ends or takes too long."""
    give_up = time.monotonic() + PATIENCE_S
    while time.monotonic() < give_up:
        if result := found():
            return result
        assert program.process.poll() is None, f"ended early:\n{program.output}"
        time.sleep(0.05)
    raise AssertionError(f"waited in vain:\n{program.output}")


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    with ForkServer(ENVIRONMENT) as running:
        yield running


def execute(module: str, arguments: Sequence[str], output: BinaryIO) -> "subprocess.Popen[bytes]":
    """Start a new interpreter."""
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env={**os.environ, **ENVIRONMENT},
    )


def is_executed(request: pytest.FixtureRequest) -> bool:
    return request.node.get_closest_marker("executed") is not None


@pytest.fixture
def launch(request: pytest.FixtureRequest) -> Launch:
    if is_executed(request):
        return execute
    server: ForkServer = request.getfixturevalue("fork_server")
    return server.start


@pytest.fixture
def start(tmp_path: Path, launch: Launch) -> Iterator[Callable[..., Program]]:
    """Start programs; whatever still runs at the end of the test is stopped."""
    programs: list[Program] = []

    def start_one(*arguments: str, module: str = "reactive_desched") -> Program:
        log = tmp_path / f"{len(programs)}-{arguments[0]}.log"
        program = Program(log, launch, module, arguments)
        programs.append(program)
        return program

    yield start_one
    for program in reversed(programs):
        program.stop()


class Cluster:
    """A simulated cluster behind its API, and the few calls the tests make."""

    def __init__(self, program: Program, url: str, kubeconfig: Path) -> None:
        self.program = program
        self.url = url
        self.kubeconfig = kubeconfig

    def create(self, path: str, body: object) -> Any:  # any JSON
        return self.call("POST", path, body, "application/json")

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        media_type: str = "application/merge-patch+json",
    ) -> Any:  # any JSON
        request = urllib.request.Request(
            f"{self.url}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": media_type},
        )
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.load(reply)

    def pods_on(self, node: str) -> dict[str, str]:
        """Return uid and controller kind of the pods on a node that are not leaving."""
        query = f"/api/v1/pods?fieldSelector=spec.nodeName={node}"
        return {
            pod["metadata"]["uid"]: pod["metadata"]["ownerReferences"][0]["kind"]
            for pod in self.call("GET", query)["items"]
            if "deletionTimestamp" not in pod["metadata"]
        }

    def taint(self, node: str, key: str) -> None:
        taints = [{"key": key, "effect": "NoSchedule"}]
        self.call("PATCH", f"/api/v1/nodes/{node}", {"spec": {"taints": taints}})

    def untaint(self, node: str) -> None:
        self.call("PATCH", f"/api/v1/nodes/{node}", {"spec": {"taints": None}})


@pytest.fixture
def cluster(
    start: Callable[..., Program], tmp_path: Path, request: pytest.FixtureRequest
) -> Cluster:
    kubeconfig = tmp_path / "kubeconfig"
    program = start(
        *("sim", "--nodes", "6", "--pods", "40", "--write-kubeconfig", str(kubeconfig)),
        module="reactive_desched" if is_executed(request) else "tests.support.prompt_sim",
    )
    url = program.wait_for(r"http://\S+").group()
    found = Cluster(program, url, kubeconfig)
    wait_until(lambda: _all_run(found) or None, program)
    return found


def _all_run(cluster: Cluster) -> bool:
    pods = cluster.call("GET", "/api/v1/pods")["items"]
    return len(pods) > 20 and all(pod["status"].get("phase") == "Running" for pod in pods)


@pytest.fixture
def settings() -> str:
    """What the settings say besides; a module may have its own."""
    return UNLIMITED


@pytest.fixture
def policy(tmp_path: Path, settings: str) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY + settings, encoding="utf-8")
    return path


@pytest.fixture
def controller(
    start: Callable[..., Program], cluster: Cluster, policy: Path, tmp_path: Path
) -> Callable[..., Program]:
    """Start `run` against the cluster, with its journal in the test's folder."""

    def start_one(*more: str, module: str = "reactive_desched") -> Program:
        return start(
            "run",
            *("--policy", str(policy), "--kubeconfig", str(cluster.kubeconfig)),
            *("--journal", str(tmp_path / "journal"), "--listen", "127.0.0.1:0", *more),
            module=module,
        )

    return start_one
