"""Chooses the best of possible nodes by the kube-scheduler's weighted scores, 0 to 100.

The arithmetic is that of `model.node_scores`. Images are those of a node's status: simulated
kubelets pull none.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec import Struct

from reactive_desched.model import node_scores
from reactive_desched.model.node_affinity import preferred_weight
from reactive_desched.model.node_scores import LEAST_ALLOCATED, MOST_ALLOCATED
from reactive_desched.model.objects import HOSTNAME_LABEL
from reactive_desched.model.resources import CPU, MEMORY
from reactive_desched.model.taints import PREFER_NO_SCHEDULE, count_untolerated, soft_taints
from reactive_desched.sim.scheduling.filters import Candidate
from reactive_desched.sim.scheduling.needs import SpreadConstraint, WeightedTerm
from reactive_desched.sim.scheduling.neighbours import domain_counts, term_covers
from reactive_desched.sim.scheduling.scheduler_cache import NodeRoom, PodGroup, SchedulerCache
from reactive_desched.sim.scheduling.spread import takes_part

__all__ = [
    "LEAST_ALLOCATED",
    "MOST_ALLOCATED",
    "SCORING_STRATEGIES",
    "balanced_allocation",
    "best_of",
    "least_allocated",
    "most_allocated",
]

Rooms: TypeAlias = Sequence[NodeRoom]
Score: TypeAlias = Callable[[Candidate, Rooms, SchedulerCache], Sequence[float]]

_FULL: Final = 100


def best_of(
    pod: Candidate, rooms: Rooms, picture: SchedulerCache, scoring: str = LEAST_ALLOCATED
) -> list[NodeRoom]:
    """Return the nodes that share the highest total score, in the order given."""
    totals = [0.0] * len(rooms)
    for weight, score in (
        (node_scores.RESOURCES_FIT_WEIGHT, SCORING_STRATEGIES[scoring]),
        *_OTHER_SCORES,
    ):
        for index, points in enumerate(score(pod, rooms, picture)):
            totals[index] += weight * points
    highest = max(totals)
    return [room for room, total in zip(rooms, totals, strict=True) if total == highest]


def least_allocated(pod: Candidate, rooms: Rooms, _: SchedulerCache) -> Sequence[float]:
    """Prefer nodes with much left: the mean free share of cpu and memory, in whole points."""
    more = {CPU: pod.needs.scored_cpu_m, MEMORY: pod.needs.scored_memory}
    return [node_scores.SPREADING.points(_held(room, room.scored, more)) for room in rooms]


def most_allocated(pod: Candidate, rooms: Rooms, _: SchedulerCache) -> Sequence[float]:
    """Prefer nodes with little left: the mean used share of cpu and memory, in whole points."""
    more = {CPU: pod.needs.scored_cpu_m, MEMORY: pod.needs.scored_memory}
    return [node_scores.PACKING.points(_held(room, room.scored, more)) for room in rooms]


def balanced_allocation(pod: Candidate, rooms: Rooms, _: SchedulerCache) -> Sequence[float]:
    """Prefer nodes whose cpu and memory fill up alike; pods without requests do not care."""
    requests = pod.needs.requests
    if not node_scores.is_scored_by_balance(requests):
        return [0] * len(rooms)
    wanted = [requests.get(resource, 0) for resource in node_scores.SCORED_RESOURCES]
    return [
        node_scores.balanced_allocation(_held(room, room.requested, requests), wanted)
        for room in rooms
    ]


def _held(
    room: NodeRoom, requested: Mapping[str, int], more: Mapping[str, int]
) -> Iterable[node_scores.Held]:
    for resource in node_scores.SCORED_RESOURCES:
        held = requested.get(resource, 0) + more.get(resource, 0)
        yield room.allocatable.get(resource, 0), held


def taints_preferred(pod: Candidate, rooms: Rooms, _: SchedulerCache) -> Sequence[float]:
    """Avoid nodes with soft taints that the pod does not tolerate."""
    tolerations = tuple(t for t in pod.needs.tolerations if t.effect in ("", PREFER_NO_SCHEDULE))
    counts = [count_untolerated(tolerations, soft_taints(room.taints)) for room in rooms]
    points = node_scores.fewest_best(set(counts))
    return [points[count] for count in counts]


def affinity_preferred(pod: Candidate, rooms: Rooms, _: SchedulerCache) -> Sequence[float]:
    """Follow preferred node affinity."""
    affinity = pod.needs.node_affinity
    if affinity is None or not affinity.preferred:
        return [0] * len(rooms)
    sums = [preferred_weight(affinity.preferred, room.name, room.labels) for room in rooms]
    points = node_scores.share_of_highest(set(sums))
    return [points[weight] for weight in sums]


def neighbours_preferred(pod: Candidate, rooms: Rooms, picture: SchedulerCache) -> Sequence[float]:
    """Follow preferred affinity and anti-affinity between the pod and others, in both directions.

    The required affinity of a pod that is there pulls a little, too.
    """
    pull: dict[tuple[str, str], int] = {}
    here = picture.namespaces.get(pod.namespace, {})
    for group in picture.groups():
        there = picture.namespaces.get(group.namespace, {})
        own = [
            wish
            for wish in pod.needs.wishes
            if term_covers(wish.term, pod.namespace, group.namespace, there, group.needs.labels)
        ]
        theirs = [
            wish
            for wish in _wishes_of(group)
            if term_covers(wish.term, group.namespace, pod.namespace, here, pod.needs.labels)
        ]
        for wish in (*own, *theirs):
            for domain, number in domain_counts(group, wish.term.topology_key, picture).items():
                pull[domain] = pull.get(domain, 0) + wish.weight * number
    sums = [sum(pull.get(item, 0) for item in room.labels.items()) for room in rooms]
    points = node_scores.between_extremes(set(sums))
    return [points[total] for total in sums]


def _wishes_of(group: PodGroup) -> Iterable[WeightedTerm]:
    yield from group.needs.wishes
    for term in group.needs.affinity:
        yield WeightedTerm(node_scores.HARD_POD_AFFINITY_WEIGHT, term)


def images_there(pod: Candidate, rooms: Rooms, picture: SchedulerCache) -> Sequence[float]:
    """Prefer nodes that have the pod's images, the more so the more nodes have them."""
    if not any(room.images for room in rooms):
        return [0] * len(rooms)
    there = picture.rooms()
    having = {image: sum(image in room.images for room in there) for image in set(pod.needs.images)}
    points: list[float] = []
    for room in rooms:
        counted = (
            node_scores.spread_image_bytes(room.images.get(each, 0), having[each], len(there))
            for each in pod.needs.images
        )
        points.append(node_scores.image_locality(sum(counted), pod.needs.containers))
    return points


class _Spread(Struct, frozen=True):
    """One soft constraint, and how many of the pods that it counts stay on each node."""

    constraint: SpreadConstraint
    per_node: Mapping[str, int]


def evenly_spread(pod: Candidate, rooms: Rooms, picture: SchedulerCache) -> Sequence[float]:
    """Follow ScheduleAnyway constraints, or the built-in ones for an owner's pods."""
    spreads = [_Spread(c, _matching(c, pod, picture)) for c in pod.needs.spread if not c.is_hard]
    if not spreads and pod.owner and not pod.needs.spread:
        owned = picture.pods_of_owner(pod.owner)
        spreads = [
            _Spread(SpreadConstraint(max_skew, key, is_hard=False, selector=None), owned)
            for key, max_skew in node_scores.DEFAULT_SPREAD
        ]
    if not spreads:
        return [0] * len(rooms)
    required = [spread.constraint.topology_key for spread in spreads if pod.needs.spread]
    counted = [room for room in rooms if all(key in room.labels for key in required)]
    costs = dict.fromkeys((room.name for room in counted), 0.0)
    for spread in spreads:
        for room, cost in _costs(spread, pod, counted, required, picture):
            costs[room.name] += cost
    rounded = {name: node_scores.rounded_cost(cost) for name, cost in costs.items()}
    points = node_scores.least_spread_cost_best(set(rounded.values()))
    return [points[rounded[room.name]] if room.name in rounded else 0 for room in rooms]


def _matching(
    constraint: SpreadConstraint, pod: Candidate, picture: SchedulerCache
) -> Mapping[str, int]:
    per_node: dict[str, int] = {}
    if constraint.counts_no_pod:
        return per_node
    for group in picture.groups():
        if group.namespace == pod.namespace and constraint.selects(group.needs.labels):
            for node in group.on:
                per_node[node] = per_node.get(node, 0) + group.staying(node)
    return per_node


def _costs(
    spread: _Spread,
    pod: Candidate,
    counted: Rooms,
    required: Sequence[str],
    picture: SchedulerCache,
) -> Iterable[tuple[NodeRoom, float]]:
    """Weigh each node's domain: fuller costs more, and more so the more domains there are.

    Over the host name each node is a domain of its own.
    """
    constraint, key = spread.constraint, spread.constraint.topology_key
    if key == HOSTNAME_LABEL:
        counts = {room.name: spread.per_node.get(room.name, 0) for room in counted}
    else:
        counts = dict.fromkeys((room.labels.get(key, "") for room in counted), 0)
        for node, number in spread.per_node.items():
            room = picture.room(node)
            if (
                room is not None
                and (domain := room.labels.get(key, "")) in counts
                and all(label in room.labels for label in required)
                and takes_part(room, constraint, pod.needs)
            ):
                counts[domain] += number
    for room in counted:
        if key in room.labels:
            domain = room.name if key == HOSTNAME_LABEL else room.labels[key]
            yield room, node_scores.spread_cost(counts[domain], constraint.max_skew, len(counts))


SCORING_STRATEGIES: Final[Mapping[str, Score]] = {
    LEAST_ALLOCATED: least_allocated,
    MOST_ALLOCATED: most_allocated,
}

_OTHER_SCORES: Final[Sequence[tuple[int, Score]]] = (
    (node_scores.BALANCED_ALLOCATION_WEIGHT, balanced_allocation),
    (node_scores.TAINT_TOLERATION_WEIGHT, taints_preferred),
    (node_scores.NODE_AFFINITY_WEIGHT, affinity_preferred),
    (node_scores.INTER_POD_AFFINITY_WEIGHT, neighbours_preferred),
    (node_scores.TOPOLOGY_SPREAD_WEIGHT, evenly_spread),
    (node_scores.IMAGE_LOCALITY_WEIGHT, images_there),
)
