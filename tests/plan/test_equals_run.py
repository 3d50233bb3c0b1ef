"""What `plan --as run` says is what the controller does, when it does it, on a still cluster.

The whole controller runs on the simulator on virtual time, its journal included. Pods there take
as long to end and to start as the preview assumes.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch

import anyio
import pytest
from trio.testing import MockClock

from reactive_desched.controller import worker
from reactive_desched.plan.command import build_report
from reactive_desched.plan.controller_run import TIMER_DELAY_S
from reactive_desched.plan.inputs import PlanOptions
from reactive_desched.plan.mode import PlanMode, RunBounds
from reactive_desched.plan.progress import Progress
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.load import load_files
from reactive_desched.sim.profiles import Pace
from reactive_desched.text.times import format_timestamp
from tests.safety.world import World
from tests.support.previewed import draw_objects, draw_policy, draw_taints, write_cluster
from tests.support.trio_order import task_order

READY_S = 3.3
"""No sum of the kube-scheduler's back-offs: a pod's end and its replacement's turn never meet."""

BEGIN_S = 0.37
"""Timestamps are whole seconds: waits that begin with the controller end between those of pods."""

HORIZON_S = 900.0
TOLERANCE_S = 0.5
"""Requests, the journal and the watch take milliseconds in the simulator, and debounce adds up."""

SAME_MOMENT_S = 0.1

SEEDS = [*range(12), 57, 249, 342, 572, 873, 1390]
"""In 57 and 873 pods that fit nowhere back off; in 249 and 342 findings come due in one
millisecond; in 572 others take the room before a StatefulSet's replacement is created.

In 1390 a pod that fits nowhere is tried again after five minutes.

In 199 and 260 what comes due in one millisecond is decided by rounding.
"""
UNEVEN = (
    "zone: {evictions: 19, per: 1m, burst: 7}, node: {evictions: 7, per: 1m, burst: 3}, "
    "namespace: {evictions: 13, per: 1m, burst: 5}, owner: {evictions: 5, per: 1m, burst: 2}"
)
"""No two of these have their next token at the same time: milliseconds would decide there."""

COOLDOWN = "moves: {cooldown: 290s}\n"
"""It is 5m by default, as `budgets.window`: milliseconds would decide which ends first."""

BUDGETS = (
    f"budgets: {{{UNEVEN}}}\n{COOLDOWN}",
    f"budgets: {{cluster: {{evictions: 6, per: 1m, burst: 2}}, {UNEVEN}}}\n{COOLDOWN}",
    f"budgets: {{cluster: {{evictions: 2, per: 5m, burst: 1}}, {UNEVEN}}}\n{COOLDOWN}",
    f"budgets: {{warmUp: null, {UNEVEN}}}\nguards: {{minPodAge: 0s}}\nmoves: {{cooldown: 1m}}\n",
    # Here it is the time since a replacement became Ready.
    (
        f"budgets: {{warmUp: null, {UNEVEN}}}\nguards: {{minReadyTime: 100s}}\n"
        "moves: {cooldown: 0s, futileBackoff: 0s}\n"
    ),
    # Here PodDisruptionBudgets are what holds evictions back.
    (
        "budgets: {warmUp: null, owner: null, namespace: null, node: null}\n"
        "moves: {maxMoving: {owner: 100%}, cooldown: 290s}\n"
    ),
)

NO_RATES = dict.fromkeys(("cluster", "zone", "node", "namespace", "owner", "plugin"), "null")


def alone(rates: dict[str, str], moving: dict[str, str]) -> str:
    """Write settings in which nothing but these limits paces evictions."""
    budgets = ", ".join(f"{key}: {value}" for key, value in {**NO_RATES, **rates}.items())
    at_once = ", ".join(f"{key}: {value}" for key, value in {"owner": "100%", **moving}.items())
    return (
        f"budgets: {{warmUp: null, {budgets}}}\n"
        f"moves: {{maxMoving: {{{at_once}}}, cooldown: 290s}}\n"
    )


ALONE = {
    "the rate of a plugin": (0, alone({"plugin": "{evictions: 2, per: 1m, burst: 1}"}, {})),
    "moves of an owner": (0, alone({}, {"owner": "1"})),
    "moves in a namespace": (0, alone({}, {"namespace": "1"})),
    "moves on a node": (0, alone({}, {"node": "1"})),
    "moves in the cluster": (0, alone({}, {"cluster": "1"})),
    "workloads of a single replica": (5, alone({}, {})),
}
"""The seed of a cluster, and settings: a preview without that limit or guard shows something else.

In other drawn clusters a stricter limit hides these.
"""

ONE_BY_ONE = "evictions: {maxInFlight: 1}\n"
"""Else requests of one moment overtake each other, and chance says whose turn is next."""


class Eviction(NamedTuple):
    """When, of which pod (replacements have names of their own), and from which node."""

    at_s: float
    pod: str
    node: str


class Compared(NamedTuple):
    """What was planned, and what was done."""

    planned: list[Eviction]
    done: list[Eviction]


class LateTimers:
    """Timers that ring a little late, as they do but on a virtual clock: rounding decides nothing.

    It is anyio for the worker.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(anyio, name)

    def move_on_after(self, delay: float) -> anyio.CancelScope:
        """Cancel the block late."""
        return anyio.move_on_after(delay + TIMER_DELAY_S)


def compare(seed: int, folder: Path, limits: str = "") -> Compared:
    """Preview a drawn cluster, and run the controller on it, under `limits` or drawn ones."""
    rng = Random(seed)
    policy = folder / "policy.yaml"
    by_age = rng.random() < 0.4
    drawn = rng.choice(BUDGETS)
    text = draw_policy(rng, (limits or drawn) + ONE_BY_ONE, by_age=by_age)
    policy.write_text(text, encoding="utf-8")
    configuration = load_files([policy], plugin_registry())
    task_order().seed(seed)
    begun: list[tuple[float, float]] = []
    names: set[str] = set()

    async def run() -> World:
        (folder / "journal").mkdir()
        await anyio.sleep(BEGIN_S)
        pace = Pace(start_s=READY_S, ready_s=0.0, shutdown_s=READY_S)
        world = World(folder / "journal", configuration, rng, pace)

        def prepare() -> None:
            # A replacement that is evicted again must have had one place to go, and there was room:
            # two nodes, of which one is tainted. Else chance decides, and with it all that follows.
            if by_age:
                draw_objects(world.store, rng, nodes=2, few_pods="12")
            else:
                draw_objects(world.store, rng)

        async def story() -> None:
            begun.append((anyio.current_time(), world.wall_now()))
            draw_taints(world.store, rng)
            world.cluster.settle()
            names.update(o["metadata"]["name"] for o in world.store.list("pods"))
            write_cluster(world.store, folder / "cluster.json")
            await anyio.sleep(HORIZON_S)

        await world.live(prepare, story)
        return world

    options = {"clock": MockClock(autojump_threshold=0)}
    with patch.object(worker, "anyio", LateTimers()):
        world = anyio.run(run, backend="trio", backend_options=options)
    (began_at, wall), *_ = begun
    done = [
        Eviction(each.at - began_at, each.name if each.name in names else "(new)", each.node)
        for each in world.referee.evictions
    ]
    report = build_report(
        PlanOptions(
            policy=str(policy),
            mode=PlanMode.RUN,
            files=(str(folder / "cluster.json"),),
            now=format_timestamp(datetime.fromtimestamp(wall, UTC)),
            bounds=RunBounds(HORIZON_S, 1000, READY_S),
        ),
        Progress(),
    )
    planned = [
        Eviction(
            each.in_seconds or 0.0, each.pod.name if each.pod.name in names else "(new)", each.node
        )
        for each in report.decisions
        if each.action == "Evict"
    ]
    return Compared(in_order(planned), in_order(done))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_controller_evicts_what_the_preview_says_and_when(tmp_path: Path, seed: int) -> None:
    planned, done = compare(seed, tmp_path)

    assert [(each.pod, each.node) for each in planned] == [(each.pod, each.node) for each in done]
    late = [
        (plan, fact)
        for plan, fact in zip(planned, done, strict=True)
        if abs(plan.at_s - fact.at_s) > TOLERANCE_S
    ]
    assert late == []


@pytest.mark.parametrize("what", ALONE)
def test_what_alone_paces_evictions_does_so_in_the_preview_too(tmp_path: Path, what: str) -> None:
    planned, done = compare(ALONE[what][0], tmp_path, ALONE[what][1])

    assert [(each.pod, each.node) for each in planned] == [(each.pod, each.node) for each in done]
    assert [each.at_s for each in planned] == pytest.approx(
        [each.at_s for each in done], abs=TOLERANCE_S
    )
    assert len(planned) > 1


def test_a_replacement_waits_for_the_room_that_a_leaving_pod_makes(world: Any) -> None:
    small, full = world.node("n1", "gpu"), world.node("n2")
    full["status"]["allocatable"]["pods"] = "1"
    policy = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: all
  pluginConfig:
  - name: PodLifeTime
    args: {maxPodLifeTimeSeconds: 3600, namespaces: {include: [old]}}
  plugins:
    deschedule: {enabled: [RemovePodsViolatingNodeTaints, PodLifeTime]}
---
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
moves: {readyTimeout: 7m}
"""
    pods = (world.pod("first"), world.pod("second", on="n2", space="old"))
    pods[1]["metadata"]["creationTimestamp"] = "2026-05-01T01:00:00Z"
    cluster = world.file(world.listed([small, full, *pods]))

    report = world.look(cluster, policy=policy, mode=PlanMode.RUN)

    went = {each.pod.name: each.replacement_node for each in report.decisions}
    assert went == {"first": "n2", "second": None}


def in_order(evictions: Iterable[Eviction]) -> list[Eviction]:
    """Sort by time, and by name those of one moment, whose requests overtake each other."""
    ended_s = HORIZON_S - TOLERANCE_S
    moments: list[list[Eviction]] = []
    for each in sorted(evictions):
        if moments and each.at_s - moments[-1][-1].at_s < SAME_MOMENT_S:
            moments[-1].append(each)
        elif each.at_s < ended_s:
            moments.append([each])
    return [each for moment in moments for each in sorted(moment, key=lambda e: (e.pod, e.node))]
