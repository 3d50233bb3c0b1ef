"""Opens the simulated cluster and the controller, plays the day, and sums it up."""

import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import anyio
from anyio.streams.text import TextReceiveStream
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from reactive_desched.app.controller import RunningController, open_controller
from reactive_desched.app.options import Dependencies
from reactive_desched.demo import epilogue
from reactive_desched.demo.demo_cluster import DemoCluster
from reactive_desched.demo.narrator import ConsoleObserver
from reactive_desched.demo.scenes import (
    SCENES,
    Scene,
    SceneContext,
    SceneResult,
    play_scene,
    wait_until,
)
from reactive_desched.errors import ConfigError, ReactiveDeschedError
from reactive_desched.kube.auth.kubeconfig import KubeConfigOptions
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import load_sources
from reactive_desched.primitives.listen_address import ListenAddress, parse_listen_address
from reactive_desched.telemetry import logs
from reactive_desched.telemetry.deferred_log import DeferredLogger
from reactive_desched.telemetry.observer import TelemetryObserver
from reactive_desched.telemetry.registry import MetricsRegistry

START_TIMEOUT_S = 30.0


@asynccontextmanager
async def open_demo_cluster(kubeconfig: Path) -> AsyncIterator[str]:
    """Run an empty simulated cluster while the block lasts; yields its URL.

    The cluster also ends when this process does without leaving the block, as after SIGKILL.
    """
    command = [
        *(sys.executable, "-m", "reactive_desched", "sim", "--nodes", "0", "--pods", "0"),
        *("--write-kubeconfig", str(kubeconfig), "--until-stdin-ends"),
    ]
    async with await anyio.open_process(
        command, stdin=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            assert process.stdout is not None
            yield await _read_url(TextReceiveStream(process.stdout))
        finally:
            process.terminate()


async def _read_url(output: TextReceiveStream) -> str:
    """Return the URL, which is the first line the cluster prints."""
    received = ""
    with anyio.move_on_after(START_TIMEOUT_S):
        async for text in output:
            received += text
            if "\n" in received:
                return received.split("\n", 1)[0]
    raise ReactiveDeschedError(f"the simulated cluster did not start: {received.strip()}")


PAUSE_S = 8.0
"""With `serve`, time to look at the page before a day and after it."""

_PIPE_WIDTH = 130

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
debounce: {quiet: 200ms, maxWait: 3s, flapping: {quiet: 700ms, maxWait: 3s}}
budgets:
  cluster: {evictions: 4, per: 1s, burst: 6}
  zone: null
  node: null
  namespace: null
  owner: null
  plugin: null
  warmUp: null
brakes: {storm: {pods: 20, window: 2s}}
evictions: {retry: {initial: 500ms}}
guards:
  disabled: [YoungPods, NewlyReadyPods, UnreadyWorkloads]
  standingTimes: {otherTaints: 200ms, nodeLabels: 200ms, openNodes: 200ms, nodeUse: 200ms,
    closedNodes: 0s}
moves:
  {maxMoving: {owner: 100%}, cooldown: 0s, nodeCooldown: 0s, futileBackoff: 0s, futileAfter: 100}
sinks: {stream: {}}
"""


class DemoOptions(Struct, frozen=True):
    """The address of the controller, and the folder of its journal, which else ends with the demo.

    With `serve` the live page is there, and the day is played until the process is interrupted.
    """

    listen: str
    keep: str | None = None
    serve: bool = False


def play(options: DemoOptions) -> int:
    """Play the day; returns 0 only if everything that should move did, and nothing else.

    Raises ConfigError when the folder of the journal holds anything or cannot be made.
    """
    address = parse_listen_address(options.listen)
    if options.keep is not None:
        _make_empty(Path(options.keep))
    return anyio.run(_play, address, options)


def _make_empty(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        occupied = any(folder.iterdir())
    except OSError as error:
        raise ConfigError(f"cannot keep the journal in {folder}: {error.strerror}") from error
    if occupied:
        raise ConfigError(f"{folder} is not empty: --keep takes a new folder")


async def _play(listen: ListenAddress, options: DemoOptions) -> int:
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_PIPE_WIDTH)
    logs.configure(level="error", style="console", stream=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="reactive-desched-demo-") as name:
        folder = Path(name)
        journal = folder / "journal" if options.keep is None else Path(options.keep)
        async with open_demo_cluster(folder / "kubeconfig") as url, aiohttp.ClientSession() as http:
            cluster = DemoCluster(http, url)
            await cluster.create()
            await wait_until(cluster.is_stable)
            deps, observer = _dependencies(
                console, listen, folder / "kubeconfig", journal, _policy(options)
            )
            results = await _run_scenes(console, cluster, deps, observer, serve=options.serve)
        await epilogue.print_audit(console, journal)
    console.print()
    console.print(_summary(results))
    console.print(epilogue.closing_words(options.keep), soft_wrap=True)
    return int(any(result.problem for result in results))


def _policy(options: DemoOptions) -> str:
    """Return the policy and the settings; what is kept has a recording, for `policy diff`."""
    page = "server: {ui: true}\n" if options.serve else ""
    return POLICY + page + ("" if options.keep is None else "recording: {enabled: true}\n")


def _dependencies(
    console: Console, listen: ListenAddress, kubeconfig: Path, journal: Path, policy: str
) -> tuple[Dependencies, ConsoleObserver]:
    metrics = MetricsRegistry()
    log = DeferredLogger(logs.logger("demo"), time.time)
    telemetry = TelemetryObserver(metrics, log, time.time)
    observer = ConsoleObserver(console, time.monotonic, telemetry)
    return Dependencies(
        load_sources([SourceText(policy, "the demo's policy")], plugin_registry()),
        KubeConfigOptions(str(kubeconfig)),
        journal,
        listen,
        metrics,
        observer,
        log,
        telemetry.recent,
    ), observer


async def _run_scenes(
    console: Console,
    cluster: DemoCluster,
    deps: Dependencies,
    observer: ConsoleObserver,
    *,
    serve: bool,
) -> list[SceneResult]:
    """Play the day once, or with `serve` until interrupted."""
    async with open_controller(deps) as running:
        await running.controller.initial_sync_done.wait()
        _print_intro(console, cluster, running)
        context = SceneContext(cluster, observer, running.controller, running.url)
        with observer.shown():
            while True:
                if serve:
                    console.print(f"\nThe live page is at {running.url}; Ctrl-C ends the demo.")
                    await anyio.sleep(PAUSE_S)
                results = [await _play_scene(console, scene, context) for scene in SCENES]
                if not serve:
                    return results
                console.print(_summary(results))
                await anyio.sleep(PAUSE_S)
                await cluster.restore()
                await wait_until(cluster.is_empty)
                await cluster.deploy()
                await wait_until(cluster.is_stable)
                observer.evicted.clear()


async def _play_scene(console: Console, scene: Scene, context: SceneContext) -> SceneResult:
    console.print()
    console.rule(scene.title, align="left")
    console.print(scene.story, style="dim")
    return await play_scene(scene, context)


def _print_intro(console: Console, cluster: DemoCluster, running: RunningController) -> None:
    size = running.controller.state.size()
    console.print(
        f"A simulated cluster serves {cluster.url}; the controller watches it over HTTP "
        f"and serves\n"
        f"{running.url} (/readyz?verbose, /metrics, /events). "
        f"It watches {size['nodes']} nodes and {size['pods']} pods.\n"
        "Debounce is 200 ms, and a taint counts once it has stood for 200 ms (by default 25 s);\n"
        "the token bucket lets 6 evictions go at once and 4 a second after."
    )


def _summary(results: list[SceneResult]) -> Table:
    table = Table(title="The day", title_justify="left")
    for heading in ("scene", "had to move", "moved", "decision to request", "", "result"):
        table.add_column(heading)
    for result in results:
        latency = "-" if result.latency_ms is None else f"{result.latency_ms:.1f} ms (median)"
        passed = result.problem or "passed"
        table.add_row(
            result.title, str(result.expected), str(result.moved), latency, result.remark, passed
        )
    return table
