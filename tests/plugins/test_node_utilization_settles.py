"""Balanced means balanced: once the scheduler has placed the pods, a second look finds nothing."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.plugins.high_node_utilization import (
    HighNodeUtilizationArgs,
    HighNodeUtilizationPlugin,
)
from reactive_desched.plugins.low_node_utilization import (
    LowNodeUtilizationArgs,
    LowNodeUtilizationPlugin,
)
from reactive_desched.sim.scheduling.scores import MOST_ALLOCATED
from reactive_desched.testing.scenario import plugin_from_policy
from tests.support.rounds import run_round
from tests.support.sim_world import SimulatedCluster

MAX_ROUNDS = 4
AS_THE_NODES = 2048
"""Mebibytes for each core: the simulated nodes have eight gibibytes and four cores."""


def low(**args: Any) -> LowNodeUtilizationPlugin:
    args = {"thresholds": {"cpu": 40}, "targetThresholds": {"cpu": 60}, **args}
    return plugin_from_policy(LowNodeUtilizationPlugin, LowNodeUtilizationArgs, **args)


def high(**args: Any) -> HighNodeUtilizationPlugin:
    args = {"thresholds": {"cpu": 40}, **args}
    return plugin_from_policy(HighNodeUtilizationPlugin, HighNodeUtilizationArgs, **args)


def crowded(
    world: SimulatedCluster, nodes: list[list[int]], mebibytes_per_core: int = 0
) -> SimulatedCluster:
    """Fill nodes with pods of so many milli-cores, each a Deployment of its own."""
    names = [f"n{number}" for number in range(len(nodes))]
    world.nodes(*names)
    for name, pods in zip(names, nodes, strict=True):
        _leave_open(world, names, {name})
        for number, size in enumerate(pods):
            requests = {"cpu": f"{size}m"}
            if mebibytes_per_core:
                requests["memory"] = f"{size * mebibytes_per_core // 1000}Mi"
            world.deployment(f"{name}-{number}", 1, **requests)
    world.advance(10)
    _leave_open(world, names, set(names))
    return world


def _leave_open(world: SimulatedCluster, names: list[str], chosen: set[str]) -> None:
    for name in names:
        world.edit("nodes", name, unschedulable=name not in chosen)


def used(world: SimulatedCluster) -> dict[str, int]:
    """Sum what the pods on each node request, in milli-cores."""
    total = dict.fromkeys((node["metadata"]["name"] for node in world.store.list("nodes")), 0)
    for pod in world.pods():
        [container] = pod["spec"]["containers"]
        total[pod["spec"]["nodeName"]] += int(container["resources"]["requests"]["cpu"][:-1])
    return total


def test_pods_of_a_full_node_move_to_one_that_joins() -> None:
    world = SimulatedCluster().nodes("n1")
    world.deployment("web", 7, cpu="500m")
    world.advance(10).nodes("n2")

    assert len(run_round(world, low())) == 3
    assert used(world) == {"n1": 2000, "n2": 1500}
    assert run_round(world, low()) == []


def test_a_hardly_used_node_is_emptied_where_the_scheduler_packs() -> None:
    world = crowded(SimulatedCluster(scoring=MOST_ALLOCATED), [[500] * 2, [500] * 5, [500] * 7])

    assert len(run_round(world, high())) == 2
    assert used(world) == {"n0": 0, "n1": 3000, "n2": 4000}
    assert run_round(world, high()) == []


alike = st.integers(1, 8).flatmap(
    lambda size: st.lists(
        st.integers(0, 32 // size).map(lambda pods: [size * 125] * pods), min_size=2, max_size=4
    )
)
mixed = st.lists(
    st.lists(st.sampled_from([125, 250, 500, 750, 1000]), max_size=4), min_size=2, max_size=4
)
limits = st.tuples(st.integers(1, 6), st.integers(1, 3))


def spreading(limits: tuple[int, int], *, deviation: bool) -> LowNodeUtilizationPlugin:
    low_percent, gap = limits[0] * 10, limits[1] * 10
    if deviation:
        apart = {"cpu": gap}
        return low(useDeviationThresholds=True, thresholds=apart, targetThresholds=apart)
    return low(thresholds={"cpu": low_percent}, targetThresholds={"cpu": low_percent + gap})


@given(nodes=alike, limits=limits, deviation=st.booleans())
def test_where_pods_are_alike_a_second_pass_over_spread_nodes_finds_nothing(
    nodes: list[list[int]], limits: tuple[int, int], *, deviation: bool
) -> None:
    world, plugin = crowded(SimulatedCluster(), nodes), spreading(limits, deviation=deviation)

    run_round(world, plugin)

    assert run_round(world, plugin) == []


@given(nodes=mixed, limits=limits, deviation=st.booleans())
def test_pods_of_any_size_come_to_rest(
    nodes: list[list[int]], limits: tuple[int, int], *, deviation: bool
) -> None:
    world, plugin = crowded(SimulatedCluster(), nodes), spreading(limits, deviation=deviation)
    before = max(used(world).values())

    rounds = 0
    while run_round(world, plugin):
        rounds += 1
        assert rounds <= MAX_ROUNDS

    assert max(used(world).values()) <= before


@given(nodes=alike | mixed, low_percent=st.integers(1, 9))
def test_a_second_pass_over_packed_nodes_finds_nothing(
    nodes: list[list[int]], low_percent: int
) -> None:
    world = crowded(SimulatedCluster(scoring=MOST_ALLOCATED), nodes, AS_THE_NODES)
    plugin = high(thresholds={"cpu": low_percent * 10})

    run_round(world, plugin)

    assert run_round(world, plugin) == []


def test_pods_that_request_no_memory_are_packed_as_balance_is_asked_for_what_a_pod_changes() -> (
    None
):
    """Before Kubernetes 1.36, BalancedAllocation took back what MostAllocated gives for cpu."""
    world = crowded(SimulatedCluster(scoring=MOST_ALLOCATED), [[125], [125], [500]])
    plugin = high(thresholds={"cpu": 10})

    assert len(run_round(world, plugin)) == 2
    assert used(world) == {"n0": 0, "n1": 0, "n2": 750}
    assert run_round(world, plugin) == []
