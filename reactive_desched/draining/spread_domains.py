"""The domains of a topology spread constraint, and the nodes in them that may take a pod.

All of it is found in steps: there may be thousands of domains, nodes and pods.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import chain, islice
from math import log
from typing import Final, TypeVar

from reactive_desched.api.plugin import View
from reactive_desched.model.findings import YieldPoint, pauses_between
from reactive_desched.model.objects import Node, Pod, PodKey
from reactive_desched.model.spread_moves import (
    Admitted,
    Companions,
    NearDomains,
    Pick,
    Standing,
)
from reactive_desched.model.subjects import NodeSubject
from reactive_desched.primitives.long_answers import portions, sorted_portions
from reactive_desched.state.indexes.spread_groups import SpreadGroup

T = TypeVar("T")

Steps = Generator[YieldPoint, None, T]
"""What leads to an answer about many pods or nodes; the cluster may change between two steps."""


NodesByDomain = Mapping[str, list[Node]]


def nodes_by_domain(group: SpreadGroup, view: View) -> Steps[NodesByDomain]:
    """Return the nodes that a constraint includes, by their domains."""
    found: dict[str, list[Node]] = {}

    def add(name: str) -> None:
        if (node_and_pods := view.pods_of(NodeSubject(name))) is None:
            return
        node = node_and_pods[0]
        if (domain := group.nodes.domain_of(node)) is not None:
            found.setdefault(domain, []).append(node)

    yield from pauses_between(map(add, view.node_names()))
    return found


class Domain:
    """A domain and its pods; `size` counts the replacements that are expected as well."""

    __slots__ = ("_ordered", "_passed_over", "pods", "size", "value")

    def __init__(self, value: str) -> None:
        self.value = value
        self.pods: list[Pod] = []
        self.size = 0
        self._ordered: Iterator[Pod] | None = None
        self._passed_over: list[Pod] = []  # the next one last

    def add(self, pod: Pod) -> None:
        """Add a pod."""
        self.pods.append(pod)
        self.size += 1

    def expect(self, number: int) -> None:
        """Count pods that are not here yet, or on nodes that are away, and will be."""
        self.size += number

    def in_order(self) -> Steps[Iterator[Pod]]:
        """Return the pods from the end of the order."""
        ordered: list[list[Pod]] = []
        for portion in portions(self.pods):
            ordered.append(sorted(portion, key=_order, reverse=True))
            yield YieldPoint()
        return merge(*ordered, key=_order, reverse=True)

    def take(self, count: int, fits: Callable[[Pod], bool]) -> Steps[list[Pod]]:
        """Take so many from the end of the order, those that fit before any other.

        They are returned in the order. Those that were taken before are gone.
        """
        if self._ordered is None:
            self._ordered = yield from self.in_order()
        fitting: list[Pod] = []
        others: list[Pod] = []
        while len(fitting) < count:
            waiting = self._passed_over
            pod = waiting.pop() if waiting else next(self._ordered, None)
            if pod is None:
                break
            (fitting if fits(pod) else others).append(pod)
            yield YieldPoint()
        number = count - len(fitting)
        self._passed_over += reversed(others[number:])
        return [*fitting, *others[:number]][::-1]


def by_size(domains: Sequence[Domain]) -> Steps[list[Domain]]:
    """Return domains in order, the smallest first."""
    found: list[Domain] = []
    for portion in sorted_portions(domains, lambda each: (each.size, each.value)):
        found += portion
        yield YieldPoint()
    return found


def skew(domains: Collection[Domain]) -> int:
    """Return by how many pods the largest domain exceeds the smallest."""
    sizes = [domain.size for domain in domains]
    return max(sizes) - min(sizes)


def _order(pod: Pod) -> tuple[bool, bool, int, str]:
    """Sort pods bound to nodes first, then by priority, those without one first."""
    spec = pod.spec
    is_bound = bool(spec.node_selector) or spec.node_affinity is not None
    return not is_bound, spec.priority is not None, spec.priority or 0, pod.name


class SmallDomains:
    """The domains below the average, the smallest first, and the nodes in them."""

    def __init__(
        self, group: SpreadGroup, below: list[Domain], nodes: NodesByDomain, view: View
    ) -> None:
        self._sizes = [domain.size for domain in below]
        self._size_of: dict[str | None, int] = {domain.value: domain.size for domain in below}
        self._nodes = [nodes.get(domain.value, ()) for domain in below]
        self._targets: dict[int, Targets] = {}
        self._group = group
        self.view = view

    def size_at(self, node: Node) -> int:
        """Return how many pods the domain of one of the nodes has."""
        return self._size_of[self._group.nodes.domain_of(node)]

    def smaller_than(self, size: float) -> "Targets":
        """Return the nodes of those domains that have fewer pods."""
        count = bisect_left(self._sizes, size)
        if count not in self._targets:
            nodes = chain.from_iterable(islice(self._nodes, count))
            self._targets[count] = Targets(nodes, self.view)
        return self._targets[count]


class Targets:
    """The nodes that may take a pod."""

    def __init__(self, nodes: Iterable[Node], view: View) -> None:
        self.nodes = tuple(nodes)
        self.names = frozenset(node.name for node in self.nodes)
        self.view = view
        self._fits: dict[PodKey, bool] = {}

    def fits(self, pod: Pod) -> bool:
        """Say whether a pod fits one of them; node fit is asked once for each pod."""
        if pod.uid not in self._fits:
            self._fits[pod.uid] = self.view.find_node_among(pod, self.names) is not None
        return self._fits[pod.uid]


class Spread:
    """The pods of a constraint by domain, the smallest domain first."""

    def __init__(
        self,
        group: SpreadGroup,
        domains: list[Domain],
        nodes: NodesByDomain,
        view: View,
    ) -> None:
        self.group = group
        self.domains = domains
        self.average = sum(domain.size for domain in domains) / len(domains)
        below = [domain for domain in domains if domain.size < self.average]
        self.destinations = SmallDomains(group, below, nodes, view)


MAX_WEIGHED: Final = 100
"""So many times a plan weighs constraints that a move cannot serve at once; the rest of its pods
stays for now. It takes a millisecond for 500 nodes."""


MIN_GAIN: Final = 2.0
"""So many times as much as its other constraints lose must this one gain by a move, as the
kube-scheduler weighs them: else its other scores decide, and may well put the pod back."""


class DestinationChoice:
    """The nodes that may take a pod so that its other constraints gain as well.

    Where none of these fits, the constraints are weighed as the kube-scheduler weighs them: what
    this one gains must be worth what the others lose. A hard one is restored on any node below its
    average.
    """

    def __init__(self, spread: Spread, companions: Companions, *, is_hard: bool) -> None:
        self._destinations = spread.destinations
        self._weight = log(len(spread.domains) + 2)
        self._companions = companions
        self._is_hard = is_hard
        self._standings: dict[str, Standing] = {}
        self._near: dict[Targets, NearDomains] = {}
        self._found: dict[tuple[Targets, Admitted], Targets] = {}
        self._weighed = 0

    def targets_for(self, pick: Pick) -> Steps[tuple[Targets, bool]]:
        """Return the nodes that may take a pod, and whether it fits one of them."""
        widest = self._destinations.smaller_than(pick.left)
        yield YieldPoint()
        best = yield from self._serving_all(widest, pick.standing)
        if best is widest or best.fits(pick.pod):
            return best, best.fits(pick.pod)
        if self._is_hard:
            return widest, widest.fits(pick.pod)
        if self._weighed >= MAX_WEIGHED:
            return best, False
        self._weighed += 1
        weighed = yield from self._weighing(widest, pick)
        return weighed, weighed.fits(pick.pod)

    def _domains_near(self, targets: Targets) -> Steps[NearDomains]:
        """Return the domains of nodes whose standings are known, for each other constraint."""
        near: list[set[str]] = []
        for nodes in portions(targets.nodes):
            standings = [self._standings[node.name] for node in nodes]
            near = near or [set() for _ in standings[0]]
            for found, domains in zip(near, zip(*standings, strict=True), strict=True):
                found.update(filter(None, domains))
            yield YieldPoint()
        return near

    def _serving_all(self, widest: Targets, standing: Standing) -> Steps[Targets]:
        if widest not in self._near:
            for node in widest.nodes:
                if node.name not in self._standings:
                    self._standings[node.name] = self._companions.domains_of(node)
                    yield YieldPoint()
            self._near[widest] = yield from self._domains_near(widest)
        admitted = self._companions.admitted(standing, self._near[widest])
        yield YieldPoint()
        if all(domains is None for domains in admitted):
            return widest
        key = widest, admitted
        if key not in self._found:
            self._found[key] = yield from self._those(
                widest, lambda node: self._is_within(node, admitted)
            )
        return self._found[key]

    def _is_within(self, node: Node, admitted: Admitted) -> bool:
        return all(
            domains is None or at is None or at in domains
            for at, domains in zip(self._standings[node.name], admitted, strict=True)
        )

    def _weighing(self, widest: Targets, pick: Pick) -> Steps[Targets]:
        def is_worth_it(node: Node) -> bool:
            gain = self._weight * (pick.left - self._destinations.size_at(node))
            loss = self._companions.cost(pick.standing, self._standings[node.name])
            return gain > MIN_GAIN * loss

        return (yield from self._those(widest, is_worth_it))

    def _those(self, widest: Targets, may_take: Callable[[Node], bool]) -> Steps[Targets]:
        """Return those of some nodes that may take a pod."""
        found: list[Node] = []
        for portion in portions(widest.nodes):
            found += filter(may_take, portion)
            yield YieldPoint()
        targets = Targets(found, self._destinations.view)
        yield YieldPoint()
        return targets
