"""The scenes of the day: each changes the cluster, waits, and checks who moved and who stayed."""

from collections.abc import Awaitable, Callable
from statistics import median

import anyio
from msgspec import Struct

from reactive_desched.controller.controller import Core
from reactive_desched.demo.narrator import Narrator
from reactive_desched.demo.town import SSD, Town

PATIENCE_S = 15.0
"""How long a scene waits for what must come."""

FLAPS = 200


class Stage(Struct, frozen=True):
    """What a scene works with."""

    town: Town
    narrator: Narrator
    core: Core


class Result(Struct, frozen=True):
    """How a scene went; `problem` is empty when what should move did, and nothing else."""

    title: str
    expected: int
    moved: int
    note: str
    latency_ms: float | None
    problem: str


class Scene(Struct, frozen=True):
    """A title, a story, and the play: returns who had to move, a note, and what went wrong."""

    title: str
    story: str
    play: Callable[[Stage], Awaitable[tuple[set[str], str, str]]]


async def perform(scene: Scene, stage: Stage) -> Result:
    """Play one scene from calm to calm and compare who moved with who should have."""
    stage.narrator.begin()
    before = set(stage.narrator.evicted)
    movers, note, problem = await scene.play(stage)
    await until(stage.town.is_calm)
    await anyio.sleep(0.5)
    moved = set(stage.narrator.evicted) - before
    if not problem and moved != movers:
        problem = f"{len(movers - moved)} did not move, {len(moved - movers)} moved without need"
    latencies = stage.narrator.latencies_ms
    latency = median(latencies) if latencies else None
    return Result(scene.title, len(movers), len(moved & movers), note, latency, problem)


async def a_node_is_tainted(stage: Stage) -> tuple[set[str], str, str]:
    """Pods that do not tolerate the taint leave, the others stay."""
    town = stage.town
    movers = {uid for uid, app in (await town.pods_on(["node-1"])).items() if app != "agent"}
    stayers = set(await town.pods_on(["node-1"], "agent"))
    await town.taint("node-1", "gpu")
    problem = await _wait(stage, movers)
    if not stayers or stayers - set(await town.pods_on(["node-1"])):
        problem = "a tolerant pod left"
    return movers, f"{len(stayers)} tolerant stayed", problem


async def a_label_goes(stage: Stage) -> tuple[set[str], str, str]:
    """Pods that require the label leave for the node that still has it."""
    town = stage.town
    movers = set(await town.pods_on(["node-2"], "db"))
    await town.unlabel("node-2", "disk")
    problem = await _wait(stage, movers)
    return movers, f"db now on {', '.join(sorted(await town.nodes_of('db')))}", problem


async def a_node_joins(stage: Stage) -> tuple[set[str], str, str]:
    """Pods that fit nowhere are left running until a node comes that takes them."""
    town, narrator = stage.town, stage.narrator
    movers = set(await town.pods_on(["node-3"], "db"))
    await town.unlabel("node-3", "disk")
    problem = await _until_true(lambda: len(narrator.refused) >= len(movers))
    if problem or movers & set(narrator.evicted):
        return movers, "", problem or "a pod was evicted with nowhere to go"
    parked = len(narrator.refused)
    await town.add_node("node-7", SSD)
    problem = await _wait(stage, movers)
    if await town.nodes_of("db") != {"node-7"}:
        problem = "a db pod is not on the new node"
    return movers, f"{parked} parked until node-7 came", problem


async def a_taint_flaps(stage: Stage) -> tuple[set[str], str, str]:
    """A taint that comes and goes 200 times costs a handful of looks and moves nobody."""
    town = stage.town
    pods = len(await town.pods_on(["node-4"]))
    looks = stage.core.engine.looks
    for _ in range(FLAPS // 2):
        await town.taint("node-4", "flapping")
        await town.taint("node-4")
    await anyio.sleep(1.0)
    looks = stage.core.engine.looks - looks
    problem = "" if 0 < looks <= 4 * pods else f"{looks} looks for {FLAPS} flaps"
    return set(), f"{FLAPS} changes, {pods} pods, looked at {looks} x", problem


async def a_budget_blocks(stage: Stage) -> tuple[set[str], str, str]:
    """A disruption budget of zero keeps pods where they are; when it frees, they go one by one."""
    town, narrator = stage.town, stage.narrator
    await town.protect("bank", "ledger")
    await anyio.sleep(0.5)
    movers = {uid for uid, app in (await town.pods_on(["node-5"])).items() if app != "agent"}
    held = set(await town.pods_on(["node-5"], "ledger"))
    await town.taint("node-5", "repair")
    problem = await _until_true(lambda: len(narrator.refused) >= len(held))
    await anyio.sleep(1.0)
    if problem or held & set(narrator.evicted):
        return movers, "", problem or "the budget was not obeyed"
    await town.relent("bank", "ledger")
    problem = await _wait(stage, movers)
    return movers, f"{len(held)} waited for the budget", problem


async def a_storm(stage: Stage) -> tuple[set[str], str, str]:
    """Half the cluster is tainted at once; the token bucket lets evictions go a few at a time."""
    town = stage.town
    for name in ("node-1", "node-5"):
        await town.taint(name)
    struck = ["node-2", "node-3", "node-4"]
    movers = {uid for uid, app in (await town.pods_on(struck)).items() if app != "agent"}
    for name in struck:
        await town.taint(name, "storm")
    started = anyio.current_time()
    problem = await _wait(stage, movers)
    took_s = anyio.current_time() - started
    if not stage.narrator.deferred:
        problem = "the storm was not held back"
    return movers, f"{stage.narrator.deferred} held back, over in {took_s:.1f} s", problem


SCENES = (
    Scene(
        "A node is tainted",
        "node-1 gets a NoSchedule taint: pods that do not tolerate it leave, the agent stays.",
        a_node_is_tainted,
    ),
    Scene(
        "A label goes, affinity breaks",
        "node-2 loses disk=ssd, which db requires: its pods leave for the other ssd node.",
        a_label_goes,
    ),
    Scene(
        "Nowhere to go, then a node joins",
        "node-3 loses disk=ssd too: db stays, parked, until an ssd node joins.",
        a_node_joins,
    ),
    Scene(
        "A taint flaps 200 times",
        "A taint comes and goes on node-4: one look after the dust has settled, nobody moves.",
        a_taint_flaps,
    ),
    Scene(
        "A disruption budget blocks, then frees",
        "The budget over ledger allows nothing while node-5 is tainted; then one pod at a time.",
        a_budget_blocks,
    ),
    Scene(
        "A storm meets the token bucket",
        "Half the cluster is tainted at once: six pods go, the others wait for their tokens.",
        a_storm,
    ),
)


async def _wait(stage: Stage, movers: set[str]) -> str:
    """Wait until all movers were evicted and the cluster is calm again."""
    gone = await _until_true(lambda: movers <= set(stage.narrator.evicted))
    return gone or await until(stage.town.is_calm)


async def _until_true(holds: Callable[[], bool]) -> str:
    async def asked() -> bool:
        return holds()

    return await until(asked)


async def until(holds: Callable[[], Awaitable[bool]]) -> str:
    """Return the empty text once the condition holds, or what to say when it never did."""
    with anyio.move_on_after(PATIENCE_S):
        while not await holds():  # noqa: ASYNC110 -- the cluster has no event for calm
            await anyio.sleep(0.05)
        return ""
    return f"waited {PATIENCE_S:g} s in vain"
