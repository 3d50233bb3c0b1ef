"""Scores nodes as the kube-scheduler's default plugins do: 0 to 100 each, weighted, summed up.

The normalizers take the raw scores that occur among the feasible nodes, and return the points of
each. ImageLocality is left out, since images on nodes are not read.
"""

from collections.abc import Collection, Iterable, Mapping
from math import floor, log
from typing import Final

from reactive_desched.model.objects import HOSTNAME_LABEL, ZONE_LABEL
from reactive_desched.model.resources import CPU, MEMORY

MAX_SCORE: Final = 100

RESOURCES_FIT_WEIGHT: Final = 1
BALANCED_ALLOCATION_WEIGHT: Final = 1
TAINT_TOLERATION_WEIGHT: Final = 3
NODE_AFFINITY_WEIGHT: Final = 2
INTER_POD_AFFINITY_WEIGHT: Final = 2
TOPOLOGY_SPREAD_WEIGHT: Final = 2

HARD_POD_AFFINITY_WEIGHT: Final = 1
"""What the required affinity of a pod that is there adds for a pod that it matches."""

DEFAULT_CONTAINER_REQUESTS: Final = {CPU: "100m", MEMORY: "200Mi"}
"""What NodeResourcesFit takes for the requests of a container that names none."""

SCORED_RESOURCES: Final = (CPU, MEMORY)

DEFAULT_SPREAD: Final = ((HOSTNAME_LABEL, 3), (ZONE_LABEL, 5))
"""The topology keys, each with its maxSkew, over which PodTopologySpread spreads pods that declare
no constraint of their own."""

DEFAULT_SPREAD_OWNERS: Final = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet"})
"""The kinds of controllers whose pods are spread by default. A Service that selects a pod is a
reason for the kube-scheduler, too; Services are not read."""


Held = tuple[int, int]
"""Of one resource: what a node has for pods, and what they request, the incoming one included."""


def least_allocated(*resources: Held) -> int:
    """Score a node by the mean free share of cpu and memory."""
    shares = [
        max(0, total - requested) * MAX_SCORE // total
        for total, requested in resources
        if total > 0
    ]
    return sum(shares) // len(shares) if shares else 0


def most_allocated(*resources: Held) -> int:
    """Score a node by the mean used share of cpu and memory, as a scheduler that packs."""
    shares = [
        min(requested, total) * MAX_SCORE // total for total, requested in resources if total > 0
    ]
    return sum(shares) // len(shares) if shares else 0


def balanced_allocation(*resources: Held) -> int:
    """Score a node by how alike cpu and memory fill up."""
    shares = [min(1.0, requested / total) for total, requested in resources if total > 0]
    deviation = abs((shares[0] - shares[-1]) / 2) if shares else 0.0
    return int((1 - deviation) * MAX_SCORE)


def resource_points(allocation: int, balance: Iterable[Held] = ()) -> int:
    """Sum what is said of a node by its resources, for one pod.

    `allocation` is the score by how much is free or used; `balance` are cpu and memory for a pod
    that requests one of them, and nothing for any other one, of which no balance is asked.
    """
    points = RESOURCES_FIT_WEIGHT * allocation
    if held := tuple(balance):
        points += BALANCED_ALLOCATION_WEIGHT * balanced_allocation(*held)
    return points


def is_scored_by_balance(requests: Mapping[str, int]) -> bool:
    """Say whether a pod asks for what NodeResourcesBalancedAllocation weighs, cpu or memory."""
    return any(requests.get(resource, 0) for resource in SCORED_RESOURCES)


def share_of_highest(raw: Collection[int]) -> Mapping[int, int]:
    """Normalize the weights of preferred node affinity: the highest has all points."""
    highest = max(raw, default=0)
    return {score: MAX_SCORE * score // highest if highest else score for score in raw}


def fewest_best(raw: Collection[int]) -> Mapping[int, int]:
    """Normalize numbers of soft taints that are not tolerated: none has all points."""
    most = max(raw, default=0)
    return {number: MAX_SCORE - MAX_SCORE * number // (most or 1) for number in raw}


def between_extremes(raw: Collection[int]) -> Mapping[int, int]:
    """Normalize the pull of other pods: the lowest has no points, the highest all of them."""
    low, high = min(raw, default=0), max(raw, default=0)
    between = high - low
    return {score: int(MAX_SCORE * ((score - low) / between)) if between else 0 for score in raw}


def spread_cost(count: int, max_skew: int, domains: int) -> float:
    """Weigh what one constraint says of a domain with so many pods, of so many domains."""
    return count * log(domains + 2) + (max_skew - 1)


def rounded_cost(cost: float) -> int:
    """Round the sum of a node's spread costs, which is never negative, as the kube-scheduler."""
    return floor(cost + 0.5)


def least_spread_cost_best(raw: Collection[int]) -> Mapping[int, int]:
    """Normalize the rounded sums of spread costs: the fewer pods are there, the more points."""
    low, high = min(raw, default=0), max(raw, default=0)
    return {cost: MAX_SCORE * (high + low - cost) // high if high else MAX_SCORE for cost in raw}
