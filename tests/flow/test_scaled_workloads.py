"""A workload that was scaled a moment ago is not evened out: its size may change again."""

from collections.abc import Sequence
from typing import Any

import pytest

from reactive_desched.plugins.topology_spread import TopologySpreadArgs, TopologySpreadPlugin
from reactive_desched.policy.settings.guards import GuardName, GuardSettings
from reactive_desched.testing.scenario import plugin_from_policy
from tests.support.descheduled import DescheduledCluster
from tests.support.sim_world import ZONE, SimulatedCluster, workload

OTHERS = tuple(name for name in GuardName if name is not GuardName.STANDING_TIME)
ANYWAY = {
    "maxSkew": 1,
    "topologyKey": ZONE,
    "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {"matchLabels": {"app": "web"}},
}


ROLLOUT = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Rollout",
    "name": "web",
    "uid": "uid-of-rollout",
    "controller": True,
}


def make_web(world: SimulatedCluster, replicas: int, owners: Sequence[Any] | None) -> None:
    """Make a Deployment, or a ReplicaSet with these owners."""
    spec = workload("web", replicas, cpu="100m", topologySpreadConstraints=[ANYWAY])
    if owners is None:
        world.create("deployments", "web", spec)
    else:
        world.create("replicasets", "web", spec, ownerReferences=list(owners))


def spread_unevenly(
    replicas: int, owners: Sequence[Any] | None = None
) -> tuple[SimulatedCluster, DescheduledCluster]:
    """Return a cluster whose second zone opened long ago, when all pods had places elsewhere."""
    world = SimulatedCluster().nodes("n1/a", "n2/b")
    world.edit("nodes", "n2", unschedulable=True)
    make_web(world, replicas, owners)
    world.advance(60)
    plugin = plugin_from_policy(
        TopologySpreadPlugin, TopologySpreadArgs, constraints=["ScheduleAnyway"]
    )
    cluster = DescheduledCluster(world, plugin, guards=GuardSettings(disabled=OTHERS), nodeFit=True)
    cluster.run(300)
    return world, cluster


def scale(world: SimulatedCluster, *sizes: int, cluster: DescheduledCluster, every_s: float) -> Any:
    """Scale to each of these sizes in turn; return when the last one came."""
    scaled_at = world.clock.now()
    for size in sizes:
        scaled_at = world.clock.now()
        world.edit("deployments", "web", replicas=size)
        cluster.run(every_s)
    return scaled_at


@pytest.mark.parametrize(
    ("sizes", "waits_s"),
    [
        pytest.param((), 60, id="its size is old"),
        pytest.param((9, 8), 120, id="it was scaled twice"),
        pytest.param((9, 10, 8), 180, id="it swings"),
    ],
)
def test_each_time_that_a_workload_was_scaled_lately_it_is_left_alone_for_a_minute_longer(
    sizes: tuple[int, ...], waits_s: float
) -> None:
    world, cluster = spread_unevenly(8)
    scaled_at = scale(world, *sizes, cluster=cluster, every_s=30)
    world.edit("nodes", "n2", unschedulable=False)

    cluster.run(600)

    assert cluster.pods_by_node("web") == {"n1": 4, "n2": 4}
    assert waits_s <= cluster.evicted_at_s[0] - scaled_at <= waits_s + 30


@pytest.mark.parametrize("owners", [[], [ROLLOUT]], ids=["none", "a Rollout"])
def test_so_is_a_replica_set_that_no_deployment_controls(owners: list[Any]) -> None:
    world, cluster = spread_unevenly(8, owners)
    world.edit("replicasets", "web", replicas=9)
    cluster.run(30)
    scaled_at = world.clock.now()
    world.edit("replicasets", "web", replicas=8)
    cluster.run(30)
    world.edit("nodes", "n2", unschedulable=False)

    cluster.run(600)

    assert cluster.pods_by_node("web") == {"n1": 4, "n2": 4}
    assert 120 <= cluster.evicted_at_s[0] - scaled_at <= 150


def test_a_workload_whose_size_changes_every_two_minutes_is_left_alone() -> None:
    world, cluster = spread_unevenly(8)
    scale(world, 9, 8, 9, 8, cluster=cluster, every_s=120)
    world.edit("nodes", "n2", unschedulable=False)

    scale(world, *(9, 8) * 10, cluster=cluster, every_s=120)

    assert cluster.evicted == []
