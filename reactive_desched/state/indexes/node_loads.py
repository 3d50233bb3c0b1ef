"""Classes the nodes of a pool by the use that koordinator measures."""

from collections.abc import Collection, Generator, Hashable, Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from reactive_desched.api.index import Cluster, Index, NodeState
from reactive_desched.model.changes import Change, NodeChange
from reactive_desched.model.moves import MovedPods
from reactive_desched.model.node_load import (
    TARGETS,
    Ceilings,
    Level,
    LoadClass,
    LoadRule,
    Means,
    NodeLoad,
    PodsUse,
    RunningUse,
    ceilings,
    classify,
    may_be_source,
    mean_use,
    measure,
    other_use,
    with_new_sample,
)
from reactive_desched.model.objects import ClusterObject, Pod
from reactive_desched.model.resources import ResourceList
from reactive_desched.model.usage import NodeMetric
from reactive_desched.primitives.long_answers import at_once, sorted_portions
from reactive_desched.state.indexes.replica_places import ReplicaPlaces, changes_domains

SOURCES: Final = (LoadClass.HIGH, LoadClass.PROD_HIGH)
"""The classes of nodes that give pods away."""

FILLED_BY: Final = "LowNodeLoad"
"""The plugin whose moved pods count as what fills a node."""


class NodeLoadChanged(NodeChange, frozen=True, gc=False):
    """The load of this node changed, so that other pods of its pool may have to move."""


class LoadedNode(Struct, frozen=True, gc=False):
    """One node of a pool: its load, its thresholds as amounts, and its class.

    `filled_since_s` is when the first of the pods came that the plugin moved to the node, where it
    has room in spite of them (seconds since the epoch).
    """

    load: NodeLoad
    limits: Ceilings
    load_class: LoadClass
    filled_since_s: float | None = None


class PoolClasses(Struct, frozen=True):
    """The nodes of a pool by class; `selected` counts those that were not measured as well."""

    selected: int
    by_class: Mapping[LoadClass, Collection[LoadedNode]]
    means: Means | None = None

    def has(self, *classes: LoadClass) -> bool:
        """Say whether there is a node of one of these classes."""
        return any(self.by_class.get(of) for of in classes)

    def of(self, *classes: LoadClass) -> list[LoadedNode]:
        """Return the nodes of some classes, by name."""
        return at_once(self.find(*classes))

    def find(self, *classes: LoadClass) -> Generator[None, None, list[LoadedNode]]:
        """Return the same, a portion of the nodes in each step."""
        found = [each for of in classes for each in self.by_class.get(of, ())]
        ordered: list[LoadedNode] = []
        for portion in sorted_portions(found, lambda each: each.load.name):
            ordered += portion
            yield
        return ordered


class NodeLoads(Index):
    """The loads of the nodes of one pool, kept by one rule.

    Where thresholds are distances from the mean every sample moves all of them, so classes are
    found when they are asked for. Else they are kept per change. While no node gives pods away, and
    none begins to, a pod changes only what is used on its node: its class is found when asked for.
    A node to which LowNodeLoad moves pods, stored as `MovedPods`, has room as long as it would
    without these, and is not overloaded: what else comes to it or leaves it decides.
    """

    announces = (NodeLoadChanged,)
    kinds = (NodeMetric, MovedPods)

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        assert isinstance(args, LoadRule), "the index is kept for a rule"
        self._rule = args
        zeros = (0.0,) * len(self._rule.resources)
        self._no_means = Means(zeros, zeros) if self._rule.deviation else None
        self._metrics = cluster.store(NodeMetric)
        self._places = cluster.index(ReplicaPlaces) if args.follows_pods else None
        self._moved = {m.node: m for m in cluster.store(MovedPods) if m.plugin == FILLED_BY}
        self._selected: set[str] = set()
        self._loaded: dict[str, LoadedNode] = {}
        self._running: dict[str, RunningUse] = {}  # of nodes whose class is older than their use
        self._other_uses: dict[str, PodsUse] = {}  # of nodes whose last sample had just their pods
        self._by_class: dict[LoadClass, dict[str, None]] = {of: {} for of in LoadClass}
        self._has_sources = self._rule.deviation
        for info in cluster.node_infos():
            self._follow(info.name)

    # --- questions ---

    @property
    def selected(self) -> Collection[str]:
        """The names of the pool's nodes, measured or not."""
        return self._selected

    def classes(self, sampled_after_s: float, without: Collection[str] = ()) -> PoolClasses:
        """Return the classes of the nodes measured after a time, but for some."""
        return at_once(self.count_classes(sampled_after_s, without))

    def count_classes(
        self, sampled_after_s: float, without: Collection[str] = ()
    ) -> Generator[None, None, PoolClasses]:
        """Return the same, a node in each step, as the nodes are when all have caught up."""
        yield from self.catch_up()
        left_out = {name for name in without if name in self._selected}
        selected, means = len(self._selected) - len(left_out), None
        kept: list[LoadedNode] = []
        for each in tuple(self._loaded.values()):
            load = each.load
            if load.sampled_s > sampled_after_s and load.name not in left_out:
                kept.append(each)
            yield
        if self._rule.deviation:
            means = yield from mean_use(self._rule, [each.load for each in kept])
        by_class: dict[LoadClass, list[LoadedNode]] = {}
        for each in kept:
            by_now = each
            if means is not None:
                by_now = self._classified(each.load, ceilings(self._rule, each.load, means))
            by_class.setdefault(by_now.load_class, []).append(by_now)
            yield
        return PoolClasses(selected, by_class, means)

    def catch_up(self) -> Iterator[None]:
        """Update the classes of nodes whose use changed, one node per step.

        A question does that to all at once; a plan may pause in between.
        """
        while self._running:
            name, running = self._running.popitem()
            loaded = self._loaded[name]
            by_now = self._classified(running.load(), loaded.limits)
            self._replace(name, loaded, by_now, always=False)
            yield

    def oldest_sample_s(self, sampled_after_s: float) -> float | None:
        """Return when the oldest of the measurements after a time was made; None for none."""
        times = (loaded.load.sampled_s for loaded in self._loaded.values())
        return min((time for time in times if time > sampled_after_s), default=None)

    def loads(self) -> Collection[NodeLoad]:
        """Return the load of each node that was measured, however long ago."""
        self._catch_up()
        return [loaded.load for loaded in self._loaded.values()]

    def is_source(self, node: str) -> bool:
        """Say whether a node gives pods away by its last measurement."""
        loaded = self._loaded.get(node)
        return loaded is not None and (self._rule.deviation or loaded.load_class in SOURCES)

    def answers(self) -> object:
        """Return every measured node, and which nodes are selected."""
        self._catch_up()
        return self._selected, self._loaded, {k: set(v) for k, v in self._by_class.items()}

    # --- what changes ---

    def on_pod(self, old: Pod | None, new: Pod | None) -> Iterable[Change]:
        """Follow which pods are on a node, which of them may leave, and what they request."""
        before, after = "" if old is None else old.node, "" if new is None else new.node
        if before and after and before != after:
            changes = (*self._follow_pod(before, old, None), *self._follow_pod(after, None, new))
        else:
            changes = (*self._follow_pod(before or after, old, new),)
        if changes or not (self._has_sources and self._concerns_sources(old, new)):
            return changes
        return (NodeLoadChanged(before or after),)

    def on_pod_status(self, old: Pod, new: Pod) -> Iterable[Change]:
        """Follow which pods are production pods, and in which order those of a node leave."""
        if old.qos_class == new.qos_class and old.annotations == new.annotations:
            return ()
        return self._follow(new.node, always=self.is_source(new.node))

    def on_node(self, old: NodeState | None, new: NodeState | None) -> Iterable[Change]:
        """Follow which nodes are eligible and selected, what they have, and their taints."""
        if (state := old if new is None else new) is None:
            return ()
        changes = (*self._follow(state.node.name, always=True),)
        if changes or self._places is None or not (self._has_sources and changes_domains(old, new)):
            return changes
        return (NodeLoadChanged(state.node.name),)

    def on_object(self, old: ClusterObject | None, new: ClusterObject | None) -> Iterable[Change]:
        """Follow the measurements, and the pods that the plugin moved."""
        metric = old if new is None else new
        if isinstance(metric, MovedPods):
            return self._follow_moved(metric, is_gone=new is None)
        assert isinstance(metric, NodeMetric), "of `kinds`"
        if new is not None and (again := self._sampled_again(metric)) is not None:
            return self._replace(metric.node, self._loaded[metric.node], again, always=True)
        changes = self._follow(metric.node, always=True)
        if metric.node in self._loaded and (info := self._cluster.node_info(metric.node)):
            pick_others = other_use(info.active.values(), metric)
            if pick_others is not None:
                self._other_uses[metric.node] = pick_others
        return changes

    # --- inside ---

    def _follow_moved(self, moved: MovedPods, *, is_gone: bool) -> Iterable[Change]:
        if moved.plugin != FILLED_BY:
            return ()
        if is_gone:
            self._moved.pop(moved.node, None)
        else:
            self._moved[moved.node] = moved
        return self._follow(moved.node)

    def _follow(self, name: str, *, always: bool = False) -> Iterable[Change]:
        """Measure a node again, and announce it where pods may move, or could until now."""
        old, was_selected = self._loaded.get(name), name in self._selected
        self._other_uses.pop(name, None)
        self._running.pop(name, None)
        new = self._measure(name)
        always |= was_selected != (name in self._selected)
        if was_selected or name in self._selected:
            return self._replace(name, old, new, always=always)
        return ()

    def _sampled_again(self, metric: NodeMetric) -> LoadedNode | None:
        """Return a node as loaded by a new sample; None where other pods were measured."""
        if (pick_others := self._other_uses.get(metric.node)) is None:
            return None
        old = self._loaded[metric.node]
        if old.load.pods.keys() != metric.pods.keys():
            return None
        load = with_new_sample(self._rule, old.load, metric, pick_others)
        return self._classified(load, old.limits)

    def _follow_pod(self, name: str, old: Pod | None, new: Pod | None) -> Iterable[Change]:
        """Take a pod off a node's load and add one, without measuring the others again."""
        if (loaded := self._loaded.get(name)) is None:
            return ()
        self._other_uses.pop(name, None)
        if (running := self._running.get(name)) is None:
            running = self._running[name] = RunningUse(self._rule, loaded.load)
        left = old if old is not None and old.is_active else None
        came = new if new is not None and new.is_active else None
        if left is not None:
            running.count(left, -1)
        if came is not None:
            running.count(came, 1)
        begins = came is not None and may_be_source(running, loaded.limits)
        if not (self._has_sources or begins):
            return ()  # a pod that leaves makes no node a source
        always = self._has_sources and (
            self.is_source(name)
            or (loaded.load_class is not LoadClass.BETWEEN and _requests(left) != _requests(came))
        )
        del self._running[name]
        by_now = self._classified(running.load(), loaded.limits)
        return self._replace(name, loaded, by_now, always=always)

    def _concerns_sources(self, old: Pod | None, new: Pod | None) -> bool:
        """Say whether the workload of a pod elsewhere has pods on nodes that give pods away."""
        if self._places is None:
            return False
        if self._rule.deviation:
            return self._places.shares_nodes(old, new, self._loaded)
        return any(
            self._places.shares_nodes(old, new, self._by_class[load_class])
            for load_class in SOURCES
        )

    def _catch_up(self) -> None:
        for _ in self.catch_up():
            pass

    def _replace(
        self, name: str, old: LoadedNode | None, new: LoadedNode | None, *, always: bool
    ) -> Iterable[Change]:
        """Replace a node; announce it where pods may move, or could until now."""
        could_move = self._has_sources
        if new is not None:
            self._loaded[name] = new
        elif old is not None:
            del self._loaded[name]
        if old is None or new is None or old.load_class is not new.load_class:
            if old is not None:
                del self._by_class[old.load_class][name]
            if new is not None:
                self._by_class[new.load_class][name] = None
            self._has_sources = self._rule.deviation or any(self._by_class[of] for of in SOURCES)
        if not (could_move or self._has_sources) or (not always and old == new):
            return ()
        return (NodeLoadChanged(name),)

    def _measure(self, name: str) -> LoadedNode | None:
        info = self._cluster.node_info(name)
        node = None if info is None or not info.eligible else info.node
        if info is None or node is None or not self._rule.selector.matches(node.labels):
            self._selected.discard(name)
            return None
        capacity = node.allocatable if node.load_capacity is None else node.load_capacity
        if not all(map(capacity.get, self._rule.resources)) and not self._is_about(capacity):
            self._selected.discard(name)
            return None
        self._selected.add(name)
        if (metric := self._metrics.get(name)) is None:
            return None
        load = measure(self._rule, node, info.active.values(), metric)
        return self._classified(load, ceilings(self._rule, load, self._no_means))

    def _classified(self, load: NodeLoad, limits: Ceilings) -> LoadedNode:
        """Return a node with its class: without the pods that were moved to it, while it fills."""
        load_class, moved = classify(load, limits), self._moved.get(load.name)
        if moved is None or load_class in SOURCES:
            return LoadedNode(load, limits, load_class)
        info = self._cluster.node_info(load.name)
        active = {} if info is None else info.active
        came = [(pod, moved.pods[uid]) for uid, pod in active.items() if uid in moved.pods]
        own = RunningUse(self._rule, load)
        for pod, _ in came:
            own.count(pod, -1)
        own_class = classify(own.load(), limits)
        if not came or own_class not in TARGETS:
            return LoadedNode(load, limits, load_class)
        return LoadedNode(load, limits, own_class, min(since_s for _, since_s in came))

    def _is_about(self, capacity: ResourceList) -> bool:
        """Say whether the thresholds of some level are about a node."""
        levels = [level for level in Level if self._rule.written(level).low]
        return not levels or any(self._rule.is_about(level, capacity) for level in levels)


def _requests(pod: Pod | None) -> ResourceList | None:
    return None if pod is None else pod.held
