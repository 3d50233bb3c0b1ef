"""The search for nodes to empty finds nearly as many as an exact solver, with few more moves."""

import os
from collections import Counter
from collections.abc import Callable

import pytest

from reactive_desched.draining.emptying import EmptyingPlan
from tests.draining.small_clusters import (
    SmallCluster,
    SmallPod,
    constrained_cluster,
    is_possible,
    random_cluster,
    search,
)

IS_DEEP = os.environ.get("TIER") == "deep"
SEEDS = range(int(os.environ.get("EXAMPLES", "500")) if IS_DEEP else 16)
DETERMINISTIC_TIME = 0.5 if IS_DEEP else 0.1


def rules_broken(cluster: SmallCluster, plan: EmptyingPlan[SmallPod]) -> list[str]:
    """Carry a plan out, node by node, and name what is wrong after each."""
    on = {node.number: set(cluster.on(node.number)) for node in cluster.nodes}
    left = dict(cluster.budgets)
    found: list[str] = []
    for emptied in plan.nodes:
        giver = emptied.giver
        for key, amount in giver.takes.items():
            left[key] -= amount
        for pod, to in emptied.places:
            on[pod.node].remove(pod)
            on[to].add(pod)
            found += [f"{pod.name} may not be on {to}"] * (not pod.allowed >> to & 1)
        found += [f"{giver.node} is not empty"] * bool(on[giver.node])
        found += [
            f"{n} has too much" for n, pods in on.items() if not is_possible(cluster.nodes[n], pods)
        ]
        found += [f"{pod.name} leaves and stays" for pod in on[giver.node] if pod.stays]
        for group in {pod.even for pod in cluster.pods if pod.even}:
            counts = Counter({node.zone: 0 for node in cluster.nodes})
            for n, pods in on.items():
                counts[cluster.nodes[n].zone] += sum(pod.even == group for pod in pods)
            found += [f"{group} is uneven"] * (max(counts.values()) - min(counts.values()) > 1)
        found += [f"too little of {key} is left" for key, n in left.items() if n < 0]
    final = {each.giver.node for each in plan.nodes}
    found += [f"{n} takes pods again" for n in final if on[n]]
    return found


@pytest.mark.hypothesis
@pytest.mark.parametrize("draw", [random_cluster, constrained_cluster])
def test_nearly_as_many_nodes_are_emptied_as_can_be_with_few_more_moves(
    draw: Callable[[int], SmallCluster],
) -> None:
    from tests.draining.exact_solver import Exact  # imports pandas, which each worker would

    emptied = most = moves = fewest = 0
    for seed in SEEDS:
        cluster = draw(seed)
        plan = search(cluster)
        assert rules_broken(cluster, plan) == [], seed
        exact = Exact(cluster, DETERMINISTIC_TIME)
        emptied += len(plan.nodes)
        most += exact.most_emptied(plan).value
        if (needed := exact.fewest_moves(len(plan.nodes))).is_proven:
            moves += sum(len(each.places) for each in plan.nodes)
            fewest += needed.value

    assert emptied >= 0.95 * most, (emptied, most)
    assert moves <= 1.2 * fewest, (moves, fewest)


@pytest.mark.hypothesis
def test_a_few_nodes_are_emptied_with_few_more_moves_than_are_needed() -> None:
    from tests.draining.exact_solver import Exact

    reached = reachable = moves = fewest = 0
    for seed in SEEDS:
        cluster = random_cluster(seed)
        wanted = 1 + seed % 3
        plan = search(cluster, enough=float(wanted))
        assert rules_broken(cluster, plan) == [], seed
        assert len(plan.nodes) <= wanted
        exact = Exact(cluster, DETERMINISTIC_TIME)
        reached += len(plan.nodes)
        reachable += min(wanted, exact.most_emptied(plan).value)
        if (needed := exact.fewest_moves(len(plan.nodes))).is_proven:
            moves += sum(len(each.places) for each in plan.nodes)
            fewest += needed.value

    assert reached >= 0.95 * reachable, (reached, reachable)
    assert moves <= 1.2 * fewest, (moves, fewest)
