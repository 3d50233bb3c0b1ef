"""Replicas stay together where the scheduler would put the next one back by its scores."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from reactive_desched.model.objects import DEFAULT_SCHEDULER
from reactive_desched.model.scheduler_profile import SchedulerProfile, SchedulerProfiles
from reactive_desched.plugins.duplicates import DuplicatesArgs, DuplicatesPlugin
from reactive_desched.plugins.high_node_utilization import (
    HighNodeUtilizationArgs,
    HighNodeUtilizationPlugin,
)
from reactive_desched.plugins.low_node_utilization import (
    LowNodeUtilizationArgs,
    LowNodeUtilizationPlugin,
)
from reactive_desched.plugins.topology_spread import TopologySpreadArgs, TopologySpreadPlugin
from reactive_desched.policy.settings.guards import GuardName, GuardSettings
from reactive_desched.policy.settings.moves import MoveSettings
from reactive_desched.testing.scenario import plugin_from_policy
from tests.support.descheduled import DescheduledCluster
from tests.support.sim_world import SimulatedCluster

SCORED = GuardName.SCORED_ELSEWHERE
OTHERS = tuple(name for name in GuardName if name is not SCORED)
SLOW = ({"key": "slow", "effect": "PreferNoSchedule"},)
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"


def duplicates() -> DuplicatesPlugin:
    return plugin_from_policy(DuplicatesPlugin, DuplicatesArgs)


def spread(kind: str) -> TopologySpreadPlugin:
    return plugin_from_policy(TopologySpreadPlugin, TopologySpreadArgs, constraints=[kind])


def constraint(kind: str) -> dict[str, Any]:
    own = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": kind,
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    return {"topologySpreadConstraints": [own]}


def crowded(plugin: Any, template: dict[str, Any], *disabled: GuardName) -> DescheduledCluster:
    """Let a node with a taint that the scheduler avoids join one with three pods."""
    world = SimulatedCluster().nodes("n1")
    world.deployment("web", 3, cpu="200m", **template)
    world.advance(600).nodes("slow", taints=SLOW)
    guards = GuardSettings(disabled=disabled or OTHERS)
    return DescheduledCluster(world, plugin, guards=guards, moves=MoveSettings(), nodeFit=True)


PLUGINS = pytest.mark.parametrize(
    ("plugin", "template"),
    [
        pytest.param(duplicates, {}, id="duplicates"),
        pytest.param(lambda: spread(SOFT), constraint(SOFT), id="a soft constraint"),
    ],
)


@PLUGINS
def test_they_stay_while_the_scheduler_would_put_them_back(
    plugin: Any, template: dict[str, Any]
) -> None:
    descheduler = crowded(plugin(), template).run(3600)
    assert descheduler.evicted == []
    decision = descheduler.evaluations[-1].decision
    assert (getattr(decision, "gate", ""), getattr(decision, "reason", "")) == (SCORED, SCORED)

    descheduler.world.nodes("n2", "n3")
    descheduler.run(600)

    assert len(descheduler.evicted) == 2
    on = descheduler.world.nodes_of_pods("web").values()
    assert Counter(on) == {"n1": 1, "n2": 1, "n3": 1}


@PLUGINS
def test_without_the_guard_they_leave_and_come_back(plugin: Any, template: dict[str, Any]) -> None:
    descheduler = crowded(plugin(), template, *GuardName).run(3600)
    assert len(descheduler.evicted) >= 3
    assert set(descheduler.world.nodes_of_pods("web").values()) == {"n1"}


def test_the_scheduler_obeys_a_hard_constraint_whatever_its_scores() -> None:
    descheduler = crowded(spread(HARD), constraint(HARD)).run(60)
    assert len(descheduler.evicted) == 1
    assert Counter(descheduler.world.nodes_of_pods("web").values()) == {"n1": 2, "slow": 1}


def test_pods_stay_for_which_a_hard_constraint_of_others_is_none_of_their_own() -> None:
    world = SimulatedCluster().nodes("n1")
    front = {"labels": {"role": "front"}}
    world.deployment("web", 3, cpu="200m", **front)
    [own] = constraint(HARD)["topologySpreadConstraints"]
    own = {**own, "labelSelector": {"matchLabels": {"role": "front"}}}
    world.deployment("db", 1, cpu="200m", topologySpreadConstraints=[own])
    world.advance(600).nodes("slow", taints=SLOW)
    guards = GuardSettings(disabled=OTHERS)
    cluster = DescheduledCluster(world, spread(HARD), guards=guards, nodeFit=True)

    assert cluster.run(600).evicted == []


NEAR_THE_DATA: dict[str, Any] = {
    "preferredDuringSchedulingIgnoredDuringExecution": [
        {
            "weight": 100,
            "podAffinityTerm": {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"app": "data"}},
            },
        }
    ]
}


@pytest.mark.parametrize("near", [NEAR_THE_DATA, None], ids=["they come back", "they move"])
def test_pods_stay_on_a_full_node_to_which_the_scheduler_would_bring_them_back(near: Any) -> None:
    world = SimulatedCluster().nodes("n1", cpu="4")
    world.pod("data", cpu="100m", nodeName="n1")
    affinity = {} if near is None else {"affinity": {"podAffinity": near}}
    world.stateful_set("web", 6, cpu="500m", **affinity)
    world.advance(600).nodes("n2", cpu="4")
    plugin = plugin_from_policy(
        LowNodeUtilizationPlugin,
        LowNodeUtilizationArgs,
        thresholds={"cpu": 20},
        targetThresholds={"cpu": 50},
    )
    guards = GuardSettings(disabled=OTHERS)
    cluster = DescheduledCluster(world, plugin, guards=guards, moves=MoveSettings(), nodeFit=True)

    assert len(cluster.run(1800).evicted) == (3 if near is None else 0)


LIKES_N1 = {
    "preferredDuringSchedulingIgnoredDuringExecution": [
        {
            "weight": 100,
            "preference": {
                "matchExpressions": [
                    {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}
                ]
            },
        }
    ]
}
KNOWN = SchedulerProfiles({DEFAULT_SCHEDULER: SchedulerProfile()})


def liked() -> tuple[SimulatedCluster, Any]:
    """Return a full node that its pods prefer, an empty one, and the plugin that relieves it."""
    world = SimulatedCluster().nodes("n1", cpu="4")
    world.stateful_set("web", 6, cpu="500m", affinity={"nodeAffinity": LIKES_N1})
    arguments = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}
    plugin = plugin_from_policy(LowNodeUtilizationPlugin, LowNodeUtilizationArgs, **arguments)
    return world.advance(600).nodes("n2", cpu="4"), plugin


def emptiable() -> tuple[SimulatedCluster, Any]:
    """Return a node with a pod that fits on another one, and the plugin that packs."""
    world = SimulatedCluster().nodes("n1", cpu="4")
    world.deployment("web", 4, cpu="500m")
    world.advance(600).nodes("n2", cpu="4")
    world.deployment("db", 1, cpu="100m")
    arguments = {"thresholds": {"cpu": 20}}
    plugin = plugin_from_policy(HighNodeUtilizationPlugin, HighNodeUtilizationArgs, **arguments)
    return world.advance(600), plugin


@pytest.mark.parametrize("made", [liked, emptiable])
@pytest.mark.parametrize("is_known", [False, True])
def test_pods_are_tried_only_where_the_scores_of_their_scheduler_are_not_configured(
    made: Callable[[], tuple[SimulatedCluster, Any]], *, is_known: bool
) -> None:
    world, plugin = made()
    guards = GuardSettings(disabled=OTHERS)
    cluster = DescheduledCluster(world, plugin, guards=guards, moves=MoveSettings(), nodeFit=True)
    assert cluster.gates.node_fit is not None
    if is_known:
        cluster.gates.node_fit.reconfigure(KNOWN)

    assert bool(cluster.run(1800).evicted) is not is_known
