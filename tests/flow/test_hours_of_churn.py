"""Hours in which everything happens, with plugins that empty nodes, fill them and make room.

Workloads are rolled out and scaled, Jobs come and go, large pods wait, and nodes join and leave.
"""

import random
from collections import Counter
from collections.abc import Callable

import pytest

from reactive_desched.api.balance_plugin import BalancePlugin
from reactive_desched.model.consolidation import EMPTY
from reactive_desched.model.node_marks import CONSOLIDATING
from reactive_desched.model.taints import PREFER_NO_SCHEDULE
from reactive_desched.policy.policy import AnyPlugin
from reactive_desched.policy.settings.guards import GuardSettings
from reactive_desched.policy.settings.moves import MoveSettings
from reactive_desched.sim.scheduling.scores import LEAST_ALLOCATED, MOST_ALLOCATED
from reactive_desched.state.cluster import ClusterView
from tests.flow.test_no_loops import (
    EVEN,
    INDIFFERENT,
    SIZES,
    Churn,
    duplicates,
    high,
    spread,
)
from tests.flow.test_sets_beside_others import WithSets, consolidate, fill, keep_free, make_room
from tests.support.descheduled import DescheduledCluster
from tests.support.nominating import NominatingCluster
from tests.support.quick_plans import seek_plans_briefly
from tests.support.sim_world import SimulatedCluster, pod_template
from tests.support.tainting import TaintedCluster

FEWEST_NODES, MOST_NODES = 6, 11
DEPLOYMENTS = ("api", "ui")
CHANGES = 16
APART_S = (10, 30, 60, 150, 300)
HOUR_S = 3600.0


class EverythingHappens(Churn):
    """Also rolls out, runs Jobs, and has pods that need most of a node."""

    def __init__(self, world: SimulatedCluster, rng: random.Random, spread: dict[str, object]):
        super().__init__(world, rng, spread)
        for _ in range(4):
            self.add_node()
        for name in DEPLOYMENTS:
            cpu, memory = rng.choice(SIZES)
            world.deployment(name, rng.randint(2, 5), cpu=cpu, memory=memory)
        parallel = {"podManagementPolicy": "Parallel"}
        world.stateful_set("large", 0, parallel, cpu="3", memory="256Mi")
        self._made = 0

    def happen(self) -> None:
        """Change one thing."""
        once = (
            self.add_node,
            self.remove_node,
            self.cordon,
            self.scale,
            self.resize,
            self.roll_out,
        )
        self._rng.choice((*once, *2 * (self.scale, self.fail, self.run_jobs, self.large_pods)))()

    def add_node(self) -> None:
        if len(self._names()) < MOST_NODES:
            super().add_node()

    def remove_node(self) -> None:
        if len(self._names()) > FEWEST_NODES:
            super().remove_node()

    def cordon(self) -> None:
        """Close a node, or open the one that is closed."""
        nodes = {name: self._world.get("nodes", name)["spec"] for name in self._names()}
        closed = [name for name, spec in nodes.items() if spec.get("unschedulable")]
        name = closed[0] if closed else self._rng.choice(list(nodes))
        self._world.edit("nodes", name, unschedulable=not closed)

    def resize(self) -> None:
        """Scale a Deployment."""
        self._world.edit("deployments", self._rng.choice(DEPLOYMENTS), replicas=self._number())

    def roll_out(self) -> None:
        self._made += 1
        name = self._rng.choice(DEPLOYMENTS)
        template = self._world.get("deployments", name)["spec"]["template"]
        metadata = {**template["metadata"], "annotations": {"revision": str(self._made)}}
        self._world.edit("deployments", name, template={**template, "metadata": metadata})

    def run_jobs(self) -> None:
        """Create one to three Jobs whose pods run for seconds or minutes."""
        for _ in range(self._rng.randint(1, 3)):
            self._made += 1
            seconds = str(self._rng.choice((5, 30, 90, 300)))
            template = pod_template(
                f"job-{self._made}",
                cpu=self._rng.choice(("500m", "1", "2")),
                annotations={"sim.reactive-desched/run-seconds": seconds},
                restartPolicy="Never",
            )
            spec = {"completions": self._rng.choice((1, 3)), "parallelism": 1, "template": template}
            self._world.create("jobs", f"job-{self._made}", spec)

    def large_pods(self) -> None:
        self._world.edit("statefulsets", "large", replicas=self._rng.randint(0, 2))

    def _number(self) -> int:
        return self._rng.randint(1, 7)


class KeptFree:
    """Closes the empty nodes that a plugin keeps free, and opens them again, as the controller."""

    def __init__(self, cluster: DescheduledCluster, plugins: list[AnyPlugin]) -> None:
        self._cluster = cluster
        self._view = ClusterView(cluster.state, cluster.world.clock.now)
        self._plugins = [
            each for each in plugins if isinstance(each, BalancePlugin) and each.closes_nodes
        ]

    def look(self) -> None:
        """Write the taints that are due."""
        for each in self._plugins:
            for node in list(each.nodes_to_close(self._view)):
                self._write(node.name, {"value": EMPTY})
        named = [{node.name for node in each.nodes_to_open(self._view)} for each in self._plugins]
        if named and not self._cluster.gates.move_sets.is_emptying:
            for name in set.intersection(*named):
                self._write(name, None)

    def _write(self, name: str, value: dict[str, str] | None) -> None:
        world = self._cluster.world
        taints = world.get("nodes", name)["spec"].get("taints") or []
        kept = [each for each in taints if each["key"] != CONSOLIDATING]
        if value is not None:
            kept.append({"key": CONSOLIDATING, "effect": PREFER_NO_SCHEDULE, **value})
        world.edit("nodes", name, taints=kept)


class Guarded(WithSets):
    """A cluster with plugins, by the guards and the memory of moves as they are by default."""

    def __init__(self, world: SimulatedCluster, plugins: list[AnyPlugin]) -> None:
        self.cluster = cluster = DescheduledCluster(
            world, *plugins, nodeFit=True, moves=MoveSettings(), guards=GuardSettings()
        )
        self._now = world.clock.now
        self._marks = (
            TaintedCluster(cluster),
            NominatingCluster(cluster),
            KeptFree(cluster, plugins),
        )


def pack() -> AnyPlugin:
    return high(thresholds={"cpu": 30})


@pytest.mark.parametrize(
    ("makers", "constraint", "scoring", "most"),
    [
        pytest.param(
            (consolidate, keep_free, make_room), INDIFFERENT, LEAST_ALLOCATED, 1, id="sets"
        ),
        pytest.param((consolidate, pack, make_room), INDIFFERENT, MOST_ALLOCATED, 1, id="packed"),
        pytest.param((keep_free, fill, make_room, spread), EVEN, LEAST_ALLOCATED, 2, id="spread"),
        pytest.param(
            (consolidate, keep_free, make_room, duplicates, spread, fill),
            EVEN,
            LEAST_ALLOCATED,
            4,
            id="all that undo each other",
        ),
    ],
)
def test_between_two_changes_no_pod_moves_twice_and_all_come_to_rest(
    makers: tuple[Callable[[], AnyPlugin], ...],
    constraint: dict[str, object],
    scoring: str,
    most: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In quiet hours a pod moves so often at most; `policy check` warns of the last of these."""
    seek_plans_briefly(monkeypatch)
    world, rng = SimulatedCluster(scoring=scoring, chance=1), random.Random(1)
    churn = EverythingHappens(world, rng, constraint)
    cluster = Guarded(world.advance(120), [make() for make in makers])
    moved = 0
    for _ in range(CHANGES):
        churn.happen()
        moves = cluster.run(rng.choice(APART_S))
        moved += moves.total()
        assert max(moves.values(), default=0) <= 1, moves
    by_hour = [cluster.run(HOUR_S) for _ in range(3)]

    assert moved, "the churn gave the plugins nothing to do"
    assert max(sum(by_hour, Counter[str]()).values(), default=0) <= most, by_hour
    assert by_hour[2].total() <= 1, by_hour
