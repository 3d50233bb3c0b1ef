"""Opens the simulated cluster and the controller, plays the day, and sums it up."""

import sys
import tempfile
import time
from pathlib import Path

import anyio
from rich.console import Console
from rich.table import Table

from reactive_desched import logs
from reactive_desched.app import Controller, Parts, open_controller
from reactive_desched.demo.narrator import Narrator
from reactive_desched.demo.scenes import SCENES, Result, Scene, Stage, perform, until
from reactive_desched.demo.town import Town
from reactive_desched.kube.kubeconfig import KubeConfig
from reactive_desched.metrics import Metrics
from reactive_desched.model.addresses import Listen, parse_listen
from reactive_desched.planning import registry
from reactive_desched.policy.documents import Source
from reactive_desched.policy.load import configure
from reactive_desched.reporting import Reporter
from reactive_desched.sim.profiles import Pace
from reactive_desched.sim.run import Landscape, Simulation, simulation

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
"""


def play(listen: str) -> int:
    """Play the day; returns 0 only if everything that should move did, and nothing else."""
    return anyio.run(_play, parse_listen(listen))


async def _play(listen: Listen) -> int:
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_WIDTH_IN_A_PIPE)
    logs.configure(level="error", style="console", stream=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="reactive-desched-demo-") as folder:
        landscape = Landscape(nodes=0, pods=0, pace=Pace(start_s=0.3, shutdown_s=0.3))
        async with simulation(landscape) as sim:
            town = Town(sim.store)
            town.settle()
            await until(town.is_calm)
            results = await _watch(console, sim, town, listen, Path(folder))
    console.print(_summary(results))
    return int(any(result.problem for result in results))


async def _watch(
    console: Console, sim: Simulation, town: Town, listen: Listen, folder: Path
) -> list[Result]:
    metrics = Metrics()
    log = logs.logger("demo")
    narrator = Narrator(console, time.monotonic, Reporter(metrics, log))
    async with open_controller(
        Parts(
            configure([Source(POLICY, "the demo's policy")], registry()),
            KubeConfig(str(_kubeconfig(sim, folder))),
            folder / "journal",
            listen,
            metrics,
            narrator,
            log,
        )
    ) as controller:
        await controller.core.started.wait()
        _introduce(console, sim, controller)
        narrator.speaks = True
        return [
            await _announced(console, scene, Stage(town, narrator, controller.core))
            for scene in SCENES
        ]


async def _announced(console: Console, scene: Scene, stage: Stage) -> Result:
    console.print()
    console.rule(scene.title, align="left")
    return await perform(scene, stage)


def _kubeconfig(sim: Simulation, folder: Path) -> Path:
    path = folder / "kubeconfig"
    path.write_text(sim.kubeconfig, encoding="utf-8")
    return path


def _introduce(console: Console, sim: Simulation, controller: Controller) -> None:
    size = controller.core.size()
    console.print(
        f"A simulated cluster serves {sim.url}; the controller watches it over HTTP and serves\n"
        f"{controller.url} (/readyz?verbose, /metrics). "
        f"It knows {size['nodes']} nodes and {size['pods']} pods.\n"
        "Debounce is 200 ms; the token bucket lets 6 evictions go at once and 4 a second after."
    )


def _summary(results: list[Result]) -> Table:
    table = Table(title="The day", title_justify="left")
    for heading in ("scene", "had to move", "moved", "decision to eviction", "", "verdict"):
        table.add_column(heading)
    for result in results:
        latency = "-" if result.latency_ms is None else f"{result.latency_ms:.1f} ms (median)"
        verdict = result.problem or "as it should be"
        table.add_row(
            result.title, str(result.expected), str(result.moved), latency, result.note, verdict
        )
    return table
