"""`sim` as a process of its own, with kubectl for its hands."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.component import ChildProcess
from tests.support.control_plane import RealTools, wait_until
from tests.support.kubectl import Kubectl

__all__ = ["simulated_cluster"]


@contextmanager
def simulated_cluster(tools: RealTools, folder: Path, *size: str) -> Iterator[Kubectl]:
    """Serve a simulated cluster; its log must be without a traceback at the end."""
    config = folder / "kubeconfig"
    argv = (
        *(sys.executable, "-m", "reactive_desched", "sim", *size),
        *("--write-kubeconfig", str(config)),
    )
    simulator = ChildProcess("sim", argv, folder / "sim.log")
    simulator.start()
    try:
        wait_until(lambda: "ready:" in simulator.tail(5), within_s=90, what="the simulator")
        yield Kubectl(tools.paths["kubectl"], config, folder / "cache")
        assert simulator.stop() == 0
        assert "Traceback" not in simulator.tail(1000)
    finally:
        simulator.kill()
