"""Which nodes are emptied, in clusters small enough to see why."""

from collections.abc import Iterable

import pytest

from reactive_desched.draining import emptying
from reactive_desched.draining.emptying import EmptyingPlan, Giver, plan_emptying
from tests.draining.small_clusters import (
    SmallCluster,
    SmallNode,
    SmallPlaces,
    SmallPod,
    random_cluster,
    search,
)
from tests.support.planned import planned

ANYWHERE = (1 << 8) - 1

HARD = 13
"""A cluster where it takes some orders to find the two nodes that can be emptied."""


def cluster(*used: Iterable[int], zones: str = "aaaaaaaa") -> SmallCluster:
    """Build nodes of 4000 milli-cores whose pods use so much; no pods is an empty node."""
    nodes = [SmallNode(n, 4000, 64, zones[n]) for n in range(len(used))]
    pods = [
        SmallPod(f"n{n}-{i}", n, cpu, 1, ANYWHERE)
        for n, cpus in enumerate(used)
        for i, cpu in enumerate(cpus)
    ]
    return SmallCluster(tuple(nodes), tuple(pods))


def moves(plan: EmptyingPlan[SmallPod]) -> list[tuple[str, int]]:
    return [(pod.name, to) for each in plan.nodes for pod, to in each.places]


def test_a_node_whose_pods_fit_elsewhere_is_emptied_as_a_whole() -> None:
    places = dict(moves(search(cluster([500, 500], [3500], [3500]))))

    assert places.keys() == {"n0-0", "n0-1"}
    assert {*places.values()} == {1, 2}


def test_no_pod_moves_where_one_of_its_node_has_no_place() -> None:
    assert moves(search(cluster([500, 1000], [3500], [3500]))) == []


def test_nodes_that_are_all_used_little_are_emptied_onto_one_another() -> None:
    plan = search(cluster([1000], [1000], [1000], [1000]))

    assert len(plan.nodes) == 3
    assert len({to for _, to in moves(plan)}) == 1


def test_an_empty_node_takes_no_pod() -> None:
    assert moves(search(cluster([3000], [], [3000]))) == []


def test_where_either_of_two_nodes_can_be_emptied_it_is_the_one_with_fewer_pods() -> None:
    few = cluster([500, 500], [1000], [3000])
    givers = [each for each in few.givers if each.node != 2]

    plan = planned(plan_emptying(givers, 0b100, SmallPlaces(few), few.budgets))

    assert moves(plan) == [("n1-0", 2)]


def test_one_node_of_each_zone_stays() -> None:
    plan = search(cluster([500], [500], [500], [500], zones="aabb"))

    taken = (str(key) for each in plan.nodes for key in each.giver.takes)
    assert sorted(key for key in taken if key in {"a", "b"}) == ["a", "b"]


def test_a_larger_saving_is_worth_more_moves() -> None:
    few, dear = cluster([1000], [500, 500], [3000]), 1
    givers = [
        Giver(each.node, each.pods, each.cost, 5.0 if each.node == dear else 1.0)
        for each in few.givers
        if each.node != 2
    ]

    plan = planned(plan_emptying(givers, 0b100, SmallPlaces(few), few.budgets))

    assert [each.giver.node for each in plan.nodes] == [dear]


def test_no_more_nodes_are_emptied_than_are_wanted_and_those_with_fewest_pods() -> None:
    few = cluster([500, 500, 500], [500], [500, 500], [500])

    assert {each.giver.node for each in search(few, enough=2.0).nodes} == {1, 3}


def test_the_pods_of_a_few_nodes_go_to_the_fullest_of_the_others() -> None:
    few = cluster([500], [1000], [3000], [2000])

    assert moves(search(few, enough=1.0)) == [("n0-0", 2)]


def test_nothing_stays_tried_where_the_search_is_finished() -> None:
    few = cluster([1000], [1000], [1000])
    places = SmallPlaces(few)
    steps = plan_emptying(few.givers, few.takers, places, few.budgets)
    while not places.tried:
        next(steps)

    assert planned(steps).nodes
    assert not places.tried


def test_a_plan_has_no_more_moves_than_are_made_before_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(emptying, "MAX_MOVES", 2)

    assert len(moves(search(cluster([500], [500], [500], [500], [500])))) == 2


def test_more_orders_are_tried_but_where_there_are_very_many_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hard = random_cluster(HARD)
    found = len(search(hard).nodes)

    monkeypatch.setattr(emptying, "MAX_SHUFFLED", 2)

    assert len(search(hard).nodes) < found
