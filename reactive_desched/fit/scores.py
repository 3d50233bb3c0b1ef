"""Chooses among the nodes that fit a pod as the kube-scheduler does, by the scores of its plugins.

A score parts the nodes into few sets, one for each number of points; sums of scores part them
further. So the best nodes of thousands are found without looking at each.
"""

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from msgspec import Struct

from reactive_desched.fit.change_log import ChangeLog
from reactive_desched.fit.filters import NodeFilters
from reactive_desched.fit.node_images import NodeImages
from reactive_desched.fit.node_sets import NodeSets
from reactive_desched.model import node_scores
from reactive_desched.model.node_affinity import PreferredTerm
from reactive_desched.model.node_scores import Held
from reactive_desched.model.objects import (
    HOSTNAME_LABEL,
    Node,
    Pod,
    PodKey,
    TopologySpreadConstraint,
)
from reactive_desched.model.resources import CPU, MEMORY, is_scalar
from reactive_desched.model.spread import soft_constraints
from reactive_desched.model.taints import PREFER_NO_SCHEDULE, Taint, count_untolerated, soft_taints
from reactive_desched.primitives import bits
from reactive_desched.primitives.long_answers import portions
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.pod_affinity import PodAffinity
from reactive_desched.state.indexes.pod_attraction import PodAttraction, preferred_terms

MAX_SHAPES: Final = 200
"""For so many different requests the scores of all nodes are kept; at the bound those that were
used least recently are dropped, and computed again when they are asked for."""

N = TypeVar("N", int, float)
_NOTHING: Final[Held] = 0, 0

Parts = Mapping[N, int]
"""Amounts, each with the slots that have it; the other slots have 0."""


class _Shape(Struct, frozen=True):
    """A pod's requests of what NodeResourcesFit and NodeResourcesBalancedAllocation score it by.

    `scored` are those of each resource of the strategy, `balanced` those of each resource that is
    balanced; None of one that does not count.
    """

    allocation: node_scores.Allocation
    resources_fit: int
    balanced_resources: tuple[str, ...]
    balanced_allocation: int
    scored: tuple[int | None, ...]
    balanced: tuple[int | None, ...]


class _NodeUse(Struct, frozen=True, gc=False):
    """The resources of a node that scores are about, each with what is requested of it.

    `scored` is the same with what NodeResourcesFit takes for the requests of containers that name
    none.
    """

    held: Mapping[str, Held] = {}
    scored: Mapping[str, Held] = {}


class _ResourceScores:
    """The resource scores of every slot for pods of one shape, current up to a cursor."""

    def __init__(self, shape: _Shape) -> None:
        self._shape = shape
        asked = zip(shape.balanced_resources, shape.balanced, strict=True)
        self._balanced = [(each, wanted) for each, wanted in asked if wanted is not None]
        self._wanted = [wanted for _, wanted in self._balanced]
        self._is_balanced = any(self._wanted)
        self._points: list[int] = []
        self._slots: dict[int, int] = {}
        self.cursor = -1

    def score(self, uses: Sequence[_NodeUse]) -> Iterator[None]:
        """Score all slots, in steps."""
        self._points, self._slots = [], {}
        slots: dict[int, list[int]] = {}
        for portion in portions(uses):
            for use in portion:
                points = self._score(use)
                slots.setdefault(points, []).append(len(self._points))
                self._points.append(points)
            yield
        for points, found in slots.items():
            self._slots[points] = bits.of_slots(found)
            yield

    def follow(self, uses: Sequence[_NodeUse], changed: Collection[int] | None) -> None:
        """Score the slots that changed, or all of them."""
        if changed is None or len(self._points) != len(uses):
            for _ in self.score(uses):
                pass
            return
        for slot in changed:
            before, after = self._points[slot], self._score(uses[slot])
            if before != after:
                self._points[slot] = after
                self._slots[before] &= ~(1 << slot)
                self._slots[after] = self._slots.get(after, 0) | 1 << slot

    def by_points(self) -> list[tuple[int, int]]:
        """Return points with the slots that have them, most points first."""
        return sorted(self._slots.items(), reverse=True)

    def by_points_if(self, slot: int, use: _NodeUse) -> list[tuple[int, int]]:
        """Return the same as if one slot had another use."""
        found, bit = dict(self._slots), 1 << slot
        found[self._points[slot]] &= ~bit
        points = self._score(use)
        found[points] = found.get(points, 0) | bit
        return sorted(found.items(), reverse=True)

    def _score(self, use: _NodeUse) -> int:
        shape = self._shape
        points = shape.resources_fit * shape.allocation.points(self._scored(use))
        if self._is_balanced:
            held = [
                (total, requested + wanted)
                for resource, wanted in self._balanced
                for total, requested in (use.held.get(resource, _NOTHING),)
            ]
            points += shape.balanced_allocation * node_scores.balanced_allocation(
                held, self._wanted
            )
        return points

    def _scored(self, use: _NodeUse) -> Iterator[Held | None]:
        shape, scored = self._shape, use.scored
        for (resource, _), wanted in zip(shape.allocation.resources, shape.scored, strict=True):
            if wanted is None:
                yield None
            else:
                total, requested = scored.get(resource, _NOTHING)
                yield total, requested + wanted


class NodeScores:
    """The scores of the kube-scheduler's plugins.

    A pod that runs is scored as its replacement will be: once it has left its node, or while it
    shuts down there. They are those of the profile of each pod's scheduler, and the `assumed` ones
    where its profile says nothing that is known. Call `update_nodes` first.
    """

    def __init__(
        self,
        nodes: NodeSets,
        view: ClusterView,
        filters: NodeFilters,
        assumed: node_scores.ScoreRules = node_scores.DEFAULT_SCORES,
    ) -> None:
        self._profiles = filters.profiles
        self._assumed = assumed
        scored = (
            resource
            for rules in (assumed, *self._profiles.scores())
            for resource in (*rules.balanced, *(name for name, _ in rules.allocation.resources))
        )
        self._resources = tuple(dict.fromkeys(scored))
        self._nodes = nodes
        self._view = view
        self._spread = filters.topology_spread
        self._devices = filters.devices
        self._changes: ChangeLog[int] = ChangeLog()
        self._uses: list[_NodeUse] = []
        self._images = NodeImages()
        self._soft_taints: list[tuple[Taint, ...]] = []
        self._tainted: dict[tuple[Taint, ...], int] = {}
        self._by_shape: OrderedDict[_Shape, _ResourceScores] = OrderedDict()

    def update_nodes(self, slots: Iterable[int]) -> None:
        """Follow the slots that `NodeSets.sync` refreshed."""
        for slot in slots:
            while len(self._uses) <= slot:
                self._uses.append(_NodeUse())
                self._soft_taints.append(())
            self._uses[slot] = self._use_of(slot)
            node = self._nodes.node(slot)
            self._update_taints(slot, node)
            self._images.update(slot, () if node is None else node.images)
            self._changes.append(slot)

    def is_new(self, pod: Pod) -> bool:
        """Say whether all nodes have to be scored for a pod."""
        rules = self._rules(pod)
        return self._shape(pod, rules) not in self._by_shape or bool(
            rules.image_locality and self._images.not_sought(pod)
        )

    def score(self, pod: Pod) -> Iterator[None]:
        """Score all nodes for a pod, in steps; what changes meanwhile comes with the answer."""
        yield from self._images.seek(self._images.not_sought(pod))
        shape = self._shape(pod, self._rules(pod))
        found, cursor = _ResourceScores(shape), self._changes.end
        yield from found.score(tuple(self._uses))
        found.cursor = cursor
        self._keep(shape, found)

    def best(self, pod: Pod, feasible: int) -> int:
        """Return those of the slots that have the highest sum of weighted scores."""
        rules, totals = self._rules(pod), {0: feasible}
        for weight, parts in self._scores(pod, feasible, rules):
            totals = _summed(totals, {weight * points: slots for points, slots in parts.items()})
        by_points = self._resource_points(pod, rules)
        highest, found = -1, 0
        for total in sorted(totals, reverse=True):
            for points, slots in by_points:
                if total + points < highest:
                    break
                if here := totals[total] & slots:
                    found = here if total + points > highest else found | here
                    highest = total + points
                    break
        return found

    # --- the scores ---

    def _rules(self, pod: Pod) -> node_scores.ScoreRules:
        return self._profiles.scores_of(pod.spec.scheduler_name) or self._assumed

    def _scores(
        self, pod: Pod, feasible: int, rules: node_scores.ScoreRules
    ) -> Iterator[tuple[int, Parts[int]]]:
        if rules.taint_toleration:
            yield rules.taint_toleration, self._taint_toleration(pod, feasible)
        own = pod.spec.node_affinity
        preferred = (*rules.added_preferred, *(() if own is None else own.preferred))
        if rules.node_affinity and preferred:
            yield rules.node_affinity, self._node_affinity(preferred, feasible)
        if rules.inter_pod_affinity:
            yield rules.inter_pod_affinity, self._inter_pod_affinity(pod, feasible, rules)
        if rules.topology_spread:
            yield rules.topology_spread, self._topology_spread(pod, feasible, rules)
        if rules.dynamic_resources and (ranked := self._devices.points(pod, feasible)):
            yield rules.dynamic_resources, _normalized(ranked, node_scores.share_of_highest(ranked))
        if rules.image_locality:
            yield rules.image_locality, self._image_locality(pod, feasible)

    def _image_locality(self, pod: Pod, feasible: int) -> Parts[int]:
        nodes = self._nodes.existing.bit_count()
        sums: dict[int, int] = {0: feasible}
        for size, slots in self._images.having(pod):
            counted = node_scores.spread_image_bytes(size, slots.bit_count(), nodes)
            sums = _summed(sums, {counted: slots})
        containers = len(pod.spec.images) + len(pod.spec.init_images)
        points = {each: node_scores.image_locality(each, containers) for each in sums}
        return _normalized(sums, points)

    def _taint_toleration(self, pod: Pod, feasible: int) -> Parts[int]:
        tolerations = tuple(t for t in pod.spec.tolerations if t.effect in ("", PREFER_NO_SCHEDULE))
        numbers: dict[int, int] = {0: feasible}
        for taints, slots in self._tainted.items():
            numbers = _summed(numbers, {count_untolerated(tolerations, taints): slots})
        return _normalized(numbers, node_scores.fewest_best(numbers))

    def _node_affinity(self, preferred: Iterable[PreferredTerm], feasible: int) -> Parts[int]:
        weights: dict[int, int] = {0: feasible}
        for term in preferred:
            matching = self._nodes.labels.matching_term(term.preference, feasible)
            weights = _summed(weights, {term.weight: matching})
        return _normalized(weights, node_scores.share_of_highest(weights))

    def _inter_pod_affinity(
        self, pod: Pod, feasible: int, rules: node_scores.ScoreRules
    ) -> Parts[int]:
        sums: dict[int, int] = {0: feasible}
        for key, by_value in self._pull(pod, rules).items():
            slots: dict[int, int] = {}
            for value, weight in by_value.items():
                if weight:
                    there = self._nodes.labels.with_label_in(key, (value,))
                    slots[weight] = slots.get(weight, 0) | there
            sums = _summed(sums, slots)
        return _normalized(sums, node_scores.between_extremes(sums))

    def _pull(self, pod: Pod, rules: node_scores.ScoreRules) -> Mapping[str, Mapping[str, int]]:
        """Sum what draws the pod to each domain: its own terms, and those of pods there."""
        own = tuple(preferred_terms(pod))
        if rules.ignore_others_affinity and not own:
            return {}
        gone = pod.uid if node_scores.is_replaced_once_gone(pod) else ""
        others = self._view.index(PodAttraction).pull(pod, rules.hard_pod_affinity, gone)
        found = {key: Counter(sums) for key, sums in others.items()}
        affinity = self._view.index(PodAffinity)
        for weight, term in own:
            sums = found.setdefault(term.topology_key, Counter())
            matching = affinity.matching_term(term, pod)
            for value in matching.values():
                sums[value] += weight * matching.count(value, gone)
        return found

    def _topology_spread(
        self, pod: Pod, feasible: int, rules: node_scores.ScoreRules
    ) -> Parts[int]:
        """Prefer domains with few of the pods that soft constraints count, or default ones.

        Slots that lack the label of a soft constraint have no points; for the default constraints
        of the kube-scheduler itself such a label is only left out.
        """
        soft, labels = self._soft_constraints(pod, rules), self._nodes.labels
        if not soft:
            return {}
        counted, everywhere = feasible, self._nodes.existing
        if pod.spec.topology_spread_constraints or rules.spread_needs_labels:
            for constraint in soft:
                labelled = labels.with_label(constraint.topology_key)
                counted, everywhere = counted & labelled, everywhere & labelled
        counts = [self._spread.matching_pods(pod, each, everywhere) for each in soft]
        costs: dict[float, int] = {0.0: counted}
        for constraint, found in zip(soft, counts, strict=True):
            costs = _summed(costs, self._spread_costs(constraint, found, counted))
        rounded: dict[int, int] = {}
        for cost, slots in costs.items():
            whole = node_scores.rounded_cost(cost)
            rounded[whole] = rounded.get(whole, 0) | slots
        return _normalized(rounded, node_scores.least_spread_cost_best(rounded))

    def _spread_costs(
        self, constraint: TopologySpreadConstraint, counts: Mapping[str, int], counted: int
    ) -> Parts[float]:
        """Return what a constraint costs, with the slots where it costs that."""
        key, labels = constraint.topology_key, self._nodes.labels
        labelled = counted & labels.with_label(key)
        if key == HOSTNAME_LABEL:
            domains = counted.bit_count()
        else:
            values = labels.values(key)
            domains = sum(1 for value in values if labels.with_label_in(key, (value,)) & counted)
            domains += labelled != counted  # nodes without the label are a domain, too
        by_count: dict[int, int] = {}
        for value, count in counts.items():
            there = labels.with_label_in(key, (value,)) & labelled
            if count and there:
                by_count[count] = by_count.get(count, 0) | there
        for slots in tuple(by_count.values()):
            labelled &= ~slots
        by_count[0] = labelled
        return {
            node_scores.spread_cost(count, constraint.max_skew, domains): slots
            for count, slots in by_count.items()
        }

    def _soft_constraints(
        self, pod: Pod, rules: node_scores.ScoreRules
    ) -> Sequence[TopologySpreadConstraint]:
        if pod.spec.topology_spread_constraints:
            return soft_constraints(pod.spec)
        return rules.default_spread if node_scores.is_spread_by_default(pod) else ()

    def _shape(self, pod: Pod, rules: node_scores.ScoreRules) -> _Shape:
        requests, scored = pod.spec.requests, pod.spec.requests_by_score
        return _Shape(
            rules.allocation,
            rules.resources_fit,
            rules.balanced,
            rules.balanced_allocation,
            tuple(
                scored.get(resource) or requests.get(resource) or _unasked(resource)
                for resource, _ in rules.allocation.resources
            ),
            tuple(requests.get(resource) or _unasked(resource) for resource in rules.balanced),
        )

    def _resource_scores(self, pod: Pod, rules: node_scores.ScoreRules) -> _ResourceScores:
        shape = self._shape(pod, rules)
        found = self._by_shape.pop(shape, None) or _ResourceScores(shape)
        self._keep(shape, found)
        found.follow(self._uses, self._changes.since(found.cursor))
        found.cursor = self._changes.end
        return found

    def _resource_points(self, pod: Pod, rules: node_scores.ScoreRules) -> list[tuple[int, int]]:
        scores = self._resource_scores(pod, rules)
        slot = self._nodes.slot_of(pod.node) if pod.node else None
        is_gone = node_scores.is_replaced_once_gone(pod) and pod.uid not in self._nodes.vacated
        if slot is None or not is_gone:
            return scores.by_points()
        return scores.by_points_if(slot, self._use_of(slot, without=pod.uid))

    def _keep(self, shape: _Shape, scores: _ResourceScores) -> None:
        self._by_shape[shape] = scores
        if len(self._by_shape) > MAX_SHAPES:
            self._by_shape.popitem(last=False)

    # --- following the nodes ---

    def _use_of(self, slot: int, without: PodKey | None = None) -> _NodeUse:
        """Return what is requested of a node, by other pods than the one that is left out."""
        node, info = self._nodes.node(slot), self._nodes.node_info(slot)
        if node is None or info is None:
            return _NodeUse()
        has, free = node.allocatable, self._nodes.free
        left_out = None if without is None else info.active.get(without)
        freed = {} if left_out is None else left_out.held
        taken = {
            resource: (
                has.get(resource, 0) - free.free_in(resource, slot)
                if resource in (CPU, MEMORY)
                else info.held.get(resource, 0)
            )
            - freed.get(resource, 0)
            for resource in self._resources
        }
        scored = Counter(taken)
        for pod in info.active.values():
            if pod.spec.scored_requests is not None and pod is not left_out:
                for resource, amount in pod.spec.scored_requests.items():
                    scored[resource] += amount - pod.spec.requests.get(resource, 0)
        return _NodeUse(
            {resource: (has.get(resource, 0), taken[resource]) for resource in self._resources},
            {resource: (has.get(resource, 0), scored[resource]) for resource in self._resources},
        )

    def _update_taints(self, slot: int, node: Node | None) -> None:
        soft = soft_taints(() if node is None else node.taints)
        before = self._soft_taints[slot]
        if soft == before:
            return
        self._soft_taints[slot] = soft
        if before:
            left = self._tainted[before] & ~(1 << slot)
            if left:
                self._tainted[before] = left
            else:
                del self._tainted[before]
        if soft:
            self._tainted[soft] = self._tainted.get(soft, 0) | 1 << slot


def _unasked(resource: str) -> int | None:
    """Return the request of a resource that a pod does not name; None: then it does not count."""
    return None if is_scalar(resource) else 0


def _summed(sums: Parts[N], amounts: Parts[N]) -> dict[N, int]:
    """Add amounts to what slots have; the slots of each amount are disjoint."""
    found: dict[N, int] = {}
    for total, slots in sums.items():
        left = slots
        for amount, among in amounts.items():
            if here := left & among:
                found[total + amount] = found.get(total + amount, 0) | here
                left ^= here
        if left:
            found[total] = found.get(total, 0) | left
    return found


def _normalized(raw: Parts[int], points: Mapping[int, int]) -> dict[int, int]:
    """Return points with their slots."""
    found: dict[int, int] = {}
    for score, slots in raw.items():
        found[points[score]] = found.get(points[score], 0) | slots
    return found
