"""A workload that was scaled a moment ago is not evened out: its size may change again."""

from typing import Any

import pytest

from reactive_desched.plugins.topology_spread import TopologySpreadArgs, TopologySpreadPlugin
from reactive_desched.policy.settings.guards import GuardName, GuardSettings
from reactive_desched.testing.scenario import plugin_from_policy
from tests.support.descheduled import DescheduledCluster
from tests.support.sim_world import ZONE, SimulatedCluster

OTHERS = tuple(name for name in GuardName if name is not GuardName.STANDING_TIME)
ANYWAY = {
    "maxSkew": 1,
    "topologyKey": ZONE,
    "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {"matchLabels": {"app": "web"}},
}


def spread_unevenly(replicas: int) -> tuple[SimulatedCluster, DescheduledCluster]:
    """Return a cluster whose second zone opened long ago, when all pods had places elsewhere."""
    world = SimulatedCluster().nodes("n1/a", "n2/b")
    world.edit("nodes", "n2", unschedulable=True)
    world.deployment("web", replicas, cpu="100m", topologySpreadConstraints=[ANYWAY])
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


def test_a_workload_whose_size_changes_every_two_minutes_is_left_alone() -> None:
    world, cluster = spread_unevenly(8)
    scale(world, 9, 8, 9, 8, cluster=cluster, every_s=120)
    world.edit("nodes", "n2", unschedulable=False)

    scale(world, *(9, 8) * 10, cluster=cluster, every_s=120)

    assert cluster.evicted == []
