"""Keeps which nodes give pods away and which take them, by the use of each resource.

The class of each node is kept per change: by the requests of its pods or by what a source of
metrics measured, against fixed thresholds or against distances from the mean of all nodes. A node
to which the rule's plugin moves pods goes on taking them until it is full.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from typing import Final

from reactive_desched.api.index import Cluster, Index, NodeInfo, NodeState
from reactive_desched.model.changes import Change, NodeChange
from reactive_desched.model.moves import MovedPods
from reactive_desched.model.objects import ClusterObject, Node, Pod
from reactive_desched.model.resources import (
    PODS,
    ResourceList,
    add_resources,
    subtract_resources,
)
from reactive_desched.model.usage import NodeUsage
from reactive_desched.model.utilization import (
    REQUESTS,
    ClassBounds,
    NodeClass,
    NodeUse,
    Percentages,
    Thresholds,
    UtilizationRule,
    capacity_of,
    percentages,
)
from reactive_desched.state.indexes.replica_places import ReplicaPlaces, changes_domains

_UNIT: Final = 2.0**-64
"""Percentages are summed as whole numbers of this, so that their order does not matter."""

_LAST: Final = "\U0010ffff"


class NodeUtilizationChanged(NodeChange, frozen=True, gc=False):
    """Pods may move by this rule, or could until now, and what decides which has changed.

    `node` is where something changed, one of those that give or take pods, as a rule.
    """

    rule: UtilizationRule


class NodeUtilization(Index):
    """The class of every eligible node by one rule: which give pods, and which take them.

    A change is announced only while there are nodes that give pods and nodes that take them: of
    one of these nodes, or of pods elsewhere whose workload has some on nodes that give pods.
    `thresholds` are those in force: with `deviation` they follow the means. A node that the rule's
    plugin fills, by the pods stored as `MovedPods`, takes pods as long as it would without these,
    and is not above its high thresholds: what else comes to it or leaves it decides.
    """

    announces = (NodeUtilizationChanged,)
    kinds = (NodeUsage, MovedPods)

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        assert isinstance(args, UtilizationRule), "the index is kept for a rule"
        self.rule = args
        self._tracked = args.tracked
        self._limited = tuple(resource for resource, _ in args.low)
        self._uses: dict[str, NodeUse] = {}
        self._bounds: dict[str, tuple[NodeInfo, ClassBounds]] = {}  # of nodes whose pods changed
        self._sources: dict[str, NodeUse] = {}
        self._destinations: dict[str, NodeUse] = {}
        self._destination_names: frozenset[str] | None = None
        self._unknown: set[str] = set()
        self._stale: set[str] = set()
        self._places = None if args.as_upstream else cluster.index(ReplicaPlaces)
        self._filled_by = "" if args.as_upstream else args.filled_by
        self._moved = {m.node: m for m in cluster.store(MovedPods) if m.plugin == self._filled_by}
        self._means = _Means(self._limited) if args.deviation else None
        self.thresholds = self._written = args.thresholds
        for info in cluster.node_infos():
            if (use := self._measure(info)) is not None:
                self._uses[info.name] = use
                if self._means is not None:
                    self._means.replace(info.name, {}, use.percent)
        self._follow_means()
        for use in list(self._uses.values()):
            self._classify(use)

    # --- questions ---

    @property
    def can_act(self) -> bool:
        """Say whether there are nodes that give pods and nodes that take them, as many as asked."""
        return self.rule.can_act(len(self._sources), len(self._destinations))

    @property
    def unknown(self) -> Collection[str]:
        """The nodes of which no use is known; they neither give nor take pods."""
        return self._unknown

    def unready(self) -> Iterator[Node]:
        """Yield the nodes that are not ready, and that the policy may select."""
        nodes = (info.node for info in self._cluster.node_infos())
        return (node for node in nodes if node is not None and not node.is_ready)

    @property
    def means(self) -> Percentages | None:
        """The means that thresholds are distances from; None where they are not."""
        return None if self._means is None else self._means.values()

    def uses(self) -> Mapping[str, NodeUse]:
        """Return how each eligible node compares, by name."""
        self._catch_up()
        return self._uses

    def sources(self) -> Mapping[str, NodeUse]:
        """Return the nodes that give pods away, by name."""
        self._catch_up()
        return self._sources

    def destinations(self) -> Mapping[str, NodeUse]:
        """Return the nodes that take pods, by name."""
        self._catch_up()
        return self._destinations

    def catch_up(self) -> Iterator[None]:
        """Measure the nodes whose pods have changed, one after the other.

        A question does that to all at once; a plan may pause in between.
        """
        while self._stale:
            self._follow(self._stale.pop())
            yield

    def destination_names(self) -> frozenset[str]:
        """Return the names of the nodes that take pods, the same set while they do not change."""
        if self._destination_names is None:
            self._destination_names = frozenset(self._destinations)
        return self._destination_names

    def used_by(self, pod: Pod) -> ResourceList | None:
        """Return what a pod uses: nothing where single pods cannot be measured; None if unknown."""
        if self.rule.source == REQUESTS:
            requests = pod.spec.requests if self.rule.as_upstream else pod.held
            return {r: 1 if r == PODS else requests.get(r, 0) for r in self._tracked}
        if PODS not in self._tracked:
            return {}
        use = self._uses.get(pod.node)
        if use is None or use.sample is None:
            return None
        if (measured := use.sample.pods.get(str(pod))) is None:
            return None
        try:
            return {r: 1 if r == PODS else measured[r] for r in self._tracked}
        except KeyError:
            return None

    def gives_at(self, node: Node, used: ResourceList) -> bool:
        """Say whether a node would give pods away if so much of it were used."""
        return self.rule.is_source(node, self.thresholds.classify(self._percent(used, node)))

    def came_later(self, pod: Pod) -> bool:
        """Say whether a pod is younger than its node's sample.

        What the sample has under its name is then what another pod used, of which it may be the
        replacement: pods of a StatefulSet keep their names.
        """
        use = self._uses.get(pod.node)
        sample = None if use is None else use.sample
        return sample is not None and pod.created_s >= sample.sampled_s

    def left_since(self, use: NodeUse) -> ResourceList:
        """Return what the node's sample still counts of pods that have left since."""
        if use.sample is None or PODS not in self._tracked:
            return {}
        present = self._names_of_pods(use.name)
        total: dict[str, int] = {}
        for name, amounts in use.sample.pods.items():
            if (pod := present.get(name)) is None or self.came_later(pod):
                add_resources(total, {r: amounts.get(r, 0) for r in self._tracked if r != PODS})
        return total

    def came_since(self, use: NodeUse) -> ResourceList:
        """Return what the pods request that the node's sample does not count yet."""
        if use.sample is None or PODS not in self._tracked:
            return {}
        total: dict[str, int] = {}
        for name, pod in self._names_of_pods(use.name).items():
            if name not in use.sample.pods or self.came_later(pod):
                requests = pod.held
                add_resources(total, {r: requests.get(r, 0) for r in self._tracked if r != PODS})
        return total

    def answers(self) -> object:
        """Return the use of every node, the thresholds, and which nodes give and take pods."""
        return (
            self.uses(),
            self.thresholds,
            self.sources(),
            self.destinations(),
            self.destination_names(),
            self._unknown,
        )

    # --- what changes ---

    def on_pod(self, old: Pod | None, new: Pod | None) -> tuple[Change, ...]:
        """Follow what the pods of a node request, and which pods these are."""
        before = "" if old is None else old.node
        after = "" if new is None else new.node
        if before and after and before != after:
            changes = (*self._follow_pods(before), *self._follow_pods(after))
        else:
            changes = self._follow_pods(before or after)
        if changes or self._places is None or not self.can_act:
            return changes
        if not self._places.shares_nodes(old, new, self._sources):
            return ()
        return (NodeUtilizationChanged(before or after, self.rule),)

    def on_node(self, old: NodeState | None, new: NodeState | None) -> tuple[Change, ...]:
        """Follow capacity, taints, cordons, and which nodes are eligible."""
        if (state := old if new is None else new) is None:
            return ()
        changes = self._follow(state.node.name)
        if changes or self._places is None or not (self.can_act and changes_domains(old, new)):
            return changes
        return (NodeUtilizationChanged(state.node.name, self.rule),)

    def on_object(self, old: ClusterObject | None, new: ClusterObject | None) -> tuple[Change, ...]:
        """Follow the samples of the rule's source, and the pods that its plugin moved."""
        usage = old if new is None else new
        if isinstance(usage, MovedPods):
            return self._follow_moved(usage, is_gone=new is None)
        assert isinstance(usage, NodeUsage), "of `kinds`"
        return self._follow(usage.node) if usage.source == self.rule.source else ()

    # --- inside ---

    def _follow_moved(self, moved: MovedPods, *, is_gone: bool) -> tuple[Change, ...]:
        if moved.plugin != self._filled_by:
            return ()
        if is_gone:
            self._moved.pop(moved.node, None)
        else:
            self._moved[moved.node] = moved
        return self._follow(moved.node)

    def _follow_pods(self, name: str) -> tuple[Change, ...]:
        """Follow a node with other pods; where that can alter no plan, measure it when asked."""
        if self._keeps_class(name) and not (self._takes_part(name) and self.can_act):
            self._stale.add(name)
            return ()
        return self._follow(name)

    def _catch_up(self) -> None:
        for _ in self.catch_up():
            pass

    def _keeps_class(self, name: str) -> bool:
        """Say whether a node is of the same class with the pods that it has now."""
        use = self._uses.get(name)
        if use is None or self._means is not None or name in self._moved:
            return False
        if self.rule.source != REQUESTS:
            return PODS not in self._limited
        if (known := self._bounds.get(name)) is None:
            if (info := self._cluster.node_info(name)) is None:
                return False
            known = self._bounds[name] = info, self.thresholds.bounds_on(use.node)
        info, bounds = known
        return bounds.classify(self._requested(info)) is use.node_class

    def _follow(self, name: str) -> tuple[Change, ...]:
        """Measure a node again; announce it where pods may move, or could until now."""
        if not name:
            return ()
        parts_before = len(self._sources), len(self._destinations)
        concerned = self._takes_part(name)
        self._stale.discard(name)
        old, info = self._uses.pop(name, None), self._cluster.node_info(name)
        new = None if info is None else self._measure(info, old)
        if self._means is not None:
            before, after = (None if s is None else s.percent for s in (old, new))
            self._means.replace(name, before or {}, after or {})
            concerned |= self._follow_means()
        if old is None or new is None or old.node is not new.node:
            self._bounds.pop(name, None)
        if new is None:
            self._remove_part(name)
        else:
            self._classify(new)
        concerned |= self._takes_part(name)
        if not concerned or not (self.can_act or self.rule.can_act(*parts_before)):
            return ()
        return (NodeUtilizationChanged(name, self.rule),)

    def _takes_part(self, name: str) -> bool:
        return name in self._sources or name in self._destinations

    def _measure(self, info: NodeInfo, old: NodeUse | None = None) -> NodeUse | None:
        """Return how an eligible node compares, not classified yet.

        `old` is how it stood before; what counts on a node stays while the node does.
        """
        node = info.node
        if node is None or not info.eligible:
            return None
        is_same = old is not None and old.node is node and bool(old.used)
        if not is_same and not self.rule.is_about(node):
            return None
        counted = old.used if old is not None and is_same else self.rule.counted_on(node)
        sample = None
        if self.rule.source == REQUESTS:
            requested = self._requested(info)
            used = {resource: requested.get(resource, 0) for resource in counted}
        else:
            sample = self._cluster.store(NodeUsage).get(f"{self.rule.source}/{info.name}")
            used = _measured(sample, info.requested.get(PODS, 0), counted)
        return NodeUse(node, used, self._percent(used, node), sample=sample)

    def _percent(self, used: ResourceList, node: Node) -> Percentages:
        """Return the use of the resources with thresholds that is known.

        As upstream counts, that is 0 of those of which the node offers none.
        """
        limited = self._limited
        percent = percentages(used, node, limited)
        if len(percent) == len(limited) or not self.rule.as_upstream:
            return percent
        none_of = {r: 0.0 for r in limited if r in used and capacity_of(node, r) is not None}
        return {**none_of, **percent}

    def _requested(self, info: NodeInfo) -> ResourceList:
        requests_alone = not info.resize_delta or self.rule.as_upstream
        return info.requested if requests_alone else info.held

    def _follow_means(self) -> bool:
        """Let the thresholds follow the means; say whether they have changed."""
        if self._means is None:
            return False
        old, self.thresholds = self.thresholds, self._written.around(self._means.values())
        if old == self.thresholds:
            return False
        for name in self._means.between(old, self.thresholds).union(self._moved):
            if (use := self._uses.get(name)) is not None:
                self._classify(use)
        return True

    def _classify(self, use: NodeUse) -> None:
        """Give a node its class and its part."""
        node, percent, node_class = use.node, use.percent, NodeClass.UNKNOWN
        name = node.name
        if use.used:
            node_class = self.thresholds.classify(percent)
        self._uses[name] = use
        filled_since_s = self._filled_since(use, node_class) if self._moved else None
        if node_class is not use.node_class or filled_since_s != use.filled_since_s:
            use = NodeUse(node, use.used, percent, node_class, use.sample, filled_since_s)
            self._uses[name] = use
        if self.rule.is_source(node, node_class):
            self._remove_part(name)
            self._sources[name] = use
        elif filled_since_s is not None or self.rule.is_destination(node, node_class):
            if name not in self._destinations:
                self._remove_part(name)
                self._destination_names = None
            self._destinations[name] = use
        else:
            self._remove_part(name)
            if node_class is NodeClass.UNKNOWN:
                self._unknown.add(name)

    def _filled_since(self, use: NodeUse, node_class: NodeClass) -> float | None:
        """Return since when a node is filled that takes pods; None for one that is not filled.

        It would take pods without those that the plugin moved to it, and is not above what is
        allowed there. Where single pods cannot be measured, only the latter is known.
        """
        if (moved := self._moved.get(use.name)) is None or node_class is NodeClass.UNKNOWN:
            return None
        info = self._cluster.node_info(use.name)
        active = {} if info is None else info.active
        came = [(pod, moved.pods[uid]) for uid, pod in active.items() if uid in moved.pods]
        if not came or self.rule.is_source(use.node, node_class):
            return None
        own = self._without(use, [pod for pod, _ in came])
        own_class = self.thresholds.classify(self._percent(own, use.node))
        is_destination = self.rule.is_destination(use.node, own_class)
        return min(since_s for _, since_s in came) if is_destination else None

    def _without(self, use: NodeUse, pods: Iterable[Pod]) -> ResourceList:
        """Return what is used of a node by other pods than these; nothing if that is not known."""
        if self.rule.source != REQUESTS and PODS not in self._tracked:
            return {}
        own = dict(use.used)
        for pod in pods:
            if use.sample is None or not self.came_later(pod):
                subtract_resources(own, self.used_by(pod) or {})
        return own

    def _remove_part(self, name: str) -> None:
        if name in self._sources:
            del self._sources[name]
        elif name in self._destinations:
            del self._destinations[name]
            self._destination_names = None
        else:
            self._unknown.discard(name)

    def _names_of_pods(self, node: str) -> dict[str, Pod]:
        info = self._cluster.node_info(node)
        return {} if info is None else {str(pod): pod for pod in info.active.values()}


def _measured(sample: NodeUsage | None, pods: int, counted: Collection[str]) -> dict[str, int]:
    """Return the amounts used; none where a resource that counts was not measured."""
    if sample is None:
        return {}
    measured = {**sample.usage, PODS: pods}
    used = {r: measured[r] for r in counted if r in measured}
    return used if len(used) == len(counted) else {}


class _Means:
    """The mean use of each resource over the nodes of which it is known, whatever the order."""

    def __init__(self, resources: Iterable[str]) -> None:
        self._sorted: dict[str, list[tuple[float, str]]] = {r: [] for r in resources}
        self._sums = dict.fromkeys(self._sorted, 0)

    def replace(self, node: str, old: Percentages, new: Percentages) -> None:
        """Count a node with its new use, empty for a node that does not count any more."""
        for resource, nodes in self._sorted.items():
            before, after = old.get(resource), new.get(resource)
            if before == after:
                continue
            if before is not None:
                del nodes[bisect_left(nodes, (before, node))]
                self._sums[resource] -= int(before / _UNIT)
            if after is not None:
                insort(nodes, (after, node))
                self._sums[resource] += int(after / _UNIT)

    def values(self) -> Percentages:
        """Return the means; a resource that no node offers has none."""
        return {
            resource: self._sums[resource] / len(nodes) * _UNIT
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
                    last = bisect_right(nodes, (max(one, other), _LAST), first)
                    found.update(name for _, name in nodes[first:last])
        return found
