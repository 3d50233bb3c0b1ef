"""The arithmetic of scores, by the examples of the Kubernetes documentation and sources."""

import pytest

from reactive_desched.model import node_scores

GI = 2**30


def held(cpu_m: int, memory: int) -> tuple[node_scores.Held, node_scores.Held]:
    """Return so much requested of a node of four cores and eight gibibytes."""
    return (4000, cpu_m), (8 * GI, memory)


@pytest.mark.parametrize(
    ("cpu_m", "memory", "least", "most", "balanced"),
    [
        pytest.param(1000, 2 * GI, 75, 25, 100, id="a quarter of both"),
        pytest.param(3000, 2 * GI, 50, 50, 75, id="three quarters and a quarter"),
        pytest.param(400, 8 * GI * 9 // 10, 50, 49, 60, id="a tenth and nine tenths"),
        pytest.param(8000, 0, 50, 50, 50, id="more than there is"),
    ],
)
def test_a_node_is_scored_by_what_is_left_what_is_used_and_how_alike(
    cpu_m: int, memory: int, least: int, most: int, balanced: int
) -> None:
    resources = held(cpu_m, memory)

    assert node_scores.least_allocated(*resources) == least
    assert node_scores.most_allocated(*resources) == most
    assert node_scores.balanced_allocation(*resources) == balanced


def test_what_a_node_does_not_offer_does_not_count() -> None:
    resources = (4000, 1000), (0, GI)

    assert node_scores.least_allocated(*resources) == 75
    assert node_scores.balanced_allocation(*resources) == 100
    assert node_scores.least_allocated((0, 5)) == 0


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
