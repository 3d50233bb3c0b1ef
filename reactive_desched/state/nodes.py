"""Nodes with what sits on them: pods, requested resources, topology domains."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from reactive_desched.model.changes import (
    Change,
    NodeAdded,
    NodeCapacityDecreased,
    NodeCapacityIncreased,
    NodeGone,
    NodeLabelsChanged,
    NodeTaintsChanged,
)
from reactive_desched.model.labels import Labels, Selector
from reactive_desched.model.objects import HOSTNAME_LABEL, ZONE_LABEL, Node, Pod, PodKey
from reactive_desched.model.resources import PODS, add_resources, subtract_resources

MAX_DIRTY_NODES = 100_000
DOMAIN_KEYS = (ZONE_LABEL, "topology.kubernetes.io/region", HOSTNAME_LABEL)
"""The topology labels whose domains are kept as an index."""


class NodeTopology(NamedTuple):
    """What of a node decides who is near whom: its labels, and whether it counts."""

    labels: Labels
    eligible: bool


UNKNOWN_NODE: Final = NodeTopology({}, False)
"""A node that we do not know."""


class NodeInfo:
    """One node name: the node, if we know it, and the pods bound to the name.

    `active` and `ended` hold the pods by uid. `requested` sums the requests of the active ones,
    terminating ones included, with their number under "pods"; `resizing` sums what in-place
    resizes add to that, which only the kube-scheduler minds. `listening` are the active pods with
    host ports; it is another tuple whenever they differ. `declaring` counts the active pods with
    required anti-affinity.
    """

    __slots__ = (
        "active",
        "anti_affinity_pods",
        "completed",
        "eligible",
        "host_port_pods",
        "name",
        "node",
        "requested",
        "resize_delta",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.node: Node | None = None
        self.eligible = False
        self.active: dict[PodKey, Pod] = {}
        self.completed: dict[PodKey, Pod] = {}
        self.requested: dict[str, int] = {}
        self.resize_delta: dict[str, int] = {}
        self.host_port_pods: tuple[Pod, ...] = ()
        self.anti_affinity_pods = 0

    @property
    def topology(self) -> NodeTopology:
        """What of this node decides who is near whom."""
        return (
            NodeTopology(self.node.labels, self.eligible) if self.node is not None else UNKNOWN_NODE
        )

    def all_pods(self) -> Iterator[Pod]:
        """Return the pods bound here, those that have ended last."""
        yield from self.active.values()
        yield from self.completed.values()

    def add_pod(self, pod: Pod) -> bool:
        """Place a pod here or replace its record; say whether what the node holds may differ."""
        if not pod.is_active:
            differs = self.remove_pod(pod.uid)
            self.completed[pod.uid] = pod
            return differs
        old = self.active.get(pod.uid)
        self.active[pod.uid] = pod
        self.anti_affinity_pods += _has_anti_affinity(pod) - (
            old is not None and _has_anti_affinity(old)
        )
        if old is None:
            self.completed.pop(pod.uid, None)
        elif old.spec.requests is pod.spec.requests and old.resize_delta is pod.resize_delta:
            return False
        else:
            self._subtract(old)
        add_resources(self.requested, pod.spec.requests)
        if pod.resize_delta:
            add_resources(self.resize_delta, pod.resize_delta)
        self.requested[PODS] = self.requested.get(PODS, 0) + 1
        if pod.spec.host_ports:
            self.host_port_pods = (*self.host_port_pods, pod)
        return True

    def remove_pod(self, uid: PodKey) -> bool:
        """Take a pod away, if it is here; say whether the node holds less now."""
        old = self.active.pop(uid, None)
        if old is None:
            self.completed.pop(uid, None)
            return False
        self.anti_affinity_pods -= _has_anti_affinity(old)
        self._subtract(old)
        return True

    def _subtract(self, pod: Pod) -> None:
        subtract_resources(self.requested, pod.spec.requests)
        subtract_resources(self.requested, {PODS: 1})
        if pod.resize_delta:
            subtract_resources(self.resize_delta, pod.resize_delta)
        if pod.spec.host_ports:
            self.host_port_pods = tuple(
                other for other in self.host_port_pods if other.uid != pod.uid
            )


def _has_anti_affinity(pod: Pod) -> bool:
    return bool(pod.spec.anti_affinity)


class DirtyNodes:
    """The names of the nodes that may differ since they were last taken out.

    Holds 100,000 names; beyond that it forgets them and says that all may differ.
    """

    __slots__ = ("all_dirty", "names")

    def __init__(self, names: Iterable[str]) -> None:
        self.names: dict[str, None] = dict.fromkeys(names)
        self.all_dirty = False

    def add(self, name: str) -> None:
        """Note that a node may differ."""
        if len(self.names) >= MAX_DIRTY_NODES:
            self.names.clear()
            self.all_dirty = True
        self.names[name] = None


class NodeStore:
    """All nodes, and which of them count.

    A node counts when it is ready and matches the policy's node selector: upstream hands only
    such nodes to plugins, so pods elsewhere are neither judged nor evicted.
    """

    def __init__(self, selector: Selector) -> None:
        self._selector = selector
        self._nodes: dict[str, NodeInfo] = {}
        self._domains: dict[str, dict[str, dict[str, None]]] = {key: {} for key in DOMAIN_KEYS}
        self.eligible_count = 0
        self._subscribers: list[DirtyNodes] = []

    def subscribe(self) -> DirtyNodes:
        """Begin to note which nodes may differ, for whoever keeps sums over them; never ends."""
        dirty = DirtyNodes(self._nodes)
        self._subscribers.append(dirty)
        return dirty

    def mark_dirty(self, name: str) -> None:
        """Tell the followers that a node, or what it holds, may differ."""
        for follower in self._subscribers:
            follower.add(name)

    @property
    def selector(self) -> Selector:
        """Which nodes count, if they are ready."""
        return self._selector

    def set_selector(self, selector: Selector) -> list[Change]:
        """Let the nodes of another selection count and say which came and went."""
        self._selector = selector
        return [
            change
            for node_info in self._nodes.values()
            for change in self._update_eligibility(node_info)
        ]

    def _update_eligibility(self, node_info: NodeInfo) -> Iterator[Change]:
        node, was_eligible = node_info.node, node_info.eligible
        if node is None:
            return
        node_info.eligible = node.is_ready and self._selector.matches(node.labels)
        self.eligible_count += node_info.eligible - was_eligible
        self.mark_dirty(node.name)
        if node_info.eligible != was_eligible:
            yield NodeAdded(node.name) if node_info.eligible else NodeGone(node.name)

    def get_or_create(self, name: str) -> NodeInfo:
        """Return the entry of this name, made when first asked for."""
        node_info = self._nodes.get(name)
        if node_info is None:
            node_info = self._nodes[name] = NodeInfo(name)
        return node_info

    def get(self, name: str) -> NodeInfo | None:
        """Return the entry of this name, if there is one."""
        return self._nodes.get(name)

    def __iter__(self) -> Iterator[NodeInfo]:
        return iter(self._nodes.values())

    def names(self) -> Iterable[str]:
        """Name every node that is known as an object."""
        return [node_info.name for node_info in self._nodes.values() if node_info.node is not None]

    def topology_of(self, name: str) -> NodeTopology:
        """Return what of a node decides who is near whom."""
        node_info = self._nodes.get(name)
        return node_info.topology if node_info is not None else UNKNOWN_NODE

    def nodes_in_domain(self, key: str, value: str) -> Collection[str]:
        """Name the nodes of one topology domain; keys are those of DOMAIN_KEYS."""
        return self._domains[key].get(value, {})

    def upsert(self, node: Node) -> list[Change]:
        """Take in a node as it is now and say what differs."""
        node_info = self.get_or_create(node.name)
        old, was_eligible = node_info.node, node_info.eligible
        if old is not None and old.uid == node.uid and _is_older(node, old):
            return []
        node_info.node = node
        node_info.eligible = node.is_ready and self._selector.matches(node.labels)
        self.eligible_count += node_info.eligible - was_eligible
        if old is None or not _equivalent(old, node):
            self.mark_dirty(node.name)
        if old is None or old.labels != node.labels:
            self._move_domains(node.name, old.labels if old else {}, node.labels)
        if node_info.eligible:
            return list(_differences(old, node)) if old and was_eligible else [NodeAdded(node.name)]
        return [*([NodeGone(node.name)] if was_eligible else []), *_capacity_gains(old, node)]

    def remove(self, name: str, uid: str = "") -> list[Change]:
        """Forget a node; an older incarnation of the name does no harm."""
        node_info = self._nodes.get(name)
        if node_info is None or node_info.node is None or (uid and node_info.node.uid != uid):
            return []
        self._move_domains(name, node_info.node.labels, {})
        was_eligible, node_info.node, node_info.eligible = node_info.eligible, None, False
        self.eligible_count -= was_eligible
        self.mark_dirty(name)
        self.remove_if_empty(node_info)
        return [NodeGone(name)] if was_eligible else []

    def remove_if_empty(self, node_info: NodeInfo) -> None:
        """Drop an entry with neither node nor pods, so that names do not pile up."""
        if node_info.node is None and not node_info.active and not node_info.completed:
            self._nodes.pop(node_info.name, None)

    def _move_domains(self, name: str, old: Labels, new: Labels) -> None:
        for key, domains in self._domains.items():
            before, after = old.get(key), new.get(key)
            if before == after:
                continue
            if before is not None:
                domains[before].pop(name, None)
                if not domains[before]:
                    del domains[before]
            if after is not None:
                domains.setdefault(after, {})[name] = None


def _is_older(new: Node, old: Node) -> bool:
    return 0 < new.resource_version < old.resource_version


def _equivalent(old: Node, new: Node) -> bool:
    """Say whether two records of a node mean the same to every pod, as after a heartbeat."""
    return (
        old.uid == new.uid
        and (old.is_ready, old.unschedulable) == (new.is_ready, new.unschedulable)
        and (old.labels is new.labels or old.labels == new.labels)
        and old.taints == new.taints
        and (old.allocatable is new.allocatable or old.allocatable == new.allocatable)
    )


def _capacity_gains(old: Node | None, new: Node) -> Iterator[Change]:
    """Say whether a node that does not count takes more: an evictor may look beyond the policy."""
    if new.is_ready and (
        old is None
        or not old.is_ready
        or any(not isinstance(change, NodeCapacityDecreased) for change in _differences(old, new))
    ):
        yield NodeCapacityIncreased(new.name)


def _differences(old: Node, new: Node) -> Iterator[Change]:
    if old.taints != new.taints:
        yield NodeTaintsChanged(new.name)
    if old.labels != new.labels:
        yield NodeLabelsChanged(new.name, changed_keys(old.labels, new.labels))
    if old.unschedulable != new.unschedulable or old.allocatable != new.allocatable:
        yield from _capacity_changes(old, new)


def _capacity_changes(old: Node, new: Node) -> Iterator[Change]:
    resources = old.allocatable.keys() | new.allocatable.keys()
    grew = [r for r in resources if new.allocatable.get(r, 0) > old.allocatable.get(r, 0)]
    shrank = [r for r in resources if new.allocatable.get(r, 0) < old.allocatable.get(r, 0)]
    if grew or (old.unschedulable and not new.unschedulable):
        yield NodeCapacityIncreased(new.name)
    if shrank or (new.unschedulable and not old.unschedulable):
        yield NodeCapacityDecreased(new.name)


def changed_keys(old: Mapping[str, str], new: Mapping[str, str]) -> frozenset[str]:
    """Name the labels that were added, removed or altered."""
    return frozenset(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
