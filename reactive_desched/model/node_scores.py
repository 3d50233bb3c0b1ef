"""Scores nodes as the kube-scheduler's plugins do: 0 to 100 each, weighted, summed up.

The normalizers take the raw scores that occur among the feasible nodes, and return the points of
each.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import floor, log, sqrt
from typing import Final

from msgspec import Struct

from reactive_desched.model.node_affinity import PreferredTerm
from reactive_desched.model.objects import (
    HOSTNAME_LABEL,
    ZONE_LABEL,
    Pod,
    TopologySpreadConstraint,
    controller_of,
)
from reactive_desched.model.pod_importance import STATEFUL_SET
from reactive_desched.model.resources import CPU, MEMORY

MAX_SCORE: Final = 100

RESOURCES_FIT_WEIGHT: Final = 1
BALANCED_ALLOCATION_WEIGHT: Final = 1
TAINT_TOLERATION_WEIGHT: Final = 3
NODE_AFFINITY_WEIGHT: Final = 2
INTER_POD_AFFINITY_WEIGHT: Final = 2
TOPOLOGY_SPREAD_WEIGHT: Final = 2
DYNAMIC_RESOURCES_WEIGHT: Final = 2
IMAGE_LOCALITY_WEIGHT: Final = 1

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


LEAST_ALLOCATED: Final = "LeastAllocated"
MOST_ALLOCATED: Final = "MostAllocated"
REQUESTED_TO_CAPACITY_RATIO: Final = "RequestedToCapacityRatio"
"""The scoring strategies of NodeResourcesFit, as the configuration of the scheduler has them."""

LATEST: Final = "latest"
"""The tag of an image whose name has none."""

_LEAST_IMAGE_BYTES: Final = 23 * 1024 * 1024
_IMAGE_BYTES: Final = 1000 * 1024 * 1024
"""So much of images gives no points, and so much for each container all of them."""

Held = tuple[int, int]
"""Of one resource: what a node has for pods, and what they request, the incoming one included."""


class Allocation(Struct, frozen=True):
    """The scores of NodeResourcesFit: its `scoringStrategy`.

    Each of the `resources` has a weight. `shape`, for RequestedToCapacityRatio alone, has points of
    utilization in percent, rising, each with its score of 0 to 100.
    """

    strategy: str = LEAST_ALLOCATED
    resources: tuple[tuple[str, int], ...] = ((CPU, 1), (MEMORY, 1))
    shape: tuple[tuple[int, int], ...] = ()

    def points(self, held: Iterable[Held | None]) -> int:
        """Score a node by what it has of each of the resources; None: one that does not count."""
        is_ratio, total, weights = self.strategy == REQUESTED_TO_CAPACITY_RATIO, 0, 0
        for (_, weight), each in zip(self.resources, held, strict=True):
            if each is not None and each[0] > 0 and ((points := self._of(each)) or not is_ratio):
                total += points * weight
                weights += weight
        if not weights:
            return 0
        return floor(total / weights + 0.5) if is_ratio else total // weights

    def _of(self, held: Held) -> int:
        total, requested = held
        if self.strategy == LEAST_ALLOCATED:
            return max(0, total - requested) * MAX_SCORE // total
        if self.strategy == MOST_ALLOCATED:
            return min(requested, total) * MAX_SCORE // total
        return _on_line(self.shape, 100 if requested > total else requested * 100 // total)


SPREADING: Final = Allocation()
PACKING: Final = Allocation(MOST_ALLOCATED)
"""The mean free share of cpu and memory, which is the default, and the mean used share."""


class ScoreRules(Struct, frozen=True):
    """The scores of a scheduler's profile: the weight of each plugin, 0 where it is switched off.

    NodeResourcesBalancedAllocation weighs the resources `balanced`. NodeAffinity adds the terms
    `added_preferred` to those of each pod. Required affinity of a pod that is there has the weight
    `hard_pod_affinity`; pods without preferred affinity of their own `ignore_others_affinity`.
    PodTopologySpread spreads pods that declare no constraint by `default_spread`, which has no
    selectors; of nodes that lack a label of those, all points are lost where `spread_needs_labels`,
    and otherwise that label is left out.
    """

    allocation: Allocation = SPREADING
    resources_fit: int = RESOURCES_FIT_WEIGHT
    balanced_allocation: int = BALANCED_ALLOCATION_WEIGHT
    taint_toleration: int = TAINT_TOLERATION_WEIGHT
    node_affinity: int = NODE_AFFINITY_WEIGHT
    inter_pod_affinity: int = INTER_POD_AFFINITY_WEIGHT
    topology_spread: int = TOPOLOGY_SPREAD_WEIGHT
    dynamic_resources: int = DYNAMIC_RESOURCES_WEIGHT
    image_locality: int = IMAGE_LOCALITY_WEIGHT
    balanced: tuple[str, ...] = SCORED_RESOURCES
    added_preferred: tuple[PreferredTerm, ...] = ()
    hard_pod_affinity: int = HARD_POD_AFFINITY_WEIGHT
    ignore_others_affinity: bool = False
    default_spread: tuple[TopologySpreadConstraint, ...] = tuple(
        TopologySpreadConstraint(max_skew, key) for key, max_skew in DEFAULT_SPREAD
    )
    spread_needs_labels: bool = False


DEFAULT_SCORES: Final = ScoreRules()


def is_spread_by_default(pod: Pod) -> bool:
    """Say whether default constraints of PodTopologySpread hold for a pod that declares none."""
    owner = controller_of(pod.owners)
    return owner is not None and owner.kind in DEFAULT_SPREAD_OWNERS


def is_replaced_once_gone(pod: Pod) -> bool:
    """Say whether a pod's controller makes its replacement only once the pod is gone.

    A StatefulSet does, for the name; the others do while the pod shuts down, and its requests and
    its affinity count on its node until it is gone.
    """
    owner = controller_of(pod.owners)
    return owner is not None and owner.kind == STATEFUL_SET


def balanced_allocation(held: Iterable[Held], wanted: Iterable[int]) -> int:
    """Score a node by how much more alike its resources fill up with a pod that wants so much.

    As the kube-scheduler from 1.36 on; before, it scored by how alike they are with the pod.
    """
    after = list(held)
    before = [
        (total, requested - more) for (total, requested), more in zip(after, wanted, strict=True)
    ]
    half = MAX_SCORE // 2
    return half + (half + _balance(after) - _balance(before)) // 2


def _balance(resources: Iterable[Held]) -> int:
    """Return 100 for a node whose resources are used alike, and 50 for one all unlike."""
    shares = [min(1.0, requested / total) for total, requested in resources if total > 0]
    if len(shares) <= len(SCORED_RESOURCES):
        deviation = abs((shares[0] - shares[-1]) / 2) if shares else 0.0
    else:
        mean = sum(shares) / len(shares)
        deviation = sqrt(sum((share - mean) * (share - mean) for share in shares) / len(shares))
    return int((1 - deviation) * MAX_SCORE)


def is_scored_by_balance(requests: Mapping[str, int]) -> bool:
    """Say whether a pod asks for what NodeResourcesBalancedAllocation weighs, cpu or memory."""
    return any(requests.get(resource, 0) for resource in SCORED_RESOURCES)


def image_locality(found_bytes: int, containers: int) -> int:
    """Score a node by how much it has of the images of a pod with so many containers."""
    most = _IMAGE_BYTES * containers
    between = max(_LEAST_IMAGE_BYTES, min(found_bytes, most)) - _LEAST_IMAGE_BYTES
    return MAX_SCORE * between // (most - _LEAST_IMAGE_BYTES)


def spread_image_bytes(size: int, having: int, nodes: int) -> int:
    """Return what counts of the size of an image that so many of the nodes have.

    The fewer have it the less counts, so that not all pods go to the nodes of the first ones.
    """
    return int(size * (having / nodes))


def normalized_image(name: str) -> str:
    """Return the name of an image as nodes have it: with a tag or a digest."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:{LATEST}"


def share_of_highest(raw: Collection[int]) -> Mapping[int, int]:
    """Normalize weights of preferred node affinity, or ranks of devices: the highest has all."""
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


def _on_line(shape: Sequence[tuple[int, int]], at: int) -> int:
    """Return the score at a utilization on a line through the points of a shape.

    Like the kube-scheduler, it rounds towards the score of the point before.
    """
    x0, y0 = shape[0]
    for x1, y1 in shape:
        if at <= x1:
            rise = (y1 - y0) * (at - x0)
            return y0 if x1 == x0 else y0 + int(rise / (x1 - x0))
        x0, y0 = x1, y1
    return y0
