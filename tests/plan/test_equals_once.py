"""On a still cluster `run --once --dry-run` and `plan --as once` say what `run --once` does."""

from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest

from reactive_desched.app.run_once import OneShotRun
from reactive_desched.eviction.client import EvictionClient
from reactive_desched.eviction.dry_run import StillClusterEvictor
from reactive_desched.eviction.executor import (
    EvictionExecutor,
)
from reactive_desched.model.outcomes import EVICTED
from reactive_desched.plan.command import build_report
from reactive_desched.plan.file_snapshot import read_files
from reactive_desched.plan.inputs import PlanOptions
from reactive_desched.plan.mode import PlanMode
from reactive_desched.plan.progress import Progress
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.load import load_files
from reactive_desched.state.cluster import ClusterView
from reactive_desched.telemetry.sig_compat import UpstreamMetrics
from tests.support.flow import MemoryIntentStore, RecordingObserver
from tests.support.previewed import SimulatedEndpoint, draw_cluster, draw_policy, write_cluster
from tests.support.sim_world import START_S, SimulatedCluster

LEAVES = {"dry_run": EVICTED}
SEEDS = range(24)


class Silent:
    """Takes log lines and forgets them."""

    def debug(self, event: str, **_: Any) -> None: ...

    info = warning = debug


def sweep(cluster: str, policy: Path, evictor: EvictionClient | None) -> list[tuple[str, str]]:
    """Sweep once as `run --once` does, dry without an evictor; return the outcomes in order."""
    configuration = load_files([policy], plugin_registry())
    state = read_files([cluster], Progress()).build_state(configuration.policy.node_selector)
    view = ClusterView(state, lambda: START_S)
    ledger, diary = MemoryIntentStore(), RecordingObserver()
    evictor = evictor or StillClusterEvictor(state, view)
    one_shot = OneShotRun(
        configuration.policy,
        EvictionExecutor(ledger, evictor, lambda: 0.0),
        ledger,
        diary,
        lambda: None,
        anyio.lowlevel.checkpoint,
        UpstreamMetrics(),
        configuration.settings.node_fit,
    )
    anyio.run(one_shot.run, state, view, Silent())
    return [(pod, LEAVES.get(result, result)) for pod, result in diary.outcomes]


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_dry_run_and_a_plan_say_is_what_a_sweep_does(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    policy = tmp_path / "policy.yaml"
    policy.write_text(draw_policy(rng), encoding="utf-8")
    world = SimulatedCluster()
    draw_cluster(world, rng)
    cluster = write_cluster(world.store, tmp_path / "cluster.json")

    dry = sweep(cluster, policy, None)
    options = PlanOptions(
        policy=str(policy), mode=PlanMode.ONCE, files=(cluster,), now="2027-01-15T08:00:00Z"
    )
    planned = build_report(options, Progress()).decisions
    done = sweep(cluster, policy, SimulatedEndpoint(world))

    assert dry == done
    assert [d.pod.name for d in planned if d.action == "Evict"] == [
        pod for pod, result in done if result == EVICTED
    ]


def test_the_clusters_that_are_drawn_have_evictions_and_refusals_of_each_kind(
    tmp_path: Path,
) -> None:
    found = set()
    for seed in SEEDS:
        rng = Random(seed)
        policy = tmp_path / "policy.yaml"
        policy.write_text(draw_policy(rng), encoding="utf-8")
        world = SimulatedCluster()
        draw_cluster(world, rng)
        cluster = write_cluster(world.store, tmp_path / "cluster.json")
        found |= {result for _, result in sweep(cluster, policy, None)}

    assert found == {"evicted", "pdb_refused", "failed"}
