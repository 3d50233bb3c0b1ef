"""Which nodes give pods away and which take them, by how much of each is used.

The class of each node is kept per change: by the requests of its pods or by what a source of
metrics measured, against fixed thresholds or against distances from the mean of all nodes.
"""

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import Final, TypeVar

from msgspec.structs import replace

from reactive_desched.api.index import Cluster, Index, KubeObject, NodeInfo, NodeState
from reactive_desched.model.changes import Change, NodeChange
from reactive_desched.model.objects import Pod
from reactive_desched.model.resources import PODS, ResourceList, add_resources
from reactive_desched.model.taints import Taint
from reactive_desched.model.usage import NodeUsage
from reactive_desched.model.utilization import (
    REQUESTS,
    NodeClass,
    NodeStanding,
    Percentages,
    Thresholds,
    UtilizationRule,
    capacity_of,
    percentages,
)

_FRACTION_BITS: Final = 1074
"""As a whole number of 2**-1074 every 64-bit float is exact."""

_LAST: Final = "\U0010ffff"

CountedT = TypeVar("CountedT", bound=Hashable)


class NodeUtilizationChanged(NodeChange, frozen=True, gc=False):
    """Pods may move by this rule, or could until now, and what decides which has changed.

    `node` is where something changed, one of those that give or take pods, as a rule.
    """

    rule: UtilizationRule


class NodeUtilization(Index):
    """How every eligible node stands by one rule, and what the nodes that take pods have left.

    A change is announced only while there are nodes that give pods and nodes that take them.
    `thresholds` are those in force: with `deviation` they follow the means.
    """

    announces = (NodeUtilizationChanged,)
    kinds = (NodeUsage,)

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        assert isinstance(args, UtilizationRule), "the index is kept for a rule"
        self.rule = args
        self._tracked = args.tracked
        self._threshold_resources = tuple(resource for resource, _ in args.low)
        self._standings: dict[str, NodeStanding] = {}
        self._sources: dict[str, NodeStanding] = {}
        self._destinations = _Destinations(self._tracked)
        self._unknown: set[str] = set()
        self._means = _Means(resource for resource, _ in args.low) if args.deviation else None
        self.thresholds = args.thresholds
        for info in cluster.node_infos():
            self._measure(info.name)
        self._shift_thresholds()
        for standing in list(self._standings.values()):
            self._classify(standing)

    # --- questions ---

    @property
    def can_act(self) -> bool:
        """Whether there are nodes that give pods and nodes that take them, as many as asked."""
        return self.rule.can_act(len(self._sources), len(self._destinations.standings))

    @property
    def unknown(self) -> Collection[str]:
        """The nodes of which no use is known; they neither give nor take pods."""
        return self._unknown

    @property
    def means(self) -> Percentages | None:
        """The means that thresholds are distances from; None where they are not."""
        return None if self._means is None else self._means.values()

    def standings(self) -> Collection[NodeStanding]:
        """Return how each eligible node stands."""
        return self._standings.values()

    def standing(self, node: str) -> NodeStanding | None:
        """Return how a node stands; None where it is not eligible."""
        return self._standings.get(node)

    def sources(self) -> Collection[NodeStanding]:
        """Return the nodes that give pods away."""
        return self._sources.values()

    def is_source(self, node: str) -> bool:
        """Say whether a node gives pods away."""
        return node in self._sources

    def destinations(self) -> Mapping[str, NodeStanding]:
        """Return the nodes that take pods, by name."""
        return self._destinations.standings

    def destination_names(self) -> frozenset[str]:
        """Return the names of the nodes that take pods, the same set while they do not change."""
        return self._destinations.names()

    def destination_taints(self) -> Collection[tuple[Taint, ...]]:
        """Return the different lists of taints on the nodes that take pods."""
        return self._destinations.taints

    def room(self) -> dict[str, int]:
        """Return what the nodes that take pods have left in all, of each resource that counts.

        A node with more than its share leaves less than nothing.
        """
        return self._destinations.room(self.thresholds)

    def used_by(self, pod: Pod) -> ResourceList | None:
        """Return what a pod uses: nothing where single pods cannot be measured; None if unknown."""
        if self.rule.source == REQUESTS:
            requests = pod.spec.requests
            return {r: 1 if r == PODS else requests.get(r, 0) for r in self._tracked}
        if PODS not in self._tracked:
            return {}
        info = self._standings.get(pod.node)
        measured = None if info is None or info.sample is None else info.sample.pods.get(str(pod))
        if measured is None:
            return None
        try:
            return {r: 1 if r == PODS else measured[r] for r in self._tracked}
        except KeyError:
            return None

    def left_since(self, standing: NodeStanding) -> ResourceList:
        """Return what the node's sample still counts of pods that have left since."""
        if standing.sample is None or PODS not in self._tracked:
            return {}
        present = self._names_of_pods(standing.name)
        total: dict[str, int] = {}
        for name, amounts in standing.sample.pods.items():
            if name not in present:
                add_resources(total, {r: amounts.get(r, 0) for r in self._tracked if r != PODS})
        return total

    def came_since(self, standing: NodeStanding) -> ResourceList:
        """Return what the pods request that the node's sample does not count yet."""
        if standing.sample is None or PODS not in self._tracked:
            return {}
        total: dict[str, int] = {}
        for name, pod in self._names_of_pods(standing.name).items():
            if name not in standing.sample.pods:
                requests = pod.spec.requests
                add_resources(total, {r: requests.get(r, 0) for r in self._tracked if r != PODS})
        return total

    def answers(self) -> object:
        """Return every standing, the thresholds, and what is left."""
        return (
            self._standings,
            self.thresholds,
            self._sources,
            self._destinations.standings,
            self.destination_names(),
            self._destinations.taints,
            self.room(),
            self._unknown,
        )

    # --- what changes ---

    def on_pod(self, old: Pod | None, new: Pod | None) -> tuple[Change, ...]:
        """Follow what the pods of a node request, and which pods these are."""
        before = "" if old is None else old.node
        after = "" if new is None else new.node
        if before and after and before != after:
            return (*self._follow(before), *self._follow(after))
        return self._follow(before or after)

    def on_node(self, old: NodeState | None, new: NodeState | None) -> tuple[Change, ...]:
        """Follow capacity, taints, cordons, and which nodes are eligible."""
        state = old if new is None else new
        return () if state is None else self._follow(state.node.name)

    def on_object(self, old: KubeObject | None, new: KubeObject | None) -> tuple[Change, ...]:
        """Follow the samples of the rule's source."""
        usage = old if new is None else new
        assert isinstance(usage, NodeUsage), "of `kinds`"
        return self._follow(usage.node) if usage.source == self.rule.source else ()

    # --- inside ---

    def _follow(self, name: str) -> tuple[Change, ...]:
        """Measure a node again; announce it where pods may move, or could until now."""
        if not name:
            return ()
        could_act, concerned = self.can_act, self._takes_part(name)
        standing = self._measure(name)
        concerned |= self._shift_thresholds()
        if standing is not None:
            self._classify(standing)
        concerned |= self._takes_part(name)
        if not concerned or not (could_act or self.can_act):
            return ()
        return (NodeUtilizationChanged(name, self.rule),)

    def _names_of_pods(self, node: str) -> dict[str, Pod]:
        info = self._cluster.node_info(node)
        return {} if info is None else {str(pod): pod for pod in info.active.values()}

    def _takes_part(self, name: str) -> bool:
        return name in self._sources or name in self._destinations.standings

    def _measure(self, name: str) -> NodeStanding | None:
        """Replace what is known of a node; return it, not classified yet, if it is eligible."""
        if (old := self._standings.pop(name, None)) is not None:
            self._remove_role(old)
            if self._means is not None:
                self._means.remove(old)
        info = self._cluster.node_info(name)
        if info is None or info.node is None or not info.eligible:
            return None
        sample = self._sample(name)
        used = self._used(info, sample)
        percent = percentages(used, info.node, self._threshold_resources)
        standing = self._standings[name] = NodeStanding(info.node, used, percent, sample=sample)
        if self._means is not None:
            self._means.add(standing)
        return standing

    def _sample(self, name: str) -> NodeUsage | None:
        if self.rule.source == REQUESTS:
            return None
        return self._cluster.store(NodeUsage).get(f"{self.rule.source}/{name}")

    def _used(self, info: NodeInfo, sample: NodeUsage | None) -> ResourceList:
        """Return the amounts used; none where a resource that counts was not measured."""
        requested = info.requested
        if self.rule.source == REQUESTS:
            return {resource: requested.get(resource, 0) for resource in self._tracked}
        if sample is None:
            return {}
        measured = {**sample.usage, PODS: requested.get(PODS, 0)}
        used = {r: measured[r] for r in self._tracked if r in measured}
        return used if len(used) == len(self._tracked) else {}

    def _shift_thresholds(self) -> bool:
        """Let the thresholds follow the means; say whether they have changed."""
        if self._means is None:
            return False
        old, self.thresholds = self.thresholds, self.rule.thresholds.around(self._means.values())
        if old == self.thresholds:
            return False
        for name in self._means.between(old, self.thresholds):
            self._classify(self._standings[name])
        return True

    def _classify(self, standing: NodeStanding) -> None:
        """Give a node its class and its part."""
        self._remove_role(standing)
        node = standing.node
        node_class = (
            self.thresholds.classify(standing.percent) if standing.used else NodeClass.UNKNOWN
        )
        if node_class is not standing.node_class:
            standing = replace(standing, node_class=node_class)
            self._standings[node.name] = standing
        if self.rule.is_source(node, node_class):
            self._sources[node.name] = standing
        elif self.rule.is_destination(node, node_class):
            self._destinations.add(standing)
        elif node_class is NodeClass.UNKNOWN:
            self._unknown.add(node.name)

    def _remove_role(self, standing: NodeStanding) -> None:
        self._sources.pop(standing.name, None)
        self._destinations.remove(standing.name)
        self._unknown.discard(standing.name)


class _Destinations:
    """The nodes that take pods, with the sums that tell what they have left."""

    def __init__(self, tracked: Iterable[str]) -> None:
        self.standings: dict[str, NodeStanding] = {}
        self.taints: Counter[tuple[Taint, ...]] = Counter()
        self._used = dict.fromkeys(tracked, 0)
        self._capacities: dict[str, Counter[int]] = {resource: Counter() for resource in self._used}
        self._names: frozenset[str] | None = None

    def names(self) -> frozenset[str]:
        """Return the names of the nodes."""
        if self._names is None:
            self._names = frozenset(self.standings)
        return self._names

    def add(self, standing: NodeStanding) -> None:
        """Count a node."""
        self.standings[standing.name] = standing
        self._names = None
        self._count(standing, 1)

    def remove(self, name: str) -> None:
        """Stop counting a node."""
        if (standing := self.standings.pop(name, None)) is not None:
            self._names = None
            self._count(standing, -1)

    def room(self, thresholds: Thresholds) -> dict[str, int]:
        """Return what all of them together may use beyond what they use."""
        return {
            resource: sum(
                thresholds.allowed(resource, capacity) * nodes
                for capacity, nodes in self._capacities[resource].items()
            )
            - used
            for resource, used in self._used.items()
        }

    def _count(self, standing: NodeStanding, sign: int) -> None:
        _count(self.taints, standing.node.taints, sign)
        for resource, amount in standing.used.items():
            self._used[resource] += sign * amount
            if (capacity := capacity_of(standing.node, resource)) is not None:
                _count(self._capacities[resource], capacity, sign)


class _Means:
    """The mean use of each resource over the nodes of which it is known, exact in any order."""

    def __init__(self, resources: Iterable[str]) -> None:
        self._sorted: dict[str, list[tuple[float, str]]] = {r: [] for r in resources}
        self._sums = dict.fromkeys(self._sorted, 0)

    def add(self, standing: NodeStanding) -> None:
        """Count a node."""
        for resource, percent in standing.percent.items():
            insort(self._sorted[resource], (percent, standing.name))
            self._sums[resource] += _as_whole_number(percent)

    def remove(self, standing: NodeStanding) -> None:
        """Stop counting a node."""
        for resource, percent in standing.percent.items():
            nodes = self._sorted[resource]
            del nodes[bisect_left(nodes, (percent, standing.name))]
            self._sums[resource] -= _as_whole_number(percent)

    def values(self) -> Percentages:
        """Return the means; a resource that no node offers has none."""
        return {
            resource: self._sums[resource] / (len(nodes) << _FRACTION_BITS)
            for resource, nodes in self._sorted.items()
            if nodes
        }

    def between(self, old: Thresholds, new: Thresholds) -> set[str]:
        """Name the nodes whose use lies between an old threshold and the new one."""
        found: set[str] = set()
        for before, after in ((old.low, new.low), (old.high, new.high)):
            for resource, nodes in self._sorted.items():
                if (one := before.get(resource)) is None or (other := after.get(resource)) is None:
                    found.update(name for _, name in nodes)
                elif one != other:
                    first = bisect_right(nodes, (min(one, other), _LAST))
                    last = bisect_right(nodes, (max(one, other), _LAST))
                    found.update(name for _, name in nodes[first:last])
        return found


def _as_whole_number(percent: float) -> int:
    numerator, denominator = percent.as_integer_ratio()
    return numerator << (_FRACTION_BITS + 1 - denominator.bit_length())


def _count(counter: Counter[CountedT], key: CountedT, sign: int) -> None:
    counter[key] += sign
    if not counter[key]:
        del counter[key]
