"""A set of moves may have several pods of a StatefulSet: they leave one by one, the highest first.

No pod of a set waits for another one of it before the set has begun: neither would ever leave.
"""

from typing import Any

import pytest

from reactive_desched.plugins.consolidate_nodes import (
    ConsolidateNodesArgs,
    ConsolidateNodesPlugin,
)
from reactive_desched.plugins.custom_priority import CustomPriorityArgs, CustomPriorityPlugin
from reactive_desched.plugins.keep_nodes_free import KeepNodesFreeArgs, KeepNodesFreePlugin
from reactive_desched.plugins.make_room_for_pending import (
    MakeRoomForPendingArgs,
    MakeRoomForPendingPlugin,
)
from reactive_desched.policy.settings.guards import GuardSettings
from reactive_desched.policy.settings.moves import MoveSettings
from reactive_desched.testing.scenario import plugin_from_policy
from tests.support.descheduled import DescheduledCluster
from tests.support.nominating import NominatingCluster
from tests.support.sim_world import HOSTNAME, SimulatedCluster
from tests.support.tainting import TaintedCluster


def consolidating() -> ConsolidateNodesPlugin:
    return plugin_from_policy(ConsolidateNodesPlugin, ConsolidateNodesArgs, minNodes=[])


def by_levels() -> CustomPriorityPlugin:
    among = {"key": HOSTNAME, "operator": "In", "values": ["n1", "n2"]}
    dear = {"name": "dear", "nodeSelector": {"matchLabels": {HOSTNAME: "n3"}}}
    cheap = {"name": "cheap", "nodeSelector": {"matchExpressions": [among]}}
    given: dict[str, Any] = {"mode": "DrainNode", "autoCordon": True}
    return plugin_from_policy(
        CustomPriorityPlugin, CustomPriorityArgs, evictionOrder=[dear, cheap], **given
    )


def keeping() -> KeepNodesFreePlugin:
    return plugin_from_policy(KeepNodesFreePlugin, KeepNodesFreeArgs, nodes=2)


def served(policy: str) -> SimulatedCluster:
    """Return three nodes with two pods of a StatefulSet on each."""
    world = SimulatedCluster().nodes("n1", "n2", "n3")
    world.stateful_set("db", 6, {"podManagementPolicy": policy}, cpu="250m")
    world.advance(60)
    assert sorted(world.nodes_of_pods("db").values()) == ["n1", "n1", "n2", "n2", "n3", "n3"]
    return world


def guarded(world: SimulatedCluster, plugin: Any) -> DescheduledCluster:
    return DescheduledCluster(
        world, plugin, guards=GuardSettings(), moves=MoveSettings(), nodeFit=True
    )


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
@pytest.mark.parametrize(
    ("plugin", "empty"), [(consolidating, 2), (by_levels, 1), (keeping, 2)], ids=lambda each: ""
)
def test_nodes_with_two_pods_of_a_stateful_set_are_emptied(
    plugin: Any, empty: int, policy: str
) -> None:
    world = served(policy)
    cluster = guarded(world, plugin())
    TaintedCluster(cluster).run(1800)

    assert len(set(world.nodes_of_pods("db").values())) == 3 - empty
    assert len(cluster.evicted) <= 3 * empty, "a replacement may come to a node that is next"
    if plugin is not by_levels:  # koordinator's has an order of its own
        first, second, *_ = cluster.evicted
        assert first > second, "the higher ordinal of a node leaves first"
    assert len(cluster.evaluations) < 100


def test_room_is_made_by_two_pods_of_a_stateful_set() -> None:
    world = SimulatedCluster().nodes("n1", "n2")
    world.edit("nodes", "n2", unschedulable=True)
    world.stateful_set("db", 2, cpu="1")
    world.advance(60)
    world.edit("nodes", "n2", unschedulable=False)
    for name in ("a", "b"):
        world.deployment(name, 1, cpu="1", nodeSelector={HOSTNAME: "n2"})
    world.deployment("big", 1, cpu="4", nodeSelector={HOSTNAME: "n1"})
    world.advance(30)
    plugin = plugin_from_policy(MakeRoomForPendingPlugin, MakeRoomForPendingArgs, wait="10s")
    cluster = guarded(world, plugin)
    NominatingCluster(cluster).run(900)

    assert list(world.nodes_of_pods("big").values()) == ["n1"]
    assert len(cluster.evicted) <= 3
    assert len(cluster.evaluations) < 100
