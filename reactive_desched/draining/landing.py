"""Estimates where the replacement of a pod lands: on a node that takes pods, or where it was.

A pod of a workload whose other pods are on the destinations already is put back by the
kube-scheduler, which spreads the pods of a workload: to evict it is waste. The estimate weighs what
the scheduler weighs by default: how full the nodes are, where the other pods of the workload are,
soft taints and preferred node affinity.
"""

from collections import Counter
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping, Sequence
from math import frexp
from operator import itemgetter
from typing import Final

from reactive_desched.api.index import NodeInfo
from reactive_desched.api.plugin import View
from reactive_desched.model import node_scores
from reactive_desched.model.decisions import Decision, Refuse
from reactive_desched.model.findings import RequeueAfter
from reactive_desched.model.node_affinity import preferred_weight
from reactive_desched.model.node_marks import is_being_emptied
from reactive_desched.model.objects import HOSTNAME_LABEL, Node, Pod, controller_of
from reactive_desched.model.pod_importance import is_of_stateful_set
from reactive_desched.model.resources import PODS, ResourceList
from reactive_desched.model.spread import soft_constraints
from reactive_desched.model.taints import HARD_EFFECTS, soft_taints, untolerated
from reactive_desched.state.indexes.replica_places import ReplicaPlaces

MAX_RIVALS: Final = 4
"""So many of the other nodes that give pods away are looked at for each pod."""

MAX_COUNTED_NODES: Final = 200_000
"""Of workloads on so many nodes together a plan keeps where their pods are: 20 MB at most. With
more, those of all are counted anew when they are asked for again."""

RESERVED_RECHECK_S: Final = 60.0
"""When a plan is made anew for which room was reserved: that it expires is no change."""

_SoftConstraints = tuple[tuple[str, int], ...]
"""Topology keys, each with its maxSkew."""

_Place = tuple[int | str, ...]


def recheck_of_reserved(view: View) -> Iterator[RequeueAfter]:
    """Ask for another look while capacity is reserved for replacements of evicted pods."""
    if view.reserved_by_node():
        yield RequeueAfter(RESERVED_RECHECK_S)


class Landing:
    """Says whether a pod's replacement would come back; for one plan, whose moves it counts.

    `rivals` are the nodes that give pods away, the least used last: a replacement may go to one of
    these as well. With `packs`, the scheduler is taken to fill up used nodes first.
    """

    indexes = (ReplicaPlaces,)

    def __init__(self, view: View, rivals: Sequence[str], *, packs: bool) -> None:
        self._places = view.index(ReplicaPlaces)
        self._reserved = view.reserved_by_node()
        self._rivals = rivals[-MAX_RIVALS:]
        self._packs = packs
        self._moved: dict[str, Counter[str]] = {}
        self._spreads: dict[str, dict[_SoftConstraints, WorkloadSpread]] = {}
        self._counted_nodes = 0
        self._turns: list[WorkloadTurns] = []
        self._waits: dict[str, str] = {}

    def has_turn(self, decision: Decision, source: str) -> bool:
        """Say whether a pod of a node counts as leaving, since its turn comes soon.

        Pods that leave in its stead would be smaller ones, and more. Of the nodes with pods in one
        row the first waits for it; the others are relieved by other pods meanwhile.
        """
        return bool(decision.turn) and self._waits.setdefault(decision.turn, source) == source

    def turns(self, destinations: Container[str]) -> "WorkloadTurns":
        """Return what counts the pods of each workload on these nodes, which take pods."""
        turns = WorkloadTurns(destinations, self._counts)
        self._turns.append(turns)
        return turns

    def count_leaving(self, pod: Pod, to: str = "") -> None:
        """Count a pod that leaves its node, for another one where that is known."""
        if (uid := _controller_uid(pod)) is not None:
            moved = self._moved.setdefault(uid, Counter())
            moved[pod.node] -= 1
            if to:
                moved[to] += 1
            for turns in self._turns:
                turns.count_leaving(uid, pod.node, to)
            for spread in self._spreads.get(uid, {}).values():
                spread.add(pod.node, -1)
                if to:
                    spread.add(to, 1)

    def _counts(self, controller_uid: str) -> dict[str, int]:
        """Count the pods of a controller on each node, as the plan has moved them."""
        counts = dict(self._places.of(controller_uid))
        for node, number in self._moved.get(controller_uid, {}).items():
            counts[node] = counts.get(node, 0) + number
        return counts

    def pull_on(self, pod: Pod, full: Iterable[str] = ()) -> "Generator[None, None, Pull | None]":
        """Return what pulls on the replacement of a pod; None for one that nothing pulls.

        For the first pod of a workload it looks at one of the workload's nodes in each step: there
        may be thousands. `full` are nodes that it would overfill, and to which it may go all the
        same. For the only pod of a workload that prefers no node the nodes differ by their room
        alone, and the destinations have more of it.
        """
        if (uid := _controller_uid(pod)) is None:
            return None
        spread = yield from self._spread(uid, pod)
        affinity = pod.spec.node_affinity
        prefers = affinity is not None and bool(affinity.preferred)
        if spread.is_alone(pod) and not prefers:
            return None
        pull = Pull(pod, spread, self._places, self._reserved, packs=self._packs)
        yield from pull.weigh_spread()
        pull.weigh_rivals(self._feasible(pod, (*self._rivals, *full)))
        return pull

    def _spread(self, uid: str, pod: Pod) -> "Generator[None, None, WorkloadSpread]":
        """Return where the pods of a pod's workload are, counted when it is first asked for."""
        soft = tuple((each.topology_key, each.max_skew) for each in soft_constraints(pod.spec))
        if not pod.spec.topology_spread_constraints:
            soft = node_scores.DEFAULT_SPREAD
        if (found := self._spreads.get(uid, {}).get(soft)) is not None:
            return found
        counts, spread = self._counts(uid), WorkloadSpread(soft, self._places)
        for name, number in counts.items():
            spread.add(name, number)
            yield
        self._counted_nodes += len(counts)
        if self._counted_nodes > MAX_COUNTED_NODES:
            self._spreads.clear()
            self._counted_nodes = len(counts)
        self._spreads.setdefault(uid, {})[soft] = spread
        return spread

    def _feasible(self, pod: Pod, rivals: Iterable[str]) -> Iterable[str]:
        """Yield the node of a pod and those of some others where its replacement might land."""
        own, waits = self._places.node_info(pod.node), is_of_stateful_set(pod)
        if own is not None and _admits(own.node, pod) and (waits or _fits(own, pod)):
            yield pod.node  # that of others is made while the pod is still there
        for name in rivals:
            info = None if name == pod.node else self._places.node_info(name)
            if info is not None and _admits(info.node, pod) and _fits(info, pod):
                yield name


class WorkloadTurns:
    """Counts the pods of each workload on the nodes that take pods, as the plan has moved them.

    They are counted once, when the plan comes to the first pod of the workload.
    """

    def __init__(
        self, destinations: Container[str], counts: Callable[[str], Mapping[str, int]]
    ) -> None:
        self._destinations = destinations
        self._counts = counts
        self._turns: dict[str, int] = {}

    def of(self, pod: Pod) -> Generator[None, None, int]:
        """Return how many pods of a pod's workload are on nodes that take pods by now.

        The first time it looks at one of the nodes of the workload in each step.
        """
        if (uid := _controller_uid(pod)) is None:
            return 0
        if (turn := self._turns.get(uid)) is None:
            turn = 0
            for node, number in self._counts(uid).items():
                if node in self._destinations:
                    turn += number
                yield
            self._turns[uid] = turn
        return turn

    def count_leaving(self, uid: str, node: str, to: str) -> None:
        """Count a pod of a workload that leaves a node, for another one if it has a name."""
        if uid in self._turns:
            self._turns[uid] += (to in self._destinations) - (node in self._destinations)


class WorkloadSpread:
    """Counts the pods of one workload by the topology keys over which the scheduler spreads them.

    It is for one plan, which adds what it moves. The place of a node has a part for each key: the
    node's domain, or where every node is a domain of its own, how many pods are there. Nodes of the
    same place cost the same, so that for each pod places are looked at, and not nodes.
    """

    def __init__(self, soft: _SoftConstraints, places: ReplicaPlaces) -> None:
        self.soft = soft
        self._places = places
        self._counts: dict[str, int] = {}
        self._by_domain: tuple[Counter[str], ...] = tuple(Counter() for _ in soft)
        self._nodes_by_place: Counter[_Place] = Counter()

    def add(self, name: str, number: int) -> None:
        """Count so many pods more on a node, or fewer."""
        if name in self._counts:
            self._nodes_by_place[self.place(name)] -= 1
        self._counts[name] = self._counts.get(name, 0) + number
        place = self.place(name)
        self._nodes_by_place[place] += 1
        for domain, by_domain in zip(place, self._by_domain, strict=True):
            if isinstance(domain, str) and domain:
                by_domain[domain] += number

    def is_alone(self, pod: Pod) -> bool:
        """Say whether a pod is the only one of the workload."""
        return len(self._counts) == 1 and self._counts.get(pod.node) == 1

    def counts(self, name: str) -> bool:
        """Say whether pods on a node are counted, or were until the plan moved them."""
        return name in self._counts

    def place(self, name: str) -> _Place:
        """Return the place of a node."""
        return tuple(
            self._counts.get(name, 0) if key == HOSTNAME_LABEL else self._domain(name, key)
            for key, _ in self.soft
        )

    def places_without(self, place: _Place | None) -> Iterator[_Place]:
        """Yield the places of all nodes, or of all but one of this place."""
        for each, nodes in list(self._nodes_by_place.items()):
            if nodes > (each == place):
                yield each

    def in_domain(self, part: int, domain: str) -> int:
        """Count the pods in a domain of one of the topology keys."""
        return self._by_domain[part].get(domain, 0)

    def domains(self, part: int, own: int | str) -> int:
        """Count the domains of a topology key, that of a pod's own node included."""
        if isinstance(own, int):
            return self._places.eligible_nodes
        return len(self._by_domain[part]) + bool(own and own not in self._by_domain[part])

    def _domain(self, name: str, key: str) -> str:
        info = self._places.node_info(name)
        return "" if info is None or info.node is None else info.node.labels.get(key, "")


class Pull:
    """The points that nodes have for the replacement of one pod, relative to each other."""

    def __init__(
        self,
        pod: Pod,
        spread: WorkloadSpread,
        places: ReplicaPlaces,
        reserved: Mapping[str, ResourceList],
        *,
        packs: bool,
    ) -> None:
        self._pod = pod
        self._spread = spread
        self._places = places
        self._reserved = reserved
        self._allocation = node_scores.PACKING if packs else node_scores.SPREADING
        self._own = spread.place(pod.node)
        self._leaves = spread.counts(pod.node)
        self._domains = [spread.domains(part, own) for part, own in enumerate(self._own)]
        self._highest = 0
        self._rival = float("-inf")

    def weigh_spread(self) -> Iterator[None]:
        """Find the place with most pods of the workload, a place in each step; this comes first."""
        self._highest = self._spread_cost(self._pod.node)
        own = self._own if self._leaves else None
        for place in self._spread.places_without(own):
            self._highest = max(self._highest, self._cost_of(place))
            yield

    def weigh_rivals(self, rivals: Iterable[str]) -> None:
        """Record the nodes that give pods away, and to which the replacement may go."""
        self._rival = max(map(self.of, rivals), default=self._rival)

    def comes_back(self, to: str) -> bool:
        """Say whether the replacement goes to a node that gives pods away rather than to this."""
        return self._rival > self.of(to)

    def of(self, name: str) -> float:
        """Return the points of a node."""
        info = self._places.node_info(name)
        if info is None or info.node is None:
            return 0.0
        node, spec = info.node, self._pod.spec
        points = node_scores.RESOURCES_FIT_WEIGHT * self._allocation.points(
            self._held(info, node, spec.requests_by_score)
        )
        if node_scores.is_scored_by_balance(spec.requests):
            wanted = (spec.requests.get(each, 0) for each in node_scores.SCORED_RESOURCES)
            points += node_scores.BALANCED_ALLOCATION_WEIGHT * node_scores.balanced_allocation(
                self._held(info, node, spec.requests), wanted
            )
        if self._highest:
            share = self._spread_cost(name) / self._highest
            points -= round(node_scores.TOPOLOGY_SPREAD_WEIGHT * node_scores.MAX_SCORE * share)
        if (soft := soft_taints(node.taints)) and next(
            untolerated(spec.tolerations, soft), None
        ) is not None:
            points -= node_scores.TAINT_TOLERATION_WEIGHT * node_scores.MAX_SCORE
        return points + self._affinity_points(node)

    def _held(self, info: NodeInfo, node: Node, more: ResourceList) -> Iterator[tuple[int, int]]:
        """Yield what a node has of cpu and memory, and what is requested with the replacement."""
        extra = self._reserved.get(node.name, {})
        for resource in node_scores.SCORED_RESOURCES:
            taken = info.held.get(resource, 0) + extra.get(resource, 0) + more.get(resource, 0)
            if node.name == self._pod.node:  # the pod itself is gone by then
                taken -= self._pod.held.get(resource, 0)
            yield node.allocatable.get(resource, 0), taken

    def _affinity_points(self, node: Node) -> float:
        affinity = self._pod.spec.node_affinity
        if affinity is None or not affinity.preferred:
            return 0.0
        total = sum(term.weight for term in affinity.preferred)
        weight = preferred_weight(affinity.preferred, node.name, node.labels)
        share = weight / total if total else 0.0
        return node_scores.NODE_AFFINITY_WEIGHT * node_scores.MAX_SCORE * share

    def _spread_cost(self, name: str) -> int:
        """Return what the pods of the workload cost on a node: without the one that leaves."""
        place = self._spread.place(name)
        if name == self._pod.node and self._leaves:
            place = tuple(part - 1 if isinstance(part, int) else part for part in place)
        return self._cost_of(place)

    def _cost_of(self, place: _Place) -> int:
        total = 0.0
        for part, (where, (_, max_skew)) in enumerate(zip(place, self._spread.soft, strict=True)):
            if where == "":
                continue
            if isinstance(where, int):
                number = where
            else:
                number = self._spread.in_domain(part, where)
                number -= self._leaves and where == self._own[part]
            total += node_scores.spread_cost(number, max_skew, self._domains[part])
        return node_scores.rounded_cost(total)


def in_turn(
    pods: Iterable[Pod],
    importance: Callable[[Pod], Sequence[object]],
    turns: WorkloadTurns,
) -> Generator[None, None, list[Pod]]:
    """Return pods in their order, but those of equal `importance` by workloads in turn.

    A workload's pods on the destinations count: one of which a pod moved comes after the others.
    It looks at a pod, or at a node of a workload that is new to the plan, in each step.
    """
    before: Counter[str] = Counter()
    keyed: list[tuple[tuple[object, ...], Pod]] = []
    for pod in pods:
        workload = _controller_uid(pod) or pod.uid
        turn = yield from turns.of(pod)
        keyed.append(((*importance(pod), turn + before[workload]), pod))
        before[workload] += 1
        yield
    return [pod for _, pod in sorted(keyed, key=itemgetter(0))]


def relief_order(pod: Pod, relief: float) -> tuple[int, bool]:
    """Return the key that sorts pods by how much they relieve a node, those that do most first.

    It is the same for pods of about the same size: none is twice as large as another one. One of a
    StatefulSet comes after those half as large.
    """
    comes_later = is_of_stateful_set(pod)
    return comes_later - frexp(relief)[1], comes_later


def explain_return(pod: Pod) -> str:
    """Say why a pod stays whose replacement would come back."""
    return (
        f"its replacement would most likely come back to {pod.node}, or go to another node that"
        " gives pods: by where its workload has pods, how full the nodes are, and what it prefers"
    )


def explain_no_relief(pod: Pod, excess: Iterable[str]) -> str:
    """Say why a pod stays that has no part in what its node uses too much."""
    return f"to move it would not relieve {pod.node}: it uses no {' and no '.join(excess)}"


def waits_or_leaves(decision: Decision) -> bool:
    """Say whether a pod leaves, or waits for its turn: it was not refused for its own sake."""
    waits = not isinstance(decision, Refuse) or bool(decision.scope_exhausted or decision.turn)
    return decision.pod_leaves or waits


def _controller_uid(pod: Pod) -> str | None:
    owner = controller_of(pod.owners)
    return None if owner is None else owner.uid


def _admits(node: Node | None, pod: Pod) -> bool:
    """Say whether a node takes a pod by its taints, is not cordoned, and will stay."""
    if node is None or node.unschedulable or not node.is_ready or is_being_emptied(node):
        return False
    hard = [taint for taint in node.taints if taint.effect in HARD_EFFECTS]
    return not hard or next(untolerated(pod.spec.tolerations, hard), None) is None


def _fits(info: NodeInfo, pod: Pod) -> bool:
    """Say whether a node has as much left as a pod requests."""
    assert info.node is not None, "`_admits` has looked"
    has, taken = info.node.allocatable, info.held
    needs = {**pod.spec.requests, PODS: 1}
    return all(taken.get(r, 0) + need <= has.get(r, 0) for r, need in needs.items() if need)
