"""Opens the simulated cluster and the controller, plays the day, and sums it up."""

import sys
import tempfile
import time
from pathlib import Path

import aiohttp
import anyio
from rich.console import Console
from rich.table import Table

from reactive_desched.app.controller import Controller, open_controller
from reactive_desched.app.options import Parts
from reactive_desched.app.telemetry_observer import Reporter
from reactive_desched.controller.config import registry
from reactive_desched.demo import epilogue
from reactive_desched.demo.cluster import open_cluster
from reactive_desched.demo.narrator import Narrator
from reactive_desched.demo.scenes import SCENES, Result, Scene, Stage, perform, until
from reactive_desched.demo.town import Town
from reactive_desched.kube.auth.kubeconfig import KubeConfig
from reactive_desched.policy.documents import Source
from reactive_desched.policy.load import configure
from reactive_desched.primitives.listen_address import Listen, parse_listen
from reactive_desched.telemetry import logs
from reactive_desched.telemetry.deferred_log import LateLog
from reactive_desched.telemetry.metrics import Metrics

_WIDTH_IN_A_PIPE = 130

POLICY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: demo
  pluginConfig:
  - name: DefaultEvictor
    args: {nodeFit: true}
  - name: RemovePodsViolatingNodeAffinity
    args: {nodeAffinityType: [requiredDuringSchedulingIgnoredDuringExecution]}
  plugins:
    deschedule:
      enabled: [RemovePodsViolatingNodeTaints, RemovePodsViolatingNodeAffinity]
---
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
debounce: {quiet: 200ms, maxWait: 3s}
budgets:
  cluster: {evictions: 4, per: 1s, burst: 6}
  node: null
  namespace: null
sinks: {stream: {}}
"""


def play(listen: str) -> int:
    """Play the day; returns 0 only if everything that should move did, and nothing else."""
    return anyio.run(_play, parse_listen(listen))


async def _play(listen: Listen) -> int:
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_WIDTH_IN_A_PIPE)
    logs.configure(level="error", style="console", stream=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="reactive-desched-demo-") as name:
        folder = Path(name)
        async with open_cluster(folder / "kubeconfig") as url, aiohttp.ClientSession() as http:
            town = Town(http, url)
            await town.settle()
            await until(town.is_calm)
            results = await _watch(console, town, listen, folder)
        await epilogue.tell(console, folder / "journal")
    console.print()
    console.print(_summary(results))
    return int(any(result.problem for result in results))


async def _watch(console: Console, town: Town, listen: Listen, folder: Path) -> list[Result]:
    metrics = Metrics()
    log = LateLog(logs.logger("demo"), time.time)
    narrator = Narrator(console, time.monotonic, Reporter(metrics, log))
    parts = Parts(
        configure([Source(POLICY, "the demo's policy")], registry()),
        KubeConfig(str(folder / "kubeconfig")),
        folder / "journal",
        listen,
        metrics,
        narrator,
        log,
    )
    async with open_controller(parts) as controller:
        await controller.core.started.wait()
        _introduce(console, town, controller)
        narrator.speaks = True
        stage = Stage(town, narrator, controller.core)
        results = [await _announced(console, scene, stage) for scene in SCENES]
        narrator.speaks = False
        return results


async def _announced(console: Console, scene: Scene, stage: Stage) -> Result:
    console.print()
    console.rule(scene.title, align="left")
    console.print(scene.story, style="dim")
    return await perform(scene, stage)


def _introduce(console: Console, town: Town, controller: Controller) -> None:
    size = controller.core.size()
    console.print(
        f"A simulated cluster serves {town.url}; the controller watches it over HTTP and serves\n"
        f"{controller.url} (/readyz?verbose, /metrics, /events). "
        f"It knows {size['nodes']} nodes and {size['pods']} pods.\n"
        "Debounce is 200 ms; the token bucket lets 6 evictions go at once and 4 a second after."
    )


def _summary(results: list[Result]) -> Table:
    table = Table(title="The day", title_justify="left")
    for heading in ("scene", "had to move", "moved", "decision to request", "", "verdict"):
        table.add_column(heading)
    for result in results:
        latency = "-" if result.latency_ms is None else f"{result.latency_ms:.1f} ms (median)"
        verdict = result.problem or "as it should be"
        table.add_row(
            result.title, str(result.expected), str(result.moved), latency, result.note, verdict
        )
    return table
