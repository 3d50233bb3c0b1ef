"""ConsolidateNodes comes to rest on a simulated cluster, however its scheduler scores nodes."""

import random
from collections import Counter

import pytest

from reactive_desched.controller.consolidation import SetState
from reactive_desched.model.moves import RETURNED
from reactive_desched.plugins.consolidate_nodes import (
    ConsolidateNodesArgs,
    ConsolidateNodesPlugin,
)
from reactive_desched.policy.settings.moves import MoveSettings
from reactive_desched.sim.scheduling.scores import LEAST_ALLOCATED, MOST_ALLOCATED
from reactive_desched.testing.scenario import plugin_from_policy
from tests.flow.test_no_loops import (
    INDIFFERENT,
    TEN_MINUTES_S,
    Churn,
    high,
    low,
)
from tests.support.descheduled import DescheduledCluster
from tests.support.packing_race import CLUSTERS, SPREADS, consolidate, drawn
from tests.support.sim_world import SimulatedCluster
from tests.support.tainting import TaintedCluster

MOST_MOVES = {MOST_ALLOCATED: 1, LEAST_ALLOCATED: 2}
"""A pod moves once more where the scheduler does not place it as planned."""


def consolidated(world: SimulatedCluster) -> TaintedCluster:
    plugin = plugin_from_policy(ConsolidateNodesPlugin, ConsolidateNodesArgs, minNodes=[])
    return TaintedCluster(DescheduledCluster(world, plugin, nodeFit=True))


def used(world: SimulatedCluster) -> set[str]:
    return {node for node in world.nodes_of_pods().values() if node}


@pytest.mark.parametrize("scoring", [LEAST_ALLOCATED, MOST_ALLOCATED])
def test_six_nodes_that_are_used_little_become_two_and_a_second_look_finds_nothing(
    scoring: str,
) -> None:
    world = SimulatedCluster(scoring=scoring).nodes(*(f"n{i}/a" for i in range(6)))
    for name in "abc":
        world.deployment(name, 4, cpu="500m", memory="256Mi")
    cluster = consolidated(world.advance(30)).run(TEN_MINUTES_S)

    assert len(used(world)) == 2  # six of eight cores, a tenth left free
    moved = cluster.cluster.evicted.copy()
    cluster.run(TEN_MINUTES_S)
    assert cluster.cluster.evicted == moved
    assert len(moved) <= 2 * 12


@pytest.mark.parametrize("scoring", [LEAST_ALLOCATED, MOST_ALLOCATED])
def test_in_an_hour_of_churn_no_pod_is_moved_on_and_on(scoring: str) -> None:
    ends: set[SetState] = set()
    for chance in range(6):
        world = SimulatedCluster(scoring=scoring, chance=chance)
        churn = Churn(world, random.Random(chance), INDIFFERENT)
        cluster = consolidated(world.advance(30))
        for _ in range(12):
            before = len(cluster.cluster.evicted)
            churn.happen()
            cluster.run(300)
            moves = Counter(cluster.cluster.evicted[before:])
            assert max(moves.values(), default=0) <= MOST_MOVES[scoring], (chance, moves)
        ends |= {*cluster.ends}
        cluster.run(TEN_MINUTES_S)
        calm = cluster.cluster.evicted.copy()
        assert cluster.run(TEN_MINUTES_S).cluster.evicted == calm, chance
    assert SetState.EMPTY in ends, "the churn gave the plugin nothing to do"


def test_where_the_scheduler_packs_no_pod_moves_from_one_empty_node_to_the_next() -> None:
    """The pods of a StatefulSet are spread by default: to an empty node, if there is one."""
    for chance in range(6):
        world = SimulatedCluster(scoring=MOST_ALLOCATED, chance=chance)
        world.nodes(*(f"n{i}/a" for i in range(8)))
        rng = random.Random(chance)
        for name in "abcdef":
            pod = {"cpu": rng.choice(["250m", "500m", "1"]), "memory": "256Mi"}
            parallel = {"podManagementPolicy": "Parallel"}
            world.stateful_set(name, rng.randint(1, 4), parallel, **pod)
        cluster = consolidated(world.advance(60)).run(TEN_MINUTES_S)

        moves = Counter(cluster.cluster.evicted)
        assert max(moves.values(), default=0) <= 2, (chance, moves)


def test_beside_a_plugin_that_fills_empty_nodes_the_memory_of_moves_ends_the_contest() -> None:
    """Each undoes what the other does, which `policy check` says; a pod must not pay for it."""
    fills = low(thresholds={"cpu": 40}, targetThresholds={"cpu": 50})
    empties = plugin_from_policy(ConsolidateNodesPlugin, ConsolidateNodesArgs, minNodes=[])
    moved = 0
    for chance in range(3):
        world = SimulatedCluster(scoring=MOST_ALLOCATED, chance=chance)
        churn = Churn(world, random.Random(chance), INDIFFERENT)
        both = DescheduledCluster(
            world.advance(30), empties, fills, nodeFit=True, moves=MoveSettings()
        )
        cluster = TaintedCluster(both)
        for _ in range(6):
            churn.happen()
            cluster.run(300)
        moved += (before := len(both.evicted))
        cluster.run(3 * TEN_MINUTES_S)
        moves = Counter(both.evicted[before:])
        assert max(moves.values(), default=0) <= 2, (chance, moves)
    assert moved, "the churn gave the plugins nothing to do"


@pytest.mark.parametrize("kind", CLUSTERS)
def test_pods_that_the_scheduler_spreads_do_not_go_to_the_node_that_is_emptied_next(
    kind: str,
) -> None:
    results = [consolidate(drawn(kind, SPREADS, seed)) for seed in range(2)]

    assert all(each.freed and each.rests for each in results)
    assert [(each.again, each.returned, each.pending) for each in results] == [(0, 0, 0)] * 2


@pytest.mark.parametrize("scoring", [LEAST_ALLOCATED, MOST_ALLOCATED])
def test_it_frees_more_nodes_than_high_node_utilization_and_no_pod_comes_back(
    scoring: str,
) -> None:
    """On ten such clusters the page on ConsolidateNodes has the figures."""
    freed, returned = Counter[str](), Counter[str]()
    for chance in range(3):
        for plugin in (
            plugin_from_policy(ConsolidateNodesPlugin, ConsolidateNodesArgs, minNodes=[]),
            high(thresholds={"cpu": 30}),
        ):
            world = eight_nodes(scoring, chance)
            before, moves = len(used(world)), MoveSettings()
            cluster = DescheduledCluster(world, plugin, nodeFit=True, moves=moves)
            TaintedCluster(cluster).run(TEN_MINUTES_S)
            freed[plugin.name] += before - len(used(world))
            returned[plugin.name] += sum(each.end.result == RETURNED for each in cluster.ended)

    assert freed["ConsolidateNodes"] > freed["HighNodeUtilization"]
    assert returned["ConsolidateNodes"] == 0
    assert returned["HighNodeUtilization"] > 0, "the clusters show nothing"


def eight_nodes(scoring: str, chance: int) -> SimulatedCluster:
    world = SimulatedCluster(scoring=scoring, chance=chance).nodes(*(f"n{i}/a" for i in range(8)))
    rng = random.Random(chance)
    for name in "abcdef":
        replicas, cpu = rng.randint(1, 4), rng.choice(["250m", "500m", "1"])
        world.deployment(name, replicas, cpu=cpu, memory="256Mi")
    return world.advance(60)
