"""Which of the possible nodes is best: the kube-scheduler's weighted scores from 0 to 100.

Left out, because nothing here depends on them: image locality, and the pull of existing pods'
own preferred affinity on a newcomer.
"""

from collections.abc import Callable, Mapping, Sequence
from math import log
from typing import Final, TypeAlias

from reactive_desched.model.node_affinity import preferred_weight
from reactive_desched.model.objects import HOSTNAME_LABEL, ZONE_LABEL
from reactive_desched.model.resources import CPU, MEMORY
from reactive_desched.model.taints import PREFER_NO_SCHEDULE, untolerated
from reactive_desched.sim.scheduling.filters import Candidate
from reactive_desched.sim.scheduling.needs import SpreadConstraint
from reactive_desched.sim.scheduling.neighbours import domain_counts, term_covers
from reactive_desched.sim.scheduling.picture import NodeRoom, Picture

__all__ = [
    "LEAST_ALLOCATED",
    "MOST_ALLOCATED",
    "SCORING_STRATEGIES",
    "balanced_allocation",
    "best_of",
    "least_allocated",
    "most_allocated",
]

LEAST_ALLOCATED: Final = "LeastAllocated"
MOST_ALLOCATED: Final = "MostAllocated"
"""The scoring strategies of NodeResourcesFit, as the configuration of the scheduler has them."""

Rooms: TypeAlias = Sequence[NodeRoom]
Score: TypeAlias = Callable[[Candidate, Rooms, Picture], Sequence[float]]

_FULL: Final = 100


def best_of(
    pod: Candidate, rooms: Rooms, picture: Picture, scoring: str = LEAST_ALLOCATED
) -> list[NodeRoom]:
    """Return the nodes that share the highest total score, in the order given."""
    totals = [0.0] * len(rooms)
    for weight, score in ((1, SCORING_STRATEGIES[scoring]), *_OTHER_SCORES):
        for index, points in enumerate(score(pod, rooms, picture)):
            totals[index] += weight * points
    highest = max(totals)
    return [room for room, total in zip(rooms, totals, strict=True) if total == highest]


def least_allocated(pod: Candidate, rooms: Rooms, _: Picture) -> Sequence[float]:
    """Prefer nodes with much left: the mean free share of cpu and memory, in whole points."""
    cpu, memory = pod.needs.scored_cpu_m, pod.needs.scored_memory
    return [_mean_free(room, cpu, memory) for room in rooms]


def most_allocated(pod: Candidate, rooms: Rooms, _: Picture) -> Sequence[float]:
    """Prefer nodes with little left: the mean used share of cpu and memory, in whole points."""
    cpu, memory = pod.needs.scored_cpu_m, pod.needs.scored_memory
    return [_mean_used(room, cpu, memory) for room in rooms]


def _mean_used(room: NodeRoom, cpu_m: int, memory: int) -> int:
    shares: list[int] = []
    for resource, more in ((CPU, cpu_m), (MEMORY, memory)):
        if (total := room.allocatable.get(resource, 0)) > 0:
            shares.append(min(room.scored[resource] + more, total) * _FULL // total)
    return sum(shares) // len(shares) if shares else 0


def _mean_free(room: NodeRoom, cpu_m: int, memory: int) -> int:
    shares: list[int] = []
    for resource, more in ((CPU, cpu_m), (MEMORY, memory)):
        if (total := room.allocatable.get(resource, 0)) > 0:
            left = total - room.scored[resource] - more
            shares.append(max(0, left) * _FULL // total)
    return sum(shares) // len(shares) if shares else 0


def balanced_allocation(pod: Candidate, rooms: Rooms, _: Picture) -> Sequence[float]:
    """Prefer nodes whose cpu and memory fill up alike; pods without requests do not care."""
    if not any(pod.needs.requests.values()):
        return [0] * len(rooms)
    cpu, memory = pod.needs.requests.get(CPU, 0), pod.needs.requests.get(MEMORY, 0)
    return [_balance(room, cpu, memory) for room in rooms]


def _balance(room: NodeRoom, cpu_m: int, memory: int) -> int:
    shares: list[float] = []
    for resource, more in ((CPU, cpu_m), (MEMORY, memory)):
        if (total := room.allocatable.get(resource, 0)) > 0:
            shares.append(min(1.0, (room.requested.get(resource, 0) + more) / total))
    both = 2
    spread = abs(shares[0] - shares[1]) / 2 if len(shares) == both else 0.0
    return int((1 - spread) * _FULL)


def taints_preferred(pod: Candidate, rooms: Rooms, _: Picture) -> Sequence[float]:
    """Avoid nodes with soft taints that the pod does not tolerate."""
    tolerations = tuple(t for t in pod.needs.tolerations if t.effect in ("", PREFER_NO_SCHEDULE))
    counts = [
        sum(1 for _ in untolerated(tolerations, soft))
        for soft in ([t for t in r.taints if t.effect == PREFER_NO_SCHEDULE] for r in rooms)
    ]
    worst = max(counts)
    if worst == 0:
        return [_FULL] * len(rooms)
    return [_FULL - _FULL * count // worst for count in counts]


def affinity_preferred(pod: Candidate, rooms: Rooms, _: Picture) -> Sequence[float]:
    """Follow preferred node affinity."""
    affinity = pod.needs.node_affinity
    if affinity is None or not affinity.preferred:
        return [0] * len(rooms)
    sums = [preferred_weight(affinity.preferred, room.name, room.labels) for room in rooms]
    highest = max(sums)
    return [_FULL * weight // highest if highest else 0 for weight in sums]


def neighbours_preferred(pod: Candidate, rooms: Rooms, picture: Picture) -> Sequence[float]:
    """Follow the pod's own preferred affinity and anti-affinity to other pods."""
    if not pod.needs.wishes:
        return [0] * len(rooms)
    pull: dict[tuple[str, str], int] = {}
    for group in picture.groups():
        there = picture.namespaces.get(group.namespace, {})
        for wish in pod.needs.wishes:
            if term_covers(wish.term, pod.namespace, group.namespace, there, group.needs.labels):
                counts = domain_counts(group, wish.term.topology_key, picture)
                for domain, number in counts.items():
                    pull[domain] = pull.get(domain, 0) + wish.weight * number
    sums = [sum(pull.get(item, 0) for item in room.labels.items()) for room in rooms]
    low, high = min(sums), max(sums)
    return [_FULL * (s - low) // (high - low) if high > low else 0 for s in sums]


def evenly_spread(pod: Candidate, rooms: Rooms, picture: Picture) -> Sequence[float]:
    """Follow ScheduleAnyway constraints, or the built-in ones for an owner's pods."""
    soft = [constraint for constraint in pod.needs.spread if not constraint.is_hard]
    if soft:
        parts = [(c.topology_key, c.max_skew, _matching(c, pod, picture)) for c in soft]
    elif pod.owner and not pod.needs.spread:
        owned = picture.pods_of_owner(pod.owner)
        parts = [(HOSTNAME_LABEL, 3, owned), (ZONE_LABEL, 5, owned)]
    else:
        return [0] * len(rooms)
    ignored = [bool(soft) and any(key not in r.labels for key, _, _ in parts) for r in rooms]
    costs = [0.0] * len(rooms)
    for key, max_skew, per_node in parts:
        for index, cost in enumerate(_costs(key, max_skew, per_node, rooms, picture)):
            costs[index] += cost
    return _least_cost_best([round(cost) for cost in costs], ignored)


def _matching(constraint: SpreadConstraint, pod: Candidate, picture: Picture) -> Mapping[str, int]:
    per_node: dict[str, int] = {}
    if constraint.counts_no_pod:
        return per_node
    for group in picture.groups():
        if group.namespace == pod.namespace and constraint.selects(group.needs.labels):
            for node in group.on:
                per_node[node] = per_node.get(node, 0) + group.staying(node)
    return per_node


def _costs(
    key: str, max_skew: int, per_node: Mapping[str, int], rooms: Rooms, picture: Picture
) -> list[float]:
    """Weigh each node's domain: fuller costs more, and more so the more domains there are."""
    domains = {room.labels[key] for room in rooms if key in room.labels}
    counts: dict[str, int] = dict.fromkeys(domains, 0)
    for node, number in per_node.items():
        room = picture.room(node)
        if room is not None and (domain := room.labels.get(key)) in counts:
            counts[str(domain)] += number
    weight = log(len(domains) + 2)
    return [
        counts[room.labels[key]] * weight + max_skew - 1 if key in room.labels else 0.0
        for room in rooms
    ]


def _least_cost_best(costs: Sequence[int], ignored: Sequence[bool]) -> list[float]:
    counted = [cost for cost, skip in zip(costs, ignored, strict=True) if not skip]
    low, high = min(counted, default=0), max(counted, default=0)
    return [
        0 if skip else (_FULL * (high + low - cost) // high if high else _FULL)
        for cost, skip in zip(costs, ignored, strict=True)
    ]


SCORING_STRATEGIES: Final[Mapping[str, Score]] = {
    LEAST_ALLOCATED: least_allocated,
    MOST_ALLOCATED: most_allocated,
}

_OTHER_SCORES: Final[Sequence[tuple[int, Score]]] = (
    (1, balanced_allocation),
    (3, taints_preferred),
    (2, affinity_preferred),
    (2, neighbours_preferred),
    (2, evenly_spread),
)
