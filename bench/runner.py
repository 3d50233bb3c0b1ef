"""Starts the load server and the process under test, each on its own, and gathers what they say."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TIMEOUT_S = 600
Results = dict[str, Any]  # Any: numbers, texts and tables by name, as JSON has them


@dataclass(frozen=True)
class Size:
    """How large a cluster to measure, and how many events to tell."""

    name: str
    nodes: int
    pods: int
    events: int
    reactions: int

    @property
    def one_tenth(self) -> "Size":
        """The same at a tenth of the size."""
        return Size("tenth", self.nodes // 10, self.pods // 10, self.events, self.reactions)


SIZES = {
    "small": Size("small", nodes=200, pods=6_000, events=4_000, reactions=40),
    "full": Size("full", nodes=5_000, pods=150_000, events=20_000, reactions=1_000),
}


@contextmanager
def load_server(size: Size, *options: str) -> Iterator[Results]:
    """Run a load server while the block lasts; gives its address and certificate."""
    command = [
        *(sys.executable, "-m", "bench.server"),
        *("--pods", str(size.pods), "--nodes", str(size.nodes)),
        *options,
    ]
    server = subprocess.Popen(command, stdout=subprocess.PIPE)  # noqa: S603  # our own module
    try:
        assert server.stdout is not None
        yield json.loads(server.stdout.readline())
    finally:
        server.terminate()
        server.wait()


def run_programme(
    size: Size, programme: str, journal: Path, count: int, options: tuple[str, ...] = ()
) -> Results:
    """Run one programme in a process of its own, against a fresh load server."""
    with load_server(size) as server:
        command = [
            *(sys.executable, "-m", "bench.measure", programme),
            *("--url", server["url"], "--ca", server["ca"]),
            *("--pods", str(size.pods), "--nodes", str(size.nodes)),
            *("--journal", str(journal), "--count", str(count)),
            *options,
        ]
        done = subprocess.run(  # noqa: S603  # our own module
            command, stdout=subprocess.PIPE, timeout=_TIMEOUT_S, check=True, env=_environment()
        )
    output: Results = json.loads(done.stdout.splitlines()[-1])
    return output


def _environment() -> dict[str, str]:
    """Let no proxy stand between two processes on one machine."""
    return {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
