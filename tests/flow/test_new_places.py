"""No pod leaves its node for one that opened a moment ago, and may close again."""

from collections.abc import Callable
from typing import Any

import pytest

from reactive_desched.plugins.duplicates import DuplicatesArgs, DuplicatesPlugin
from reactive_desched.plugins.node_affinity import NodeAffinityArgs, NodeAffinityPlugin
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.settings.guards import GuardName, GuardSettings, StandingTimeSettings
from reactive_desched.testing.scenario import plugin_from_policy
from tests.support.descheduled import DescheduledCluster
from tests.support.sim_world import SimulatedCluster

OTHERS = tuple(name for name in GuardName if name is not GuardName.STANDING_TIME)
OPEN_S, BALANCE_S = 25, 60
TAINT = [{"key": "example.com/closed", "effect": "NoSchedule"}]
POOL = {"pool": "blue"}
Opens = Callable[[SimulatedCluster], Callable[[], object]]


def taints() -> NodeTaintsPlugin:
    return plugin_from_policy(NodeTaintsPlugin, NodeTaintsArgs)


def affinity() -> NodeAffinityPlugin:
    kinds = ["requiredDuringSchedulingIgnoredDuringExecution"]
    return plugin_from_policy(NodeAffinityPlugin, NodeAffinityArgs, nodeAffinityType=kinds)


def duplicates() -> DuplicatesPlugin:
    return plugin_from_policy(DuplicatesPlugin, DuplicatesArgs)


def run(world: SimulatedCluster, plugin: Any, **standing: Any) -> DescheduledCluster:
    times = StandingTimeSettings.model_validate(standing)
    guards = GuardSettings(disabled=OTHERS, standing_times=times)
    return DescheduledCluster(world, plugin, guards=guards, nodeFit=True)


def misplaced(other: Any) -> SimulatedCluster:
    """Return a node with two pods that must leave it, and another one that `other` closes."""
    world = SimulatedCluster().nodes("n1", labels=POOL)
    world.deployment("web", 2, cpu="250m", nodeSelector=POOL)
    world.advance(60)
    other(world)
    return world.advance(3600)


def absent(world: SimulatedCluster) -> None:
    world.nodes("n0")


def tainted(world: SimulatedCluster) -> None:
    world.nodes("n2", labels=POOL, taints=tuple(TAINT))


def cordoned(world: SimulatedCluster) -> None:
    world.nodes("n2", labels=POOL)
    world.edit("nodes", "n2", unschedulable=True)


def unlabelled(world: SimulatedCluster) -> None:
    world.nodes("n2", labels={"pool": "green"})


def joins(world: SimulatedCluster) -> Callable[[], object]:
    world.nodes("n2", labels=POOL)
    return lambda: world.delete("nodes", "n2")


def untainted(world: SimulatedCluster) -> Callable[[], object]:
    world.edit("nodes", "n2", taints=[])
    return lambda: world.edit("nodes", "n2", taints=TAINT)


def uncordoned(world: SimulatedCluster) -> Callable[[], object]:
    world.edit("nodes", "n2", unschedulable=False)
    return lambda: world.edit("nodes", "n2", unschedulable=True)


def relabelled(world: SimulatedCluster) -> Callable[[], object]:
    world.label("nodes", "n2", "pool", "blue")
    return lambda: world.label("nodes", "n2", "pool", "green")


OPENS = pytest.mark.parametrize(
    ("before", "opens"),
    [
        pytest.param(absent, joins, id="joins"),
        pytest.param(tainted, untainted, id="untainted"),
        pytest.param(cordoned, uncordoned, id="uncordoned"),
        pytest.param(unlabelled, relabelled, id="relabelled"),
    ],
)


def to_leave(world: SimulatedCluster) -> None:
    world.edit("nodes", "n1", taints=[{"key": "repair", "effect": "NoSchedule"}])


@OPENS
@pytest.mark.parametrize(
    "leave", [to_leave, lambda world: world.label("nodes", "n1", "pool", "red")]
)
@pytest.mark.parametrize("seconds", [3, OPEN_S - 5])
def test_a_node_that_is_soon_closed_again_takes_no_pod_that_must_leave(
    seconds: float, leave: Callable[[SimulatedCluster], object], before: Any, opens: Opens
) -> None:
    world = misplaced(before)
    descheduler = run(world, taints() if leave is to_leave else affinity())
    leave(world)
    assert descheduler.run(60).evicted == []
    closes = opens(world)
    descheduler.run(seconds)
    closes()

    assert descheduler.run(90).evicted == []
    assert set(world.nodes_of_pods("web").values()) == {"n1"}


@OPENS
def test_one_that_stays_open_does(before: Any, opens: Opens) -> None:
    world = misplaced(before)
    descheduler = run(world, taints())
    to_leave(world)
    descheduler.run(60)
    opened_s = world.clock.now()
    opens(world)
    descheduler.run(OPEN_S + 30)

    assert len(descheduler.evicted) == 2
    assert descheduler.evicted_at_s[0] - opened_s == pytest.approx(OPEN_S, abs=3)
    assert set(world.nodes_of_pods("web").values()) == {"n2"}


@OPENS
def test_balance_waits_as_long_as_for_all_that_it_finds(before: Any, opens: Opens) -> None:
    """What it has found for long, as nothing else fits, is no reason to hurry."""
    world = misplaced(before)
    world.deployment("more", 2, cpu="3", nodeSelector={"kubernetes.io/hostname": "n0"})
    descheduler = run(world, duplicates())
    descheduler.run(300)
    closes = opens(world)
    descheduler.run(BALANCE_S - 5)
    closes()

    assert descheduler.run(90).evicted == []


def test_where_another_node_fits_as_well_a_pod_leaves_at_once() -> None:
    world = misplaced(tainted)
    descheduler = run(world, taints())
    to_leave(world)
    descheduler.run(20)
    world.nodes("n3", labels=POOL)
    descheduler.run(3)
    assert descheduler.evicted == []
    descheduler.run(OPEN_S)
    assert len(descheduler.evicted) == 2

    world = misplaced(joins)
    descheduler = run(world, taints())
    to_leave(world)
    descheduler.run(OPEN_S - 2)
    world.nodes("n3", labels=POOL)

    assert len(descheduler.run(8).evicted) == 2


def test_a_label_that_the_pod_does_not_ask_for_closes_no_node() -> None:
    world = misplaced(joins)
    descheduler = run(world, taints())
    to_leave(world)
    for number in range(6):
        descheduler.run(5)
        world.label("nodes", "n2", "example.com/seen", str(number))

    assert len(descheduler.evicted) == 2


def test_the_setting_says_how_long() -> None:
    world = misplaced(tainted)
    descheduler = run(world, taints(), openNodes="5s")
    to_leave(world)
    descheduler.run(60)
    untainted(world)
    assert descheduler.run(3).evicted == []
    assert len(descheduler.run(5).evicted) == 2

    world = misplaced(tainted)
    descheduler = run(world, taints(), openNodes="0s")
    to_leave(world)
    descheduler.run(60)
    untainted(world)
    assert len(descheduler.run(3).evicted) == 2


@OPENS
def test_nodes_that_opened_before_the_start_are_places_at_once(before: Any, opens: Opens) -> None:
    world = misplaced(before)
    to_leave(world)
    opens(world)
    world.advance(2)

    assert len(run(world, taints(), otherTaints="0s").run(5).evicted) == 2


@pytest.mark.parametrize("stands_s", [2, BALANCE_S - 5, BALANCE_S + 30])
def test_a_node_that_the_scores_prefer_takes_replicas_once_it_has_been_open_for_a_minute(
    stands_s: float,
) -> None:
    """They fit on another node as well, but the scheduler would put them back."""
    world = SimulatedCluster().nodes("n1", cpu="4")
    world.deployment("web", 2, cpu="250m")
    world.advance(60).nodes("slow", taints=({"key": "slow", "effect": "PreferNoSchedule"},))
    cluster = DescheduledCluster(
        world.advance(600), duplicates(), guards=GuardSettings(), nodeFit=True
    ).run(120)
    assert cluster.evicted == []

    world.nodes("n2", cpu="4")
    cluster.run(stands_s)
    world.delete("nodes", "n2")

    assert len(cluster.run(600).evicted) == (1 if stands_s > BALANCE_S else 0)
