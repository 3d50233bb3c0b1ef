"""Ten minutes of a simulated cluster in which pods and nodes come and go: nobody is moved around.

All pods are of StatefulSets: a pod's replacement has its name, which tells how often it moved.
"""

import random
from collections import Counter
from typing import Any

import pytest

from reactive_desched.draining.load_args import LowNodeLoadArgs
from reactive_desched.plugins.duplicates import DuplicatesArgs, DuplicatesPlugin
from reactive_desched.plugins.high_node_utilization import (
    HighNodeUtilizationArgs,
    HighNodeUtilizationPlugin,
)
from reactive_desched.plugins.low_node_load import LowNodeLoadPlugin
from reactive_desched.plugins.low_node_utilization import (
    LowNodeUtilizationArgs,
    LowNodeUtilizationPlugin,
)
from reactive_desched.plugins.topology_spread import TopologySpreadArgs, TopologySpreadPlugin
from reactive_desched.policy.policy import AnyPlugin
from reactive_desched.policy.settings.moves import MoveSettings
from reactive_desched.sim.scheduling.scores import LEAST_ALLOCATED, MOST_ALLOCATED
from reactive_desched.testing.scenario import plugin_from_policy
from tests.support.descheduled import DescheduledCluster
from tests.support.sim_world import HOSTNAME, ZONE, SimulatedCluster

TEN_MINUTES_S = 600
BETWEEN_S = 30
REPORTS_EVERY_S = 10
WORKLOADS = ("web", "db", "queue", "cache")
FEWEST_NODES, ENOUGH = 3, 5
SIZES = (("250m", "512Mi"), ("500m", "1Gi"), ("1", "2Gi"))  # in the ratio of the nodes' own
# A pod with a constraint of its own has none of the scheduler's default ones. This one never binds:
INDIFFERENT = {"maxSkew": 100, "topologyKey": HOSTNAME, "whenUnsatisfiable": "DoNotSchedule"}
EVEN = {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway"}
ZONAL = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}


def low(**args: Any) -> AnyPlugin:
    return plugin_from_policy(LowNodeUtilizationPlugin, LowNodeUtilizationArgs, **args)


def high(**args: Any) -> AnyPlugin:
    return plugin_from_policy(HighNodeUtilizationPlugin, HighNodeUtilizationArgs, **args)


def load() -> AnyPlugin:
    return plugin_from_policy(
        LowNodeLoadPlugin,
        LowNodeLoadArgs,
        lowThresholds={"cpu": 40},
        highThresholds={"cpu": 60},
        anomalyCondition={"consecutiveAbnormalities": 1},
    )


def duplicates() -> AnyPlugin:
    return plugin_from_policy(DuplicatesPlugin, DuplicatesArgs)


def spread() -> AnyPlugin:
    both = ["DoNotSchedule", "ScheduleAnyway"]
    return plugin_from_policy(TopologySpreadPlugin, TopologySpreadArgs, constraints=both)


CASES = [
    pytest.param(
        low(thresholds={"cpu": 40}, targetThresholds={"cpu": 50}),
        LEAST_ALLOCATED,
        INDIFFERENT,
        id="low",
    ),
    pytest.param(
        low(useDeviationThresholds=True, thresholds={"cpu": 10}, targetThresholds={"cpu": 10}),
        LEAST_ALLOCATED,
        INDIFFERENT,
        id="low, around the mean",
    ),
    pytest.param(load(), LEAST_ALLOCATED, INDIFFERENT, id="load"),
    pytest.param(high(thresholds={"cpu": 40}), MOST_ALLOCATED, INDIFFERENT, id="high"),
    pytest.param(duplicates(), LEAST_ALLOCATED, EVEN, id="duplicates"),
    pytest.param(spread(), LEAST_ALLOCATED, EVEN, id="spread, preferred"),
    pytest.param(spread(), LEAST_ALLOCATED, ZONAL, id="spread, required"),
]


class Churn:
    """What happens to a cluster, by chance: one thing at a time."""

    def __init__(
        self, world: SimulatedCluster, rng: random.Random, spread: dict[str, object]
    ) -> None:
        self._world, self._rng = world, rng
        self._nodes = 0
        for _ in range(4):
            self.add_node()
        for name in WORKLOADS:
            cpu, memory = rng.choice(SIZES)
            selected = {**spread, "labelSelector": {"matchLabels": {"app": name}}}
            parallel = {"podManagementPolicy": "Parallel"}
            pod = {"cpu": cpu, "memory": memory, "topologySpreadConstraints": [selected]}
            world.stateful_set(name, rng.randint(2, 6), parallel, **pod)

    def happen(self) -> None:
        """Change one thing."""
        chances = (self.add_node, self.remove_node, self.cordon, self.scale, self.scale, self.fail)
        self._rng.choice(chances)()

    def add_node(self) -> None:
        self._nodes += 1
        self._world.nodes(f"n{self._nodes}/{'abc'[self._nodes % 3]}")

    def remove_node(self) -> None:
        if len(names := self._names()) > FEWEST_NODES:
            self._world.delete("nodes", self._rng.choice(names))

    def cordon(self) -> None:
        """Close a node, or open one that is closed."""
        name = self._rng.choice(self._names())
        closed = self._world.get("nodes", name)["spec"].get("unschedulable", False)
        self._world.edit("nodes", name, unschedulable=not closed)

    def scale(self) -> None:
        name, replicas = self._rng.choice(WORKLOADS), self._rng.randint(1, 8)
        self._world.edit("statefulsets", name, replicas=replicas)

    def fail(self) -> None:
        """Delete a pod, which is replaced."""
        self._world.delete("pods", self._rng.choice(sorted(self._world.names())))

    def _names(self) -> list[str]:
        return sorted(node["metadata"]["name"] for node in self._world.store.list("nodes"))


def watch(cluster: DescheduledCluster, seconds: float) -> DescheduledCluster:
    """Let time pass, while agents report the use of each node every ten seconds."""
    for _ in range(round(seconds / REPORTS_EVERY_S)):
        cluster.report_use()
        cluster.run(REPORTS_EVERY_S)
    return cluster


@pytest.mark.parametrize(("plugin", "scoring", "spread"), CASES)
def test_in_ten_minutes_of_churn_no_replacement_is_moved_again_for_one_reason(
    plugin: AnyPlugin, scoring: str, spread: dict[str, object]
) -> None:
    moved = 0
    for chance in range(5):
        world = SimulatedCluster(scoring=scoring, chance=chance)
        churn = Churn(world, random.Random(chance), spread)
        cluster = DescheduledCluster(world.advance(30), plugin, nodeFit=True)
        for _ in range(TEN_MINUTES_S // BETWEEN_S):
            before = len(cluster.evicted)
            churn.happen()
            watch(cluster, BETWEEN_S)
            moves = Counter(cluster.evicted[before:])
            assert max(moves.values(), default=1) == 1, (chance, moves)
        moved += len(cluster.evicted)
        calm = watch(cluster, BETWEEN_S).evicted.copy()
        assert watch(cluster, TEN_MINUTES_S).evicted == calm, chance
    assert moved >= ENOUGH, "the churn gave the plugin nothing to do"


def test_a_pod_that_the_scheduler_puts_back_is_left_there() -> None:
    """By default the scheduler spreads pods over zones rather than over nodes with room.

    n1 is alone in its zone, so of three pods one comes back to it whatever room there is.
    """
    world = SimulatedCluster().nodes("n1/a", "n2/b", "n3/b")
    world.pod("filler", cpu="2", memory="4Gi", nodeName="n1")
    world.stateful_set("web", 3, {"podManagementPolicy": "Parallel"}, cpu="500m", memory="1Gi")
    plugin = low(thresholds={"cpu": 40}, targetThresholds={"cpu": 60})

    cluster = DescheduledCluster(world.advance(30), plugin, moves=MoveSettings(), nodeFit=True).run(
        60
    )

    assert max(Counter(cluster.evicted).values()) == 1
