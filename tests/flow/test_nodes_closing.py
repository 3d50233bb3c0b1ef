"""Nothing is balanced while nodes are replaced or restarted one after another."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from reactive_desched.plugins.duplicates import DuplicatesArgs, DuplicatesPlugin
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.settings.guards import GuardName, GuardSettings, StandingTimeSettings
from reactive_desched.sim.objects import name_of
from reactive_desched.sim.pods import node_of
from reactive_desched.testing.scenario import plugin_from_policy
from tests.support.descheduled import DescheduledCluster
from tests.support.sim_world import SimulatedCluster, workload

OTHERS = tuple(name for name in GuardName if name is not GuardName.STANDING_TIME)
APART_S, LONGEST_S, BALANCE_S = 600, 3600, 60
MORE = ("n90", "n91", "n92", "n93")
Closes = Callable[[SimulatedCluster], object]


def duplicates() -> DuplicatesPlugin:
    return plugin_from_policy(DuplicatesPlugin, DuplicatesArgs)


def run(world: SimulatedCluster, *plugins: Any, **standing: Any) -> DescheduledCluster:
    times = StandingTimeSettings.model_validate(standing)
    guards = GuardSettings(disabled=OTHERS, standing_times=times)
    return DescheduledCluster(world, *plugins, guards=guards, nodeFit=True)


def served(nodes: int) -> SimulatedCluster:
    """Return a cluster with two pods of each of two workloads on its nodes."""
    world = SimulatedCluster().nodes(*(f"n{n}" for n in range(1, nodes + 1)))
    for name in ("web", "api"):
        world.deployment(name, 2 * nodes, cpu="250m")
    return world.advance(60)


def cordon(world: SimulatedCluster, name: str) -> None:
    world.edit("nodes", name, unschedulable=True)


def drain(world: SimulatedCluster, name: str) -> None:
    for pod in world.pods():
        if node_of(pod) == name:
            world.evict(name_of(pod))


def restart(world: SimulatedCluster, descheduler: DescheduledCluster, name: str) -> None:
    cordon(world, name)
    drain(world, name)
    descheduler.run(150)
    world.edit("nodes", name, unschedulable=False)


def spread_at_s(descheduler: DescheduledCluster, since_s: float) -> Iterator[float]:
    return (at_s - since_s for at_s in descheduler.evicted_at_s)


def test_between_nodes_that_restart_in_turn_nothing_is_balanced() -> None:
    world = served(3)
    descheduler = run(world, duplicates()).run(300)
    for name in ("n1", "n2", "n3"):
        closed_s = world.clock.now()
        restart(world, descheduler, name)
        descheduler.run(300)
        assert descheduler.evicted == []

    descheduler.run(APART_S)
    assert descheduler.evicted
    assert min(spread_at_s(descheduler, closed_s)) == pytest.approx(APART_S, abs=3)


def test_without_the_time_each_restart_is_balanced_anew() -> None:
    world = served(3)
    descheduler = run(world, duplicates(), closedNodes="0s").run(300)
    closed_s = world.clock.now()
    for name in ("n1", "n2", "n3"):
        restart(world, descheduler, name)
        descheduler.run(300)

    assert min(spread_at_s(descheduler, closed_s)) < APART_S


def test_a_pod_that_has_to_leave_its_node_leaves_meanwhile() -> None:
    world = served(3)
    descheduler = run(world, plugin_from_policy(NodeTaintsPlugin, NodeTaintsArgs)).run(300)
    restart(world, descheduler, "n1")
    world.edit("nodes", "n2", taints=[{"key": "team", "value": "b", "effect": "NoSchedule"}])
    tainted_s = world.clock.now()
    descheduler.run(120)

    assert min(spread_at_s(descheduler, tainted_s)) < BALANCE_S


def deleted(world: SimulatedCluster) -> None:
    world.delete("nodes", "n1")


def marked(key: str) -> Closes:
    return lambda world: world.edit("nodes", "n1", taints=[{"key": key, "effect": "NoSchedule"}])


def first_after(closes: Closes, nodes: int = 3, more: int = 0) -> float:
    """Close a node, let a node join, and return when the first pod moves for an even share."""
    world = served(nodes)
    descheduler = run(world, duplicates()).run(300)
    closes(world)
    for n in range(more):
        cordon(world, f"n{n + 2}")
    closed_s = world.clock.now()
    drain(world, "n1")
    world.nodes(*MORE)
    descheduler.run(2 * APART_S)
    return next(spread_at_s(descheduler, closed_s))


@pytest.mark.parametrize(
    "closes",
    [
        deleted,
        lambda world: cordon(world, "n1"),
        marked("ToBeDeletedByClusterAutoscaler"),
        marked("karpenter.sh/disrupted"),
        marked("node.kubernetes.io/out-of-service"),
    ],
    ids=["deleted", "cordoned", "autoscaler", "karpenter", "out-of-service"],
)
def test_a_node_closes_in_many_ways(closes: Closes) -> None:
    assert first_after(closes) == pytest.approx(APART_S, abs=3)


@pytest.mark.parametrize(
    "closes",
    [lambda world: None, marked("team"), marked("DeletionCandidateOfClusterAutoscaler")],
    ids=["nothing", "a person's taint", "candidate"],
)
def test_what_does_not_close_a_node_holds_nothing(closes: Closes) -> None:
    assert first_after(closes) < 3 * BALANCE_S


def test_of_many_nodes_a_single_one_holds_nothing() -> None:
    assert first_after(lambda world: cordon(world, "n1"), nodes=40) < 3 * BALANCE_S
    assert first_after(lambda world: cordon(world, "n1"), nodes=40, more=2) > APART_S - BALANCE_S


def test_of_many_nodes_those_that_close_in_the_same_time_count() -> None:
    world = served(60)
    descheduler = run(world, duplicates()).run(300)
    for n in range(1, 8):
        cordon(world, f"n{n}")
        descheduler.run(400)
    world.nodes(*(f"n{n}" for n in range(200, 270)))
    descheduler.run(3 * BALANCE_S)

    assert descheduler.evicted


def test_a_cordon_that_is_taken_back_within_a_minute_holds_nothing() -> None:
    world = served(3)
    descheduler = run(world, duplicates()).run(300)
    cordon(world, "n1")
    descheduler.run(30)
    world.edit("nodes", "n1", unschedulable=False)
    world.nodes(*MORE)
    descheduler.run(3 * BALANCE_S)

    assert descheduler.evicted


def test_a_node_with_daemons_alone_holds_nothing() -> None:
    world = served(3)
    world.nodes("n9")
    world.create("daemonsets", "agent", workload("agent", 1))
    descheduler = run(world.advance(60), duplicates()).run(60)
    assert "n9" in world.nodes_of_pods("agent").values()
    world.delete("nodes", "n9")
    world.nodes(*MORE)
    descheduler.run(3 * BALANCE_S)

    assert descheduler.evicted


def test_a_row_without_end_holds_for_an_hour() -> None:
    world = served(6)
    descheduler = run(world, duplicates()).run(300)
    began_s = world.clock.now()
    for n in range(16):
        restart(world, descheduler, f"n{n % 6 + 1}")
        descheduler.run(150)

    first_s = min(spread_at_s(descheduler, began_s))
    assert LONGEST_S - 3 <= first_s < LONGEST_S + 3 * BALANCE_S


def test_the_message_says_what_is_waited_for() -> None:
    world = served(3)
    descheduler = run(world, duplicates()).run(300)
    restart(world, descheduler, "n1")
    descheduler.run(100)
    (waiting, *_) = descheduler.pending()

    refused = waiting.decision
    assert (refused.gate, refused.reason) == (GuardName.STANDING_TIME, "NodesClosing")
    assert "1 node closed within 10m" in refused.message
