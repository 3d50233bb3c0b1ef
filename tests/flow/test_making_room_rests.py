"""MakeRoomForPending comes to rest on a simulated cluster whose scheduler gives rooms to anyone."""

import random
from collections import Counter

import pytest

from reactive_desched.plugins.make_room_for_pending import (
    MakeRoomForPendingArgs,
    MakeRoomForPendingPlugin,
)
from reactive_desched.sim.scheduling.scores import LEAST_ALLOCATED, MOST_ALLOCATED
from reactive_desched.testing.scenario import plugin_from_policy
from tests.flow.test_no_loops import INDIFFERENT, TEN_MINUTES_S, Churn
from tests.support.configurations import UNLIMITED_MOVES
from tests.support.descheduled import DescheduledCluster
from tests.support.nominating import NominatingCluster
from tests.support.sim_world import SimulatedCluster

MOVES = UNLIMITED_MOVES.model_copy(update={"futile_backoff_s": 300.0})


def making_room(world: SimulatedCluster) -> NominatingCluster:
    plugin = plugin_from_policy(MakeRoomForPendingPlugin, MakeRoomForPendingArgs, wait="10s")
    return NominatingCluster(DescheduledCluster(world, plugin, nodeFit=True, moves=MOVES))


def two_nodes_with_two_free_cpus(scoring: str) -> SimulatedCluster:
    """Return two nodes of 4 CPUs with two pods of 1 each, and a pod of 3 that waits."""
    world = SimulatedCluster(scoring=scoring).nodes("n1/a", "n2/a")
    for closed, apps in (("n2", "ab"), ("n1", "cd")):
        world.edit("nodes", closed, unschedulable=True)
        for app in apps:
            world.deployment(app, 1, cpu="1", memory="256Mi")
        world.advance(30)
        world.edit("nodes", closed, unschedulable=False)
    world.deployment("big", 1, cpu="3", memory="256Mi")
    return world.advance(30)


@pytest.mark.parametrize("scoring", [LEAST_ALLOCATED, MOST_ALLOCATED])
def test_where_the_scheduler_gives_the_room_away_moves_become_ever_rarer(scoring: str) -> None:
    """The replacement itself takes it, as its node is the emptiest then."""
    world = two_nodes_with_two_free_cpus(scoring)
    cluster = making_room(world).run(3600)

    assert 1 <= len(cluster.cluster.evicted) <= 4
    assert len({at // 60 for at in cluster.cluster.evicted_at_s}) == len(cluster.cluster.evicted)


@pytest.mark.parametrize("scoring", [LEAST_ALLOCATED, MOST_ALLOCATED])
def test_in_an_hour_of_churn_no_pod_is_moved_on_and_on(scoring: str) -> None:
    rooms = moved = 0
    for chance in range(6):
        world = SimulatedCluster(scoring=scoring, chance=chance)
        churn = Churn(world, random.Random(chance), INDIFFERENT)
        world.stateful_set("big", 3, cpu="3", memory="256Mi")
        cluster = making_room(world.advance(30))
        for _ in range(12):
            before = len(cluster.cluster.evicted)
            churn.happen()
            cluster.run(300)
            moves = Counter(cluster.cluster.evicted[before:])
            assert max(moves.values(), default=0) <= 2, (chance, moves)
        rooms += len(cluster.rooms)
        moved += len(cluster.cluster.evicted)
        cluster.run(2 * TEN_MINUTES_S)
        calm = len(cluster.cluster.evicted)
        cluster.run(TEN_MINUTES_S)
        assert len(cluster.cluster.evicted) - calm <= 3, (chance, cluster.cluster.evicted[calm:])
    assert rooms, "the churn gave the plugin nothing to do"
    assert moved, "no pod moved"
