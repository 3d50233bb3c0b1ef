"""Nodes of a zone that is lost are emptied one after the other, or not at all."""

import pytest

from tests.support.sim_world import SimulatedCluster

EVICTS = "node.kubernetes.io/unreachable:NoExecute"
NOTICED_S = 50


def emptied(world: SimulatedCluster) -> list[str]:
    """Return the nodes whose pods are evicted."""
    names = [node["metadata"]["name"] for node in world.store.list("nodes")]
    return [name for name in names if EVICTS in world.taints(name)]


def lost(zones: dict[str, int], lose: dict[str, int]) -> SimulatedCluster:
    """Return a cluster of so many nodes a zone, of which so many have just been given up."""
    world = SimulatedCluster()
    for zone, count in zones.items():
        world.nodes(*(f"{zone}{index:02d}/{zone}" for index in range(count)))
    for zone, count in lose.items():
        for index in range(count):
            world.cluster.stop_node(f"{zone}{index:02d}")
    world.advance(NOTICED_S)
    return world


def test_a_whole_zone_is_emptied_by_a_node_each_ten_seconds() -> None:
    world = lost({"a": 3, "b": 2}, {"a": 3})
    seen = [len(emptied(world))]
    for _ in range(3):
        world.advance(10)
        seen.append(len(emptied(world)))

    assert seen == [1, 2, 3, 3]


def test_a_small_zone_most_of_which_is_lost_is_not_emptied_until_it_gets_better() -> None:
    world = lost({"a": 5, "b": 2}, {"a": 3})
    world.advance(300)
    assert emptied(world) == []

    world.cluster.start_node("a00")
    world.advance(9)
    assert emptied(world) == []
    world.advance(1)
    assert emptied(world) == ["a01"]
    world.advance(10)

    assert emptied(world) == ["a01", "a02"]


def test_a_large_zone_most_of_which_is_lost_is_emptied_by_a_node_each_hundred_seconds() -> None:
    world = lost({"a": 51, "b": 1}, {"a": 30})
    first = len(emptied(world))
    world.advance(99)
    assert len(emptied(world)) == first
    world.advance(1)

    assert (first, len(emptied(world))) == (1, 2)


@pytest.mark.parametrize("zones", [{"a": 2}, {"a": 2, "b": 1}])
def test_where_no_node_is_left_none_is_emptied(zones: dict[str, int]) -> None:
    world = lost(zones, zones)
    world.advance(600)

    assert emptied(world) == []


def test_what_was_emptied_is_no_more_once_all_zones_are_lost() -> None:
    world = lost({"a": 1, "b": 1}, {"a": 1})
    assert emptied(world) == ["a00"]

    world.cluster.stop_node("b00")
    world.advance(NOTICED_S)

    assert emptied(world) == []
