"""Ten hours of clusters in which no move can help: evictions are few, and become fewer."""

from typing import Any

import pytest

from reactive_desched.plugins.node_affinity import NodeAffinityArgs, NodeAffinityPlugin
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.plugins.topology_spread import TopologySpreadArgs, TopologySpreadPlugin
from reactive_desched.policy.policy import AnyPlugin
from reactive_desched.policy.settings.moves import MoveSettings
from reactive_desched.testing.scenario import plugin_from_policy
from tests.support.descheduled import DescheduledCluster
from tests.support.moving import Moving, MovingArgs
from tests.support.sim_world import SimulatedCluster

HOUR_S = 3600.0
SOFT = {"key": "gpu", "effect": "PreferNoSchedule"}


def soft_taints() -> AnyPlugin:
    return plugin_from_policy(NodeTaintsPlugin, NodeTaintsArgs, includePreferNoSchedule=True)


def evictions_by_hour(cluster: DescheduledCluster, hours: int = 10) -> list[int]:
    """Run, and return how many evictions each hour had."""
    counts = []
    for _ in range(hours):
        before = len(cluster.evicted)
        cluster.run(HOUR_S)
        counts.append(len(cluster.evicted) - before)
    return counts


def bounded_and_falling(by_hour: list[int], *, first: int, later: int) -> None:
    """Check that the first hour has few evictions, and each half of the rest fewer than before."""
    assert 1 <= by_hour[0] <= first, by_hour
    assert sum(by_hour[1:]) <= later, by_hour
    assert sum(by_hour[5:]) <= sum(by_hour[1:5]), by_hour


def put_back() -> SimulatedCluster:
    """Return a cluster whose scheduler puts each replacement where its pod was."""
    world = SimulatedCluster().nodes("n1", "n2")
    world.deployment("web", 4, cpu="500m", nodeSelector={"kubernetes.io/hostname": "n1"})
    return world.advance(30)


def away() -> Moving:
    return Moving(MovingArgs(sources=("n1",), targets=frozenset({"n2"})))


def test_a_soft_taint_on_every_node_moves_no_pod_until_a_node_has_none() -> None:
    world = SimulatedCluster().nodes("n1", "n2", "n3", "n4", taints=[SOFT])
    for app in ("web", "cart", "queue"):
        world.deployment(app, 6)
    cluster = DescheduledCluster(world.advance(30), soft_taints(), moves=MoveSettings())

    assert sum(evictions_by_hour(cluster)) == 0

    world.edit("nodes", "n4", taints=[])
    assert 1 <= evictions_by_hour(cluster, 1)[0] <= 18
    assert sum(evictions_by_hour(cluster)) == 0


def test_a_wish_that_only_a_full_node_can_meet_is_given_up() -> None:
    world = SimulatedCluster().nodes("n1", labels={"disk": "ssd"}).nodes("n2", "n3")
    world.pod("filler", cpu="3400m", nodeName="n1")
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    wish = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]}
    world.deployment("web", 4, cpu="500m", affinity={"nodeAffinity": wish})
    kind = "preferredDuringSchedulingIgnoredDuringExecution"
    plugin = plugin_from_policy(NodeAffinityPlugin, NodeAffinityArgs, nodeAffinityType=[kind])
    cluster = DescheduledCluster(world.advance(30), plugin, moves=MoveSettings())

    assert sum(evictions_by_hour(cluster)) <= 3


def test_a_spread_that_taints_forbid_is_given_up() -> None:
    world = SimulatedCluster().nodes("n1/a", "n2/b").nodes("n3/c", taints=[hard()])
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    world.deployment("web", 6, cpu="100m", topologySpreadConstraints=[spread])
    plugin = plugin_from_policy(
        TopologySpreadPlugin,
        TopologySpreadArgs,
        constraints=["DoNotSchedule", "ScheduleAnyway"],
        topologyBalanceNodeFit=False,
    )
    cluster = DescheduledCluster(world.advance(30), plugin, moves=MoveSettings())

    bounded_and_falling(evictions_by_hour(cluster), first=8, later=2)


def hard() -> dict[str, str]:
    return {"key": "only", "effect": "NoSchedule"}


def test_two_plugins_that_disagree_slow_each_other_down() -> None:
    """One empties n1, the other n2, and there are no other nodes."""
    world = SimulatedCluster().nodes("n1", "n2")
    world.deployment("web", 4, cpu="500m")
    east = Moving(MovingArgs(sources=("n1",), targets=frozenset({"n2"})))
    west = West(MovingArgs(sources=("n2",), targets=frozenset({"n1"})))
    cluster = DescheduledCluster(world.advance(30), east, west, moves=MoveSettings())

    by_hour = evictions_by_hour(cluster)
    bounded_and_falling(by_hour, first=12, later=24)


class West(Moving):
    name = "West"


def test_a_scheduler_that_puts_everything_back_is_left_alone() -> None:
    cluster = DescheduledCluster(put_back(), away(), moves=MoveSettings())

    bounded_and_falling(evictions_by_hour(cluster), first=3, later=0)


def test_a_workload_that_finds_no_room_elsewhere_is_given_up() -> None:
    world = SimulatedCluster().nodes("n1", "n2")
    world.pod("filler", cpu="4", nodeName="n2")
    world.deployment("web", 8, cpu="400m")
    world.advance(30).edit("nodes", "n1", taints=[hard()])
    plugin = plugin_from_policy(NodeTaintsPlugin, NodeTaintsArgs)
    cluster = DescheduledCluster(world, plugin, moves=MoveSettings())

    bounded_and_falling(evictions_by_hour(cluster), first=3, later=0)
    assert {ended.end.result for ended in cluster.ended} == {"unscheduled"}


def test_without_memory_each_of_these_continues_for_ever() -> None:
    """The tests above would not fail for want of pods: this is the same loop, unhindered."""
    none: Any = MoveSettings(cooldown_s=0, node_cooldown_s=0, futile_backoff_s=0)
    cluster = DescheduledCluster(put_back(), away(), moves=none)

    assert len(cluster.run(600).evicted) > 50


@pytest.mark.parametrize("futile_after", [1, 5])
def test_the_number_of_trials_can_be_set(futile_after: int) -> None:
    settings = MoveSettings(futile_after=futile_after, futile_backoff_s=10)
    cluster = DescheduledCluster(put_back(), away(), moves=settings)

    assert sum(evictions_by_hour(cluster, 5)) == futile_after
