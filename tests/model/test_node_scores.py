"""The arithmetic of scores, by the examples of the Kubernetes documentation and sources."""

import pytest
from msgspec.structs import replace

from reactive_desched.model import node_scores
from reactive_desched.model.node_scores import Allocation

GI = 2**30


def held(cpu_m: int, memory: int) -> tuple[node_scores.Held, node_scores.Held]:
    """Return so much requested of a node of four cores and eight gibibytes."""
    return (4000, cpu_m), (8 * GI, memory)


@pytest.mark.parametrize(
    ("cpu_m", "memory", "least", "most"),
    [
        pytest.param(1000, 2 * GI, 75, 25, id="a quarter of both"),
        pytest.param(3000, 2 * GI, 50, 50, id="three quarters and a quarter"),
        pytest.param(400, 8 * GI * 9 // 10, 50, 49, id="a tenth and nine tenths"),
        pytest.param(8000, 0, 50, 50, id="more than there is"),
    ],
)
def test_a_node_is_scored_by_what_is_left_or_by_what_is_used(
    cpu_m: int, memory: int, least: int, most: int
) -> None:
    resources = held(cpu_m, memory)

    assert node_scores.SPREADING.points(resources) == least
    assert node_scores.PACKING.points(resources) == most


@pytest.mark.parametrize(
    ("cpu_m", "memory", "wanted", "points"),
    [
        pytest.param(0, 0, (1000, 2 * GI), 75, id="as alike as before"),
        pytest.param(0, 0, (3000, 2 * GI), 62, id="less alike"),
        pytest.param(0, 0, (4000, 0), 50, id="all unlike"),
        pytest.param(1000, 6 * GI, (2000, 0), 87, id="more alike"),
        pytest.param(4000, 0, (0, 8 * GI), 100, id="all alike"),
        pytest.param(4000, 8 * GI, (1000, 0), 75, id="what is more than there is does not count"),
    ],
)
def test_a_node_is_scored_by_how_a_pod_makes_cpu_and_memory_fill_up_alike(
    cpu_m: int, memory: int, wanted: tuple[int, int], points: int
) -> None:
    after = held(cpu_m + wanted[0], memory + wanted[1])

    assert node_scores.balanced_allocation(after, wanted) == points


def test_what_a_node_does_not_offer_does_not_count() -> None:
    resources = (4000, 1000), (0, GI)

    assert node_scores.SPREADING.points(resources) == 75
    assert node_scores.balanced_allocation(resources, (1000, GI)) == 75
    assert node_scores.SPREADING.points(((0, 5), (0, 5))) == 0


def test_raw_scores_become_points_between_the_lowest_and_the_highest() -> None:
    assert node_scores.share_of_highest([0, 30, 120]) == {0: 0, 30: 25, 120: 100}
    assert node_scores.share_of_highest([0]) == {0: 0}
    assert node_scores.fewest_best([0, 1, 3]) == {0: 100, 1: 67, 3: 0}
    assert node_scores.fewest_best([0]) == {0: 100}
    assert node_scores.between_extremes([-100, 0, 100]) == {-100: 0, 0: 50, 100: 100}
    assert node_scores.between_extremes([7]) == {7: 0}
    assert node_scores.least_spread_cost_best([2, 4]) == {2: 100, 4: 50}
    assert node_scores.least_spread_cost_best([0]) == {0: 100}


def test_a_domain_costs_by_its_pods_and_by_how_many_domains_there_are() -> None:
    assert node_scores.spread_cost(0, 5, 3) == 4
    assert node_scores.rounded_cost(node_scores.spread_cost(2, 1, 2)) == 3
    assert node_scores.rounded_cost(2.5) == 3


RATIO = Allocation(
    node_scores.REQUESTED_TO_CAPACITY_RATIO,
    (("example.com/foo", 5), ("memory", 1), ("cpu", 3)),
    ((0, 0), (100, 100)),
)


@pytest.mark.parametrize(
    ("shape", "held", "points"),
    [
        pytest.param(RATIO.shape, ((4, 3), (1024, 512), (8, 3)), 60, id="each weighted, rounded"),
        pytest.param(RATIO.shape, (None, (1024, 512), (8, 3)), 40, id="without one"),
        pytest.param(RATIO.shape, ((4, 9), (1024, 0), (0, 3)), 100, id="those with points alone"),
        pytest.param(((0, 100), (100, 0)), ((4, 3), None, (8, 3)), 39, id="a falling line"),
        pytest.param(((20, 10), (40, 90)), ((100, 10), None, None), 10, id="before the first"),
        pytest.param(((20, 10), (40, 90)), ((100, 33), None, None), 62, id="between two"),
        pytest.param(((20, 10), (40, 90)), ((100, 99), None, None), 90, id="behind the last"),
        pytest.param(((0, 100), (30, 0)), ((100, 10), None, None), 67, id="rounded as it falls"),
    ],
)
def test_a_node_is_scored_by_a_line_through_the_points_of_a_shape(
    shape: tuple[tuple[int, int], ...],
    held: tuple[node_scores.Held | None, ...],
    points: int,
) -> None:
    assert replace(RATIO, shape=shape).points(held) == points


@pytest.mark.parametrize(
    ("strategy", "points"),
    [(node_scores.LEAST_ALLOCATED, 57), (node_scores.MOST_ALLOCATED, 42)],
)
def test_weights_are_those_of_resources_that_count(strategy: str, points: int) -> None:
    resources = ("cpu", 3), ("memory", 1), ("example.com/gpu", 7)
    held = (4000, 2000), (1000, 200), None

    assert Allocation(strategy, resources).points(held) == points
    assert Allocation(strategy, resources).points((None, (0, 1), None)) == 0
