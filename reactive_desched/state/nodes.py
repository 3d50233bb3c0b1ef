"""Nodes with what sits on them: pods, requested resources, topology domains."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from reactive_desched.model.changes import (
    Change,
    NodeAdded,
    NodeGone,
    NodeLabelsChanged,
    NodeRelaxed,
    NodeTaintsChanged,
    NodeTightened,
)
from reactive_desched.model.labels import Labels, Selector
from reactive_desched.model.objects import HOSTNAME_LABEL, ZONE_LABEL, Node, Pod, PodKey
from reactive_desched.model.resources import PODS, add, subtract

TOUCHED_NODES = 100_000
DOMAIN_KEYS = (ZONE_LABEL, "topology.kubernetes.io/region", HOSTNAME_LABEL)
"""The topology labels whose domains are kept as an index."""


class Standing(NamedTuple):
    """What of a node decides who is near whom: its labels, and whether it counts."""

    labels: Labels
    counts: bool


NOWHERE: Final = Standing({}, False)
"""A node that we do not know."""


class NodeEntry:
    """One node name: the node, if we know it, and the pods bound to the name.

    `active` and `ended` hold the pods by uid. `requested` sums the requests of the active ones,
    terminating ones included, with their number under "pods"; `resizing` sums what in-place
    resizes add to that, which only the kube-scheduler minds. `listening` are the active pods with
    host ports; it is another tuple whenever they differ. `declaring` counts the active pods with
    required anti-affinity.
    """

    __slots__ = (
        "active",
        "counts",
        "declaring",
        "ended",
        "listening",
        "name",
        "node",
        "requested",
        "resizing",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.node: Node | None = None
        self.counts = False
        self.active: dict[PodKey, Pod] = {}
        self.ended: dict[PodKey, Pod] = {}
        self.requested: dict[str, int] = {}
        self.resizing: dict[str, int] = {}
        self.listening: tuple[Pod, ...] = ()
        self.declaring = 0

    @property
    def standing(self) -> Standing:
        """What of this node decides who is near whom."""
        return Standing(self.node.labels, self.counts) if self.node is not None else NOWHERE

    def everyone(self) -> Iterator[Pod]:
        """Return the pods bound here, those that have ended last."""
        yield from self.active.values()
        yield from self.ended.values()

    def put(self, pod: Pod) -> bool:
        """Place a pod here or replace its record; say whether what the node holds may differ."""
        if not pod.is_active:
            differs = self.drop(pod.uid)
            self.ended[pod.uid] = pod
            return differs
        old = self.active.get(pod.uid)
        self.active[pod.uid] = pod
        self.declaring += _declares(pod) - (old is not None and _declares(old))
        if old is None:
            self.ended.pop(pod.uid, None)
        elif old.spec.requests is pod.spec.requests and old.resized is pod.resized:
            return False
        else:
            self._release(old)
        add(self.requested, pod.spec.requests)
        if pod.resized:
            add(self.resizing, pod.resized)
        self.requested[PODS] = self.requested.get(PODS, 0) + 1
        if pod.spec.host_ports:
            self.listening = (*self.listening, pod)
        return True

    def drop(self, uid: PodKey) -> bool:
        """Take a pod away, if it is here; say whether the node holds less now."""
        old = self.active.pop(uid, None)
        if old is None:
            self.ended.pop(uid, None)
            return False
        self.declaring -= _declares(old)
        self._release(old)
        return True

    def _release(self, pod: Pod) -> None:
        subtract(self.requested, pod.spec.requests)
        subtract(self.requested, {PODS: 1})
        if pod.resized:
            subtract(self.resizing, pod.resized)
        if pod.spec.host_ports:
            self.listening = tuple(other for other in self.listening if other.uid != pod.uid)


def _declares(pod: Pod) -> bool:
    return bool(pod.spec.anti_affinity)


class Touched:
    """The names of the nodes that may differ since they were last taken out.

    Holds 100,000 names; beyond that it forgets them and says that all may differ.
    """

    __slots__ = ("everything", "names")

    def __init__(self, names: Iterable[str]) -> None:
        self.names: dict[str, None] = dict.fromkeys(names)
        self.everything = False

    def add(self, name: str) -> None:
        """Note that a node may differ."""
        if len(self.names) >= TOUCHED_NODES:
            self.names.clear()
            self.everything = True
        self.names[name] = None


class NodeTable:
    """All nodes, and which of them count.

    A node counts when it is ready and matches the policy's node selector: upstream hands only
    such nodes to plugins, so pods elsewhere are neither judged nor evicted.
    """

    def __init__(self, selects: Selector) -> None:
        self._selects = selects
        self._entries: dict[str, NodeEntry] = {}
        self._domains: dict[str, dict[str, dict[str, None]]] = {key: {} for key in DOMAIN_KEYS}
        self.counting = 0
        self._followers: list[Touched] = []

    def follow(self) -> Touched:
        """Begin to note which nodes may differ, for whoever keeps sums over them; never ends."""
        touched = Touched(self._entries)
        self._followers.append(touched)
        return touched

    def touch(self, name: str) -> None:
        """Tell the followers that a node, or what it holds, may differ."""
        for follower in self._followers:
            follower.add(name)

    @property
    def selects(self) -> Selector:
        """Which nodes count, if they are ready."""
        return self._selects

    def select(self, selects: Selector) -> list[Change]:
        """Let the nodes of another selection count and say which came and went."""
        self._selects = selects
        return [change for entry in self._entries.values() for change in self._recount(entry)]

    def _recount(self, entry: NodeEntry) -> Iterator[Change]:
        node, counted = entry.node, entry.counts
        if node is None:
            return
        entry.counts = node.is_ready and self._selects.matches(node.labels)
        self.counting += entry.counts - counted
        self.touch(node.name)
        if entry.counts != counted:
            yield NodeAdded(node.name) if entry.counts else NodeGone(node.name)

    def entry(self, name: str) -> NodeEntry:
        """Return the entry of this name, made when first asked for."""
        entry = self._entries.get(name)
        if entry is None:
            entry = self._entries[name] = NodeEntry(name)
        return entry

    def find(self, name: str) -> NodeEntry | None:
        """Return the entry of this name, if there is one."""
        return self._entries.get(name)

    def __iter__(self) -> Iterator[NodeEntry]:
        return iter(self._entries.values())

    def names(self) -> Iterable[str]:
        """Name every node that is known as an object."""
        return [entry.name for entry in self._entries.values() if entry.node is not None]

    def standing(self, name: str) -> Standing:
        """Return what of a node decides who is near whom."""
        entry = self._entries.get(name)
        return entry.standing if entry is not None else NOWHERE

    def in_domain(self, key: str, value: str) -> Collection[str]:
        """Name the nodes of one topology domain; keys are those of DOMAIN_KEYS."""
        return self._domains[key].get(value, {})

    def upsert(self, node: Node) -> list[Change]:
        """Take in a node as it is now and say what differs."""
        entry = self.entry(node.name)
        old, counted = entry.node, entry.counts
        if old is not None and old.uid == node.uid and _is_older(node, old):
            return []
        entry.node = node
        entry.counts = node.is_ready and self._selects.matches(node.labels)
        self.counting += entry.counts - counted
        if old is None or not _alike(old, node):
            self.touch(node.name)
        if old is None or old.labels != node.labels:
            self._move_domains(node.name, old.labels if old else {}, node.labels)
        if entry.counts:
            return list(_differences(old, node)) if old and counted else [NodeAdded(node.name)]
        return [*([NodeGone(node.name)] if counted else []), *_offers(old, node)]

    def remove(self, name: str, uid: str = "") -> list[Change]:
        """Forget a node; an older incarnation of the name does no harm."""
        entry = self._entries.get(name)
        if entry is None or entry.node is None or (uid and entry.node.uid != uid):
            return []
        self._move_domains(name, entry.node.labels, {})
        counted, entry.node, entry.counts = entry.counts, None, False
        self.counting -= counted
        self.touch(name)
        self.forget_if_empty(entry)
        return [NodeGone(name)] if counted else []

    def forget_if_empty(self, entry: NodeEntry) -> None:
        """Drop an entry with neither node nor pods, so that names do not pile up."""
        if entry.node is None and not entry.active and not entry.ended:
            self._entries.pop(entry.name, None)

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


def _alike(old: Node, new: Node) -> bool:
    """Say whether two records of a node mean the same to every pod, as after a heartbeat."""
    return (
        old.uid == new.uid
        and (old.is_ready, old.unschedulable) == (new.is_ready, new.unschedulable)
        and (old.labels is new.labels or old.labels == new.labels)
        and old.taints == new.taints
        and (old.allocatable is new.allocatable or old.allocatable == new.allocatable)
    )


def _offers(old: Node | None, new: Node) -> Iterator[Change]:
    """Say whether a node that does not count takes more: an evictor may look beyond the policy."""
    if new.is_ready and (
        old is None
        or not old.is_ready
        or any(not isinstance(change, NodeTightened) for change in _differences(old, new))
    ):
        yield NodeRelaxed(new.name)


def _differences(old: Node, new: Node) -> Iterator[Change]:
    if old.taints != new.taints:
        yield NodeTaintsChanged(new.name)
    if old.labels != new.labels:
        yield NodeLabelsChanged(new.name, changed_keys(old.labels, new.labels))
    if old.unschedulable != new.unschedulable or old.allocatable != new.allocatable:
        yield from _room(old, new)


def _room(old: Node, new: Node) -> Iterator[Change]:
    resources = old.allocatable.keys() | new.allocatable.keys()
    grew = [r for r in resources if new.allocatable.get(r, 0) > old.allocatable.get(r, 0)]
    shrank = [r for r in resources if new.allocatable.get(r, 0) < old.allocatable.get(r, 0)]
    if grew or (old.unschedulable and not new.unschedulable):
        yield NodeRelaxed(new.name)
    if shrank or (new.unschedulable and not old.unschedulable):
        yield NodeTightened(new.name)


def changed_keys(old: Mapping[str, str], new: Mapping[str, str]) -> frozenset[str]:
    """Name the labels that were added, removed or altered."""
    return frozenset(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
