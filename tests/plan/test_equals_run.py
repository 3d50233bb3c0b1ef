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
import trio
from trio.testing import MockClock

from reactive_desched.controller import worker
from reactive_desched.plan.command import PlanOptions, build_report
from reactive_desched.plan.controller_run import TIMER_DELAY_S
from reactive_desched.plan.mode import PlanMode, RunBounds
from reactive_desched.plan.progress import Progress
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.load import load_files
from reactive_desched.primitives.moments import format_moment
from reactive_desched.sim.profiles import Pace
from tests.safety.world import World
from tests.support.previewed import draw_objects, draw_policy, draw_taints, write_cluster

READY_S = 3.0
HORIZON_S = 900.0
TOLERANCE_S = 0.5
"""Requests, the journal and the watch take milliseconds in the simulator, and debounce adds up."""

SAME_MOMENT_S = 0.1

SEEDS = range(16)
BUDGETS = (
    "",
    "budgets: {cluster: {evictions: 6, per: 1m, burst: 2}}\n",
    "budgets: {cluster: {evictions: 2, per: 5m, burst: 1}}\n",
    "budgets: {warmUp: null}\nguards: {minPodAge: 0s}\nmoves: {cooldown: 1m}\n",
)


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


def compare(seed: int, folder: Path) -> Compared:
    """Preview a drawn cluster, and run the controller on it."""
    rng = Random(seed)
    policy = folder / "policy.yaml"
    policy.write_text(draw_policy(rng, rng.choice(BUDGETS) + ONE_BY_ONE), encoding="utf-8")
    configuration = load_files([policy], plugin_registry())
    trio._core._run._r.seed(seed)
    begun: list[tuple[float, float]] = []
    names: set[str] = set()

    async def run() -> World:
        (folder / "journal").mkdir()
        pace = Pace(start_s=READY_S, ready_s=0.0, shutdown_s=READY_S)
        world = World(folder / "journal", configuration, rng, pace)

        def prepare() -> None:
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
            now=format_moment(datetime.fromtimestamp(wall, UTC)),
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
