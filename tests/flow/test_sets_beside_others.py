"""Hours of a cluster with several plugins that move pods as sets, beside those that spread them.

All pods are of StatefulSets: a pod's replacement has its name, which tells how often it moved.
"""

import random
from collections import Counter
from collections.abc import Callable
from typing import Protocol

import pytest

from reactive_desched.model.consolidation import EMPTY
from reactive_desched.model.node_marks import CONSOLIDATING
from reactive_desched.model.taints import PREFER_NO_SCHEDULE
from reactive_desched.plugins.consolidate_nodes import (
    ConsolidateNodesArgs,
    ConsolidateNodesPlugin,
)
from reactive_desched.plugins.keep_nodes_free import KeepNodesFreeArgs, KeepNodesFreePlugin
from reactive_desched.plugins.make_room_for_pending import (
    MakeRoomForPendingArgs,
    MakeRoomForPendingPlugin,
)
from reactive_desched.policy.policy import AnyPlugin
from reactive_desched.policy.settings.moves import MoveSettings
from reactive_desched.sim.scheduling.scores import LEAST_ALLOCATED
from reactive_desched.testing.scenario import plugin_from_policy
from tests.flow.test_no_loops import EVEN, INDIFFERENT, Churn, duplicates, load, low, spread
from tests.support.descheduled import DescheduledCluster
from tests.support.nominating import NominatingCluster
from tests.support.sim_world import SimulatedCluster
from tests.support.tainting import TaintedCluster

LOOK_EVERY_S, REPORT_EVERY_S = 2.0, 30.0
CHANGES, BETWEEN_S = 12, 150.0
HOUR_S = 3600.0
HOURS = 4


def consolidate() -> AnyPlugin:
    return plugin_from_policy(ConsolidateNodesPlugin, ConsolidateNodesArgs, minNodes=[])


def keep_free() -> AnyPlugin:
    return plugin_from_policy(KeepNodesFreePlugin, KeepNodesFreeArgs, nodes=1)


def make_room() -> AnyPlugin:
    return plugin_from_policy(MakeRoomForPendingPlugin, MakeRoomForPendingArgs, wait="30s")


def fill() -> AnyPlugin:
    return low(thresholds={"cpu": 40}, targetThresholds={"cpu": 50})


class Writer(Protocol):
    """Writes a mark of sets, as the controller does."""

    def look(self) -> None:
        """Write what is due."""
        ...


class WithSets:
    """A simulated cluster with plugins, whose taints and nominations are written."""

    def __init__(self, world: SimulatedCluster, *plugins: AnyPlugin) -> None:
        self.cluster = DescheduledCluster(world, *plugins, nodeFit=True, moves=MoveSettings())
        self._now = world.clock.now
        self._marks: tuple[Writer, ...] = (
            TaintedCluster(self.cluster),
            NominatingCluster(self.cluster),
        )

    def run(self, seconds: float) -> Counter[str]:
        """Let time pass; return how often each pod was moved."""
        until, report_at, before = self._now() + seconds, self._now(), len(self.cluster.evicted)
        while self._now() < until:
            if self._now() >= report_at:
                self.cluster.report_use()
                report_at += REPORT_EVERY_S
            self.cluster.run(LOOK_EVERY_S)
            for each in self._marks:
                each.look()
        return Counter(self.cluster.evicted[before:])


@pytest.mark.parametrize(
    ("makers", "constraint", "most"),
    [
        pytest.param((consolidate, duplicates), EVEN, 3, id="duplicates"),
        pytest.param((consolidate, spread), EVEN, 2, id="a soft spread"),
        pytest.param((consolidate, fill), INDIFFERENT, 2, id="fills what is empty"),
        pytest.param((consolidate, load), INDIFFERENT, 2, id="fills by load"),
        pytest.param((consolidate, keep_free, make_room), INDIFFERENT, 1, id="three kinds of sets"),
        pytest.param(
            (consolidate, keep_free, make_room, fill, load, duplicates, spread),
            EVEN,
            6,
            id="all that undo each other",
        ),
    ],
)
def test_after_half_an_hour_of_churn_pods_come_to_rest_within_hours(
    makers: tuple[Callable[[], AnyPlugin], ...], constraint: dict[str, object], most: int
) -> None:
    """A pod whose move another plugin undid is tried again ever more seldom: `futileBackoff`."""
    world = SimulatedCluster(scoring=LEAST_ALLOCATED, chance=1)
    churn = Churn(world, random.Random(1), constraint)
    if make_room in makers:
        world.stateful_set("big", 2, cpu="3", memory="256Mi")
    cluster = WithSets(world.advance(30), *(make() for make in makers))
    moved = 0
    for _ in range(CHANGES):
        churn.happen()
        moved += cluster.run(BETWEEN_S).total()
    by_hour = [cluster.run(HOUR_S) for _ in range(HOURS)]

    assert moved, "the churn gave the plugins nothing to do"
    assert max(sum(by_hour, Counter[str]()).values(), default=0) <= most, by_hour
    assert (
        sum(each.total() for each in by_hour[2:]) <= sum(each.total() for each in by_hour[:2]) / 2
    )


@pytest.mark.parametrize("fills", [fill, load])
def test_no_plugin_that_balances_fills_a_node_that_a_set_emptied(
    fills: Callable[[], AnyPlugin],
) -> None:
    world = SimulatedCluster().nodes("n1")
    world.deployment("web", 7, cpu="500m")
    closed = {"key": CONSOLIDATING, "value": EMPTY, "effect": PREFER_NO_SCHEDULE}
    world.nodes("n2", taints=(closed,))
    cluster = WithSets(world.advance(60), fills())
    assert not cluster.run(300)

    world.edit("nodes", "n2", taints=[])
    assert cluster.run(300)
