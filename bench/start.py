"""What a start costs: CPU of whole processes, beside that of importing the libraries alone.

Bytecode is compiled first, as an installation has it, and the
commands take turns, so that a machine that changes its speed changes all of them.
"""

import json
import os
import queue
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

FLOOR: Final = "import aiohttp, msgspec, pydantic, structlog, prometheus_client, yaml"
WANTED: Final[Mapping[str, float]] = {
    "policy check": 0.7,
    "plan --as once, 20 pods": 0.8,
    "plan, 20 pods": 0.8,
    "run": 1.5,
}
"""Times the floor, at most. `run` counts from its start to its first list request."""

_POLICY: Final = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: default
  pluginConfig:
  - name: DefaultEvictor
    args: {nodeFit: true}
  - name: RemovePodsHavingTooManyRestarts
    args: {podRestartThreshold: 5}
  plugins:
    deschedule:
      enabled: [RemovePodsViolatingNodeTaints, RemovePodsHavingTooManyRestarts, RemoveFailedPods]
"""
_TICKS: Final = os.sysconf("SC_CLK_TCK")


def measure(rounds: int) -> dict[str, list[dict[str, float]]]:
    """Return the CPU seconds of each command and of the floor, in rounds."""
    with tempfile.TemporaryDirectory(prefix="reactive-desched-start-") as name:
        folder = Path(name)
        commands, environment = _commands(folder), _environment(folder)
        runs: dict[str, list[dict[str, float]]] = {command: [] for command in (*commands, "run")}
        for _ in range(rounds + 1):
            for command, argv in commands.items():
                runs[command].append({"cpu_s": cpu_of(argv, environment)})
            runs["run"].append({"cpu_s": _cpu_until_first_list(folder, environment)})
    return {command: each[1:] for command, each in runs.items()}  # the first round compiles


def _environment(folder: Path) -> dict[str, str]:
    """Have bytecode written and read, whatever the caller does with its own."""
    own = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {**own, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}


def _commands(folder: Path) -> dict[str, list[str]]:
    (folder / "policy.yaml").write_text(_POLICY, encoding="utf-8")
    (folder / "objects.json").write_text(json.dumps(_objects()), encoding="utf-8")
    ours, policy = [sys.executable, "-m", "reactive_desched"], str(folder / "policy.yaml")
    plan = [*ours, "plan", "--policy", policy, "-f", str(folder / "objects.json")]
    return {
        "floor": [sys.executable, "-c", FLOOR],
        "policy check": [*ours, "policy", "check", policy],
        "plan --as once, 20 pods": [*plan, "--as", "once"],
        "plan, 20 pods": plan,
    }


def _objects() -> dict[str, object]:
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"n{number}", "uid": f"n{number}"},
            "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]} if number == 0 else {},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
        }
        for number in range(3)
    ]
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p{number}", "namespace": "default", "uid": f"p{number}"},
            "spec": {"nodeName": f"n{number % 3}", "containers": [{"name": "c"}]},
            "status": {"phase": "Running"},
        }
        for number in range(20)
    ]
    return {"apiVersion": "v1", "kind": "List", "items": [*nodes, *pods]}


def cpu_of(argv: Sequence[str], environment: Mapping[str, str] | None = None) -> float:
    """Return the CPU seconds of a command; raises CalledProcessError where it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, env=environment, check=True, stdout=subprocess.DEVNULL)  # noqa: S603  # our own module
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _cpu_until_first_list(folder: Path, environment: Mapping[str, str]) -> float:
    """Start `run` against a server that never answers, and stop it at its first list request.

    The request's own thread reads what it has cost: `run` goes on with its other watches meanwhile.
    """
    costs: queue.SimpleQueue[float] = queue.SimpleQueue()

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith(("/api/v1/", "/apis/")):
                costs.put(_cpu_now(process.pid))

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with subprocess.Popen(  # noqa: S603  # our own module
            _run_argv(folder, server.server_address[1]), env=environment, stderr=subprocess.DEVNULL
        ) as process:
            try:
                return costs.get(timeout=60)
            except queue.Empty:
                raise TimeoutError("`run` asked for no list within 60 s") from None
            finally:
                process.send_signal(signal.SIGKILL)
                server.shutdown()


def _run_argv(folder: Path, port: int) -> list[str]:
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [cluster],
        "contexts": [context],
        "users": [{"name": "u", "user": {}}],
    }
    (folder / "kubeconfig").write_text(json.dumps(config), encoding="utf-8")
    return [
        *(sys.executable, "-m", "reactive_desched", "run", "--dry-run"),
        *("--policy", str(folder / "policy.yaml"), "--kubeconfig", str(folder / "kubeconfig")),
        *("--journal", str(folder / "journal"), "--listen", "127.0.0.1:0"),
    ]


def _cpu_now(process: int) -> float:
    """Return the CPU seconds of a running process, as Linux counts them."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
