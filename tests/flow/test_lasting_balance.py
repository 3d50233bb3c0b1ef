"""What balances moves pods for what it has found for a minute, whatever it comes from."""

from collections.abc import Callable
from typing import Any

import pytest

from reactive_desched.model.opt_outs import DO_NOT_EVICT
from reactive_desched.plugins.duplicates import DuplicatesArgs, DuplicatesPlugin
from reactive_desched.plugins.low_node_utilization import (
    LowNodeUtilizationArgs,
    LowNodeUtilizationPlugin,
)
from reactive_desched.plugins.topology_spread import TopologySpreadArgs, TopologySpreadPlugin
from reactive_desched.policy.settings.guards import GuardName, GuardSettings, StandingTimeSettings
from reactive_desched.policy.settings.moves import MoveSettings
from reactive_desched.testing.scenario import plugin_from_policy
from tests.support.descheduled import DescheduledCluster
from tests.support.sim_world import HOSTNAME, SimulatedCluster, workload

OTHERS = tuple(name for name in GuardName if name is not GuardName.STANDING_TIME)
LASTS_S = 60
NODES = ("n1", "n2")
POOL = {"pool": "blue"}
FRONT = {
    "maxSkew": 1,
    "topologyKey": HOSTNAME,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"role": "front"}},
}
IN_POOL = {"nodeSelector": POOL, "labels": {"role": "front"}, "topologySpreadConstraints": [FRONT]}


def low() -> LowNodeUtilizationPlugin:
    args = {"thresholds": {"cpu": 15}, "targetThresholds": {"cpu": 17}}
    return plugin_from_policy(LowNodeUtilizationPlugin, LowNodeUtilizationArgs, **args)


def duplicates() -> DuplicatesPlugin:
    return plugin_from_policy(DuplicatesPlugin, DuplicatesArgs)


def spread() -> TopologySpreadPlugin:
    constraints = ["DoNotSchedule", "ScheduleAnyway"]
    return plugin_from_policy(TopologySpreadPlugin, TopologySpreadArgs, constraints=constraints)


def run(world: SimulatedCluster, plugin: Any, **standing: Any) -> DescheduledCluster:
    times = StandingTimeSettings.model_validate(standing)
    guards = GuardSettings(disabled=OTHERS, standing_times=times)
    return DescheduledCluster(world, plugin, guards=guards, moves=MoveSettings(), nodeFit=True)


def even() -> SimulatedCluster:
    """Return two nodes with the pods of a workload, three each, as their constraint has it."""
    world = SimulatedCluster().nodes(*NODES, labels=POOL)
    world.deployment("web", 6, cpu="250m", **IN_POOL)
    return world.advance(3600)


def node_joins(world: SimulatedCluster) -> Callable[[], object]:
    world.nodes("n3", labels=POOL)
    return lambda: world.delete("nodes", "n3")


def node_comes_into_the_pool(world: SimulatedCluster) -> Callable[[], object]:
    world.nodes("other", labels={"pool": "green"})
    world.label("nodes", "other", "pool", "blue")
    return lambda: world.label("nodes", "other", "pool", "green")


def node_opens(world: SimulatedCluster) -> Callable[[], object]:
    world.nodes("n3", labels=POOL)
    world.edit("nodes", "n3", taints=[])
    closed = [{"key": "example.com/closed", "effect": "NoSchedule"}]
    return lambda: world.edit("nodes", "n3", taints=closed)


def other_workload_has_more_pods(world: SimulatedCluster) -> Callable[[], object]:
    """Let pods that the same constraint counts come to one node."""
    on = {"nodeName": "n1", "labels": {"role": "front"}}
    world.create("deployments", "surge", workload("surge", 2, cpu="10m", **on))
    return lambda: world.edit("deployments", "surge", replicas=0)


def pods_are_labelled(world: SimulatedCluster) -> Callable[[], object]:
    """Let pods of a node be none that the constraint counts."""
    found = [name for name, node in world.nodes_of_pods("web").items() if node == "n1"]

    def give(role: str) -> None:
        for name in found:
            world.label("pods", name, "role", role)

    give("back")
    return lambda: give("front")


PASSES = pytest.mark.parametrize(
    ("plugin", "happens"),
    [
        pytest.param(duplicates, node_joins, id="duplicates, a node joins"),
        pytest.param(spread, node_joins, id="spread, a node joins"),
        pytest.param(low, node_joins, id="utilization, a node joins"),
        pytest.param(duplicates, node_comes_into_the_pool, id="duplicates, a node's label"),
        pytest.param(spread, node_comes_into_the_pool, id="spread, a node's label"),
        pytest.param(duplicates, node_opens, id="duplicates, a node opens"),
        pytest.param(spread, other_workload_has_more_pods, id="spread, another workload"),
        pytest.param(spread, pods_are_labelled, id="spread, labels of pods"),
    ],
)


@PASSES
@pytest.mark.parametrize("seconds", [3, LASTS_S - 5])
def test_what_passes_within_a_minute_moves_no_pod(
    seconds: float, plugin: Callable[[], Any], happens: Callable[[Any], Callable[[], object]]
) -> None:
    world = even()
    descheduler = run(world, plugin()).run(10)
    ends = happens(world)
    descheduler.run(seconds)
    assert descheduler.evicted == []
    ends()

    assert descheduler.run(LASTS_S + 30).evicted == []


@PASSES
def test_what_lasts_does(
    plugin: Callable[[], Any], happens: Callable[[Any], Callable[[], object]]
) -> None:
    world = even()
    descheduler = run(world, plugin()).run(10)
    began_s = world.clock.now()
    happens(world)
    descheduler.run(LASTS_S + 30)

    assert descheduler.evicted != []
    assert descheduler.evicted_at_s[0] - began_s == pytest.approx(LASTS_S, abs=5)


def test_what_comes_back_every_minute_begins_anew() -> None:
    world = even()
    descheduler = run(world, duplicates()).run(10)
    for _ in range(6):
        ends = node_joins(world)
        descheduler.run(40)
        ends()
        descheduler.run(5)

    assert descheduler.evicted == []


def test_what_is_so_at_the_start_counts_at_once() -> None:
    world = even()
    world.nodes("n3", labels=POOL)
    world.advance(3600)

    assert run(world, duplicates()).run(10).evicted != []


def test_the_setting_says_how_long() -> None:
    world = even()
    descheduler = run(world, duplicates(), nodeUse="10s").run(10)
    node_joins(world)
    assert descheduler.run(8).evicted == []
    assert descheduler.run(8).evicted != []

    world = even()
    descheduler = run(world, duplicates(), nodeUse="0s").run(10)
    node_joins(world)
    assert descheduler.run(5).evicted != []


@pytest.mark.parametrize("lasts_s", [10, LASTS_S + 30])
def test_a_domain_that_has_had_too_many_pods_for_long_does_not_speak_for_another(
    lasts_s: float,
) -> None:
    world = SimulatedCluster().nodes("n1", "n2", "n3", labels=POOL)
    front = {"labels": {"role": "front"}, "cpu": "100m"}
    keeps = {"annotations": {DO_NOT_EVICT: "true"}, "nodeSelector": {HOSTNAME: "n1"}}
    world.deployment("stuck", 4, **front, **keeps)
    world.deployment("web", 3, topologySpreadConstraints=[FRONT], **front)
    guards = GuardSettings(
        disabled=tuple(name for name in OTHERS if name is not GuardName.DO_NOT_EVICT)
    )
    cluster = DescheduledCluster(world.advance(60), spread(), guards=guards, nodeFit=True).run(3600)
    assert cluster.evicted == []
    assert {each.decision.gate for each in cluster.pending()} == {GuardName.DO_NOT_EVICT}

    world.deployment("more", 2, nodeSelector={HOSTNAME: "n2"}, **front)
    cluster.run(lasts_s)
    world.delete("deployments", "more")

    assert bool(cluster.run(600).evicted) is (lasts_s > LASTS_S)
