"""The demo's scenes: each changes the cluster, waits, and checks which pods moved."""

from collections.abc import Awaitable, Callable
from statistics import median

import anyio
from msgspec import Struct

from reactive_desched.controller.controller import Controller
from reactive_desched.demo.demo_cluster import SSD, DemoCluster
from reactive_desched.demo.epilogue import run_cli
from reactive_desched.demo.narrator import ConsoleObserver
from reactive_desched.model.brakes import STORM

WAIT_TIMEOUT_S = 15.0
"""How long a scene waits for what must come."""

FLAPS = 200
PENDING_SHOWN = 4
"""Lines of the output of `pending` that are shown."""


class SceneContext(Struct, frozen=True):
    """The cluster, controller and narrator that a scene works with."""

    cluster: DemoCluster
    observer: ConsoleObserver
    controller: Controller
    url: str


class SceneResult(Struct, frozen=True):
    """The result of a scene; `problem` is empty when exactly the expected pods moved."""

    title: str
    expected: int
    moved: int
    remark: str
    latency_ms: float | None
    problem: str


class Scene(Struct, frozen=True):
    """A title, a text, and a function that returns the pods to move, a note, and an error."""

    title: str
    story: str
    play: Callable[[SceneContext], Awaitable[tuple[set[str], str, str]]]


async def play_scene(scene: Scene, context: SceneContext) -> SceneResult:
    """Play one scene until the cluster is quiet, and compare moved pods with expected ones."""
    context.observer.start_scene()
    before = set(context.observer.evicted)
    expected, remark, problem = await scene.play(context)
    await wait_until(context.cluster.is_stable)
    await anyio.sleep(0.5)
    moved = set(context.observer.evicted) - before
    if not problem and moved != expected:
        problem = (
            f"{len(expected - moved)} did not move, {len(moved - expected)} moved without need"
        )
    latencies = context.observer.latencies_ms
    latency = median(latencies) if latencies else None
    return SceneResult(scene.title, len(expected), len(moved & expected), remark, latency, problem)


async def a_node_is_tainted(context: SceneContext) -> tuple[set[str], str, str]:
    """Pods that do not tolerate the taint leave, the others stay."""
    cluster = context.cluster
    movers = {uid for uid, app in (await cluster.pods_on(["node-1"])).items() if app != "agent"}
    stayers = set(await cluster.pods_on(["node-1"], "agent"))
    await cluster.taint("node-1", "gpu")
    problem = await _wait_for_evictions(context, movers)
    if not stayers or stayers - set(await cluster.pods_on(["node-1"])):
        problem = "a tolerant pod left"
    return movers, f"{len(stayers)} tolerant stayed", problem


async def a_label_goes(context: SceneContext) -> tuple[set[str], str, str]:
    """Pods that require the label leave for the node that still has it."""
    cluster = context.cluster
    movers = set(await cluster.pods_on(["node-2"], "db"))
    await cluster.unlabel("node-2", "disk")
    problem = await _wait_for_evictions(context, movers)
    return movers, f"db now on {', '.join(sorted(await cluster.nodes_of('db')))}", problem


async def a_node_joins(context: SceneContext) -> tuple[set[str], str, str]:
    """Pods that fit nowhere are left running until a node comes that takes them."""
    cluster, observer = context.cluster, context.observer
    movers = set(await cluster.pods_on(["node-3"], "db"))
    await cluster.unlabel("node-3", "disk")
    problem = await _wait_until_true(lambda: len(observer.refused) >= len(movers))
    if problem or movers & set(observer.evicted):
        return movers, "", problem or "a pod was evicted with nowhere to go"
    blocked = len(observer.refused)
    await cluster.add_node("node-7", SSD)
    problem = await _wait_for_evictions(context, movers)
    if await cluster.nodes_of("db") != {"node-7"}:
        problem = "a db pod is not on the new node"
    return movers, f"{blocked} blocked until node-7 came", problem


async def a_taint_flaps(context: SceneContext) -> tuple[set[str], str, str]:
    """A taint that comes and goes 200 times costs a handful of evaluations and evicts no pod."""
    cluster = context.cluster
    pods = len(await cluster.pods_on(["node-4"]))
    evaluations = context.controller.evaluator.evaluations
    for _ in range(FLAPS // 2):
        await cluster.taint("node-4", "flapping")
        await cluster.taint("node-4")
    await anyio.sleep(1.0)
    evaluations = context.controller.evaluator.evaluations - evaluations
    problem = "" if 0 < evaluations <= 4 * pods else f"{evaluations} looks for {FLAPS} flaps"
    return set(), f"{FLAPS} changes, {pods} pods, looked at {evaluations} x", problem


async def a_pdb_blocks(context: SceneContext) -> tuple[set[str], str, str]:
    """A disruption budget of zero keeps pods where they are; when it frees, they go one by one."""
    cluster, observer = context.cluster, context.observer
    await cluster.create_pdb("bank", "ledger")
    await anyio.sleep(0.5)
    movers = {uid for uid, app in (await cluster.pods_on(["node-5"])).items() if app != "agent"}
    protected = set(await cluster.pods_on(["node-5"], "ledger"))
    await cluster.taint("node-5", "repair")
    problem = await _wait_until_true(lambda: len(observer.refused) >= len(protected))
    await anyio.sleep(1.0)
    if problem or protected & set(observer.evicted):
        return movers, "", problem or "the budget was not obeyed"
    await cluster.relax_pdb("bank", "ledger")
    problem = await _wait_for_evictions(context, movers)
    return movers, f"{len(protected)} waited for the budget", problem


async def a_storm(context: SceneContext) -> tuple[set[str], str, str]:
    """Half the cluster is tainted at once; the token bucket lets evictions go a few at a time."""
    cluster = context.cluster
    for name in ("node-1", "node-5"):
        await cluster.taint(name)
    struck = ["node-2", "node-3", "node-4"]
    movers = {uid for uid, app in (await cluster.pods_on(struck)).items() if app != "agent"}
    for name in struck:
        await cluster.taint(name, "storm")
    started = anyio.current_time()
    problem = await _wait_for_evictions(context, movers)
    took_s = anyio.current_time() - started
    if not context.observer.deferred:
        problem = "no eviction of the storm was deferred"
    return movers, f"{context.observer.deferred} deferred, over in {took_s:.1f} s", problem


async def a_storm_is_braked(context: SceneContext) -> tuple[set[str], str, str]:
    """Nearly every pod is found at once: the brake stops it until a person lets it go on."""
    cluster, observer = context.cluster, context.observer
    for name in ("node-2", "node-3", "node-4"):
        await cluster.taint(name)
    struck = ["node-1", "node-5", "node-6", "node-7"]
    movers = {
        uid for uid, app in (await cluster.pods_on(struck)).items() if app in ("web", "worker")
    }
    for name in struck:
        await cluster.taint(name, "mistake")
    problem = await _wait_until_true(
        lambda: bool(context.controller.pauses.brake_messages()[STORM])
    )
    await anyio.sleep(1.0)
    before = movers & set(observer.evicted)
    await anyio.sleep(1.0)
    if problem or movers & set(observer.evicted) != before or before == movers:
        return movers, "", problem or "the brake did not hold"
    pending = await run_cli("pending", "--server", context.url, "--reason", "FindingStorm")
    server = f"--server {context.url}"
    observer.print_line("$", "bold", f"reactive-desched pending {server} --reason FindingStorm")
    for line in pending.splitlines()[:PENDING_SHOWN]:
        observer.print_line("", "", line)
    order = f'reactive-desched resume {server} --reason "it was no mistake"'
    observer.print_line("$", "bold", order)
    await run_cli("resume", "--server", context.url, "--reason", "it was no mistake")
    problem = await _wait_for_evictions(context, movers)
    return movers, f"{len(movers - before)} held until resume", problem


SCENES = (
    Scene(
        "A node is tainted",
        "node-1 gets a NoSchedule taint: pods that do not tolerate it leave, the agent stays.",
        a_node_is_tainted,
    ),
    Scene(
        "A node loses a label that pods require",
        "node-2 loses disk=ssd, which db requires: its pods leave for the other ssd node.",
        a_label_goes,
    ),
    Scene(
        "Nowhere to go, then a node joins",
        "node-3 loses disk=ssd too: db stays, blocked, until an ssd node joins.",
        a_node_joins,
    ),
    Scene(
        "A taint flaps 200 times",
        "A taint comes and goes on node-4: one evaluation after it is quiet, no pod is evicted.",
        a_taint_flaps,
    ),
    Scene(
        "A disruption budget blocks, then frees",
        "The budget over ledger allows nothing while node-5 is tainted; then one pod at a time.",
        a_pdb_blocks,
    ),
    Scene(
        "A storm meets the token bucket",
        "Half the cluster is tainted at once: six pods go, the others wait for their tokens.",
        a_storm,
    ),
    Scene(
        "A storm is stopped, and goes on when a person says so",
        "Every other node is tainted: far more than a change should concern. The brake holds.",
        a_storm_is_braked,
    ),
)


async def _wait_for_evictions(stage: SceneContext, movers: set[str]) -> str:
    """Wait until all movers were evicted and the cluster is calm again."""
    gone = await _wait_until_true(lambda: movers <= set(stage.observer.evicted))
    return gone or await wait_until(stage.cluster.is_stable)


async def _wait_until_true(condition: Callable[[], bool]) -> str:
    async def asked() -> bool:
        return condition()

    return await wait_until(asked)


async def wait_until(condition: Callable[[], Awaitable[bool]]) -> str:
    """Return the empty text once the condition holds, or what to say when it never did."""
    with anyio.move_on_after(WAIT_TIMEOUT_S):
        while not await condition():  # noqa: ASYNC110 -- the cluster has no event for calm
            await anyio.sleep(0.05)
        return ""
    return f"waited {WAIT_TIMEOUT_S:g} s in vain"
