"""Starts the load server and the processes that are measured, and asks them for measurements."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

_TIMEOUT_S = 1_800.0
"""The first list of 500,000 pods alone takes ten minutes where other programs have the machine."""

Results = dict[str, Any]  # Any: numbers, texts and tables by name, as JSON has them


@dataclass(frozen=True)
class Size:
    """How large a cluster is measured, and how often.

    A run sends `events` watch events flat out or `reactions` changes at a pace. Cheap runs are
    repeated `runs` times, dear ones `syncs` times; `ramp_s` is how long each pace is tried.
    """

    name: str
    nodes: int
    pods: int
    events: int
    reactions: int
    runs: int
    syncs: int
    ramp_s: float
    outages: int

    @property
    def one_tenth(self) -> "Size":
        """The same with a tenth of the nodes and pods."""
        return replace(self, name="tenth", nodes=self.nodes // 10, pods=self.pods // 10)


_RUNS = {"runs": 9, "syncs": 3}
SIZES = {
    size.name: size
    for size in (
        Size("small", 200, 6_000, events=3_000, reactions=40, ramp_s=0.5, outages=1, **_RUNS),
        Size("medium", 1_000, 30_000, events=5_000, reactions=200, ramp_s=1, outages=1, **_RUNS),
        Size("full", 5_000, 150_000, events=10_000, reactions=1_000, ramp_s=2, outages=3, **_RUNS),
        Size("huge", 15_000, 500_000, events=10_000, reactions=1_000, ramp_s=2, outages=1, **_RUNS),
    )
}


@dataclass(frozen=True)
class MeasuredProcess:
    """A process that measures what it is asked; `started` is what it said when it was ready."""

    process: "subprocess.Popen[str]"
    started: Results

    def ask(self, command: str, **arguments: object) -> Results:
        """Run one command in the process and return its result.

        Raises RuntimeError when the process ends instead, or takes longer than half an hour.
        """
        return self.ask_within(_TIMEOUT_S, command, **arguments)

    def ask_within(self, within_s: float, command: str, /, **arguments: object) -> Results:
        """Do the same with another time limit."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": command} | arguments) + "\n")
        self.process.stdin.flush()
        return _read_line(self.process, command, within_s)


@contextmanager
def load_server(size: Size, *options: str) -> Iterator[MeasuredProcess]:
    """Run a load server while the block lasts; it starts with its address and certificate."""
    cluster = ("--pods", str(size.pods), "--nodes", str(size.nodes))
    with _process("bench.server", *cluster, *options) as server:
        yield server


@contextmanager
def controller(
    size: Size, journal: Path, *options: str, server: MeasuredProcess | None = None
) -> Iterator[MeasuredProcess]:
    """Run the controller until the block ends; it is synced when the block begins.

    It has a load server of its own, unless one is given.
    """
    cluster = ("--pods", str(size.pods), "--journal", str(journal))
    with _client("bench.measure", size, server, *cluster, *options) as process:
        yield process


@contextmanager
def balance(size: Size) -> Iterator[MeasuredProcess]:
    """Measure every plugin at once in a process of its own; it begins with all the results."""
    cluster = ("--pods", str(size.pods), "--nodes", str(size.nodes))
    with _process("bench.measure.balance", *cluster) as process:
        yield process


@contextmanager
def floor(
    size: Size, *options: str, server: MeasuredProcess | None = None
) -> Iterator[MeasuredProcess]:
    """Run the floor until the block ends, as `controller` does the controller."""
    with _client("bench.floor", size, server, *options) as process:
        yield process


@contextmanager
def metrics_floor(series: int) -> Iterator[MeasuredProcess]:
    """Run the floor of a scrape until the block ends, with so many series."""
    with _process("bench.floor.metrics", "--series", str(series)) as process:
        yield process


@contextmanager
def _client(
    module: str, size: Size, server: MeasuredProcess | None, *options: str
) -> Iterator[MeasuredProcess]:
    if server is None:
        with load_server(size) as own, _client(module, size, own, *options) as process:
            yield process
    else:
        at = ("--url", server.started["url"], "--ca", server.started["ca"])
        with _process(module, *at, *options) as process:
            yield process


@contextmanager
def _process(module: str, *options: str) -> Iterator[MeasuredProcess]:
    with subprocess.Popen(  # noqa: S603  # our own module
        [sys.executable, "-m", module, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=_environment(),
    ) as process:
        try:
            yield MeasuredProcess(process, _read_line(process, module))
        finally:
            process.terminate()


def _read_line(
    process: "subprocess.Popen[str]", what: str, within_s: float = _TIMEOUT_S
) -> Results:
    assert process.stdout is not None
    began, limit = time.monotonic(), threading.Timer(within_s, process.kill)
    limit.start()
    try:
        line = process.stdout.readline()
    finally:
        limit.cancel()
    if not line:
        status = process.wait()
        if time.monotonic() - began >= within_s:
            raise RuntimeError(f"{what} took longer than {within_s:.0f} s: the process was ended")
        raise RuntimeError(f"the process ended, with status {status}, instead of: {what}")
    result: Results = json.loads(line)
    return result


def _environment() -> dict[str, str]:
    """Let no proxy stand between two processes on one machine."""
    return {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
