"""Counts the replicas of an owner by node, and keeps the nodes that could take them.

Replicas are grouped as the SIG descheduler does: by namespace, the owner's kind and name, and the
images of the containers. Only counts are kept, one for each node of a group; a change of a pod
updates those of its groups, and is announced only where two replicas share a node.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from typing import Final, TypeVar

from msgspec import Struct

from reactive_desched.api.index import Cluster, Index, NodeState
from reactive_desched.model.changes import Change
from reactive_desched.model.node_affinity import satisfies_required
from reactive_desched.model.objects import Node, Pod, PodSpec
from reactive_desched.model.taints import HARD_EFFECTS, untolerated
from reactive_desched.text.workloads import workload_name

UNSCHEDULED: Final = ""
"""Stands for a node where pods are counted that have none yet."""


class ReplicaGroup(Struct, frozen=True, order=True, gc=False):
    """Pods of one namespace with an owner of this kind and name, and the same images, sorted."""

    namespace: str
    kind: str
    name: str
    images: tuple[str, ...]

    def __str__(self) -> str:
        return workload_name(self.kind, self.namespace, self.name)


class ReplicaSpreadChanged(Change, frozen=True, gc=False):
    """The spread of a group changed of which two pods share a node, or did.

    That is: a pod of it appeared, left, began to terminate or has another spec, or other nodes
    can take its pods.
    """

    group: ReplicaGroup


class ReplicaSpread(Index):
    """The number of pods that each group has on each node, and the nodes that could take a pod.

    It counts the pods that have not ended, terminating ones included; a pod with two owners
    counts for both.
    """

    announces = (ReplicaSpreadChanged,)

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._spreads: dict[ReplicaGroup, _Spread] = {}
        self._crowded: dict[ReplicaGroup, None] = {}
        self._destinations: dict[_DestinationKey, _Destinations] = {}
        self._followed: dict[_DestinationKey, _Destinations] = {}  # those with nodes
        for pod in cluster.store(Pod):
            for group in _counted_groups(pod):
                self._add(group, pod)

    def crowded_groups(self) -> Collection[ReplicaGroup]:
        """Return the groups that have two pods on one node, eligible or not."""
        return self._crowded.keys()

    def pods_by_node(self, group: ReplicaGroup) -> Mapping[str, int]:
        """Count a group's pods by node; those without a node stand under `UNSCHEDULED`."""
        spread = self._spreads.get(group)
        return {} if spread is None else spread.pods_by_node

    def possible_nodes(self, spec: PodSpec) -> Collection[str]:
        """Name the eligible nodes that a pod of this spec may be on.

        It tolerates their NoSchedule and NoExecute taints, and its nodeSelector and required node
        affinity match; free capacity, cordons and other pods do not matter.
        """
        key = _destination_key(spec)
        if (known := self._followed.get(key)) is not None:
            return known.nodes
        destinations = self._destinations.get(key) or _Destinations(spec)
        destinations.nodes = {node.name for node in self._nodes() if destinations.accepts(node)}
        if key in self._destinations:
            self._followed[key] = destinations
        return destinations.nodes

    def on_pod(self, old: Pod | None, new: Pod | None) -> Iterable[Change]:
        """Count a pod where it is now; announce its groups if they are crowded."""
        if old is not None and new is not None:
            crowded = [] if _counts_alike(old, new) else self._replace(old, new)
        elif new is not None:
            crowded = [group for group in _counted_groups(new) if self._add(group, new)]
        elif old is not None:
            crowded = [group for group in _counted_groups(old) if self._remove(group, old)]
        return [ReplicaSpreadChanged(group) for group in crowded]

    def on_node(self, old: NodeState | None, new: NodeState | None) -> Iterator[Change]:
        """Follow which nodes can take pods; announce the crowded groups that this concerns."""
        before = old.node if old is not None and old.eligible else None
        after = new.node if new is not None and new.eligible else None
        node = after or before
        if node is None:
            return
        changed = {
            key
            for key, destinations in self._followed.items()
            if destinations.update(node, is_eligible=after is not None)
        }
        came_or_went = (before is None) != (after is None)
        if not changed and not came_or_went:
            return
        for group in self._crowded:
            spread = self._spreads[group]
            if not changed.isdisjoint(spread.destinations) or (
                came_or_went and node.name in spread.pods_by_node
            ):
                yield ReplicaSpreadChanged(group)

    def answers(self) -> object:
        """Return the counts of every group, which groups are crowded, and where pods may be."""
        nodes = {
            pod.uid: frozenset(self.possible_nodes(pod.spec)) for pod in self._cluster.store(Pod)
        }
        groups = {}
        for group, spread in self._spreads.items():
            used: Counter[frozenset[str]] = Counter()
            for key, pods in spread.destinations.items():
                used[frozenset(self._destinations[key].nodes)] += pods
            groups[group] = dict(spread.pods_by_node), used, group in self._crowded
        pods = sum(destinations.pods for destinations in self._destinations.values())
        return nodes, groups, len(self._crowded), pods, len(self._followed)

    def _nodes(self) -> Iterator[Node]:
        for info in self._cluster.node_infos():
            if info.eligible and info.node is not None:
                yield info.node

    def _replace(self, old: Pod, new: Pod) -> list[ReplicaGroup]:
        """Count a pod again; return those of its groups that are crowded, or were."""
        before, after = _counted_groups(old), _counted_groups(new)
        affected = dict.fromkeys((*before, *after))
        were_crowded = {group for group in affected if group in self._crowded}
        for group in after:
            self._add(group, new)
        for group in before:
            self._remove(group, old)
        return [group for group in affected if group in were_crowded or group in self._crowded]

    def _add(self, group: ReplicaGroup, pod: Pod) -> bool:
        """Count a pod; say whether its group is crowded now."""
        spread = self._spreads.get(group)
        if spread is None:
            spread = self._spreads[group] = _Spread()
        key = _destination_key(pod.spec)
        destinations = self._destinations.get(key)
        if destinations is None:
            destinations = self._destinations[key] = _Destinations(pod.spec)
        destinations.pods += 1
        spread.destinations[key] = spread.destinations.get(key, 0) + 1
        on_node = spread.pods_by_node[pod.node] = spread.pods_by_node.get(pod.node, 0) + 1
        if on_node == _CROWD and pod.node != UNSCHEDULED:
            spread.crowded_nodes += 1
            self._crowded[group] = None
        return spread.crowded_nodes > 0

    def _remove(self, group: ReplicaGroup, pod: Pod) -> bool:
        """Stop counting a pod; say whether its group was crowded until now."""
        spread = self._spreads[group]
        was_crowded = spread.crowded_nodes > 0
        key = _destination_key(pod.spec)
        destinations = self._destinations[key]
        destinations.pods -= 1
        if not destinations.pods:
            del self._destinations[key]
            self._followed.pop(key, None)
        _subtract_one(spread.destinations, key)
        if spread.pods_by_node[pod.node] == _CROWD and pod.node != UNSCHEDULED:
            spread.crowded_nodes -= 1
            if not spread.crowded_nodes:
                del self._crowded[group]
        _subtract_one(spread.pods_by_node, pod.node)
        if not spread.pods_by_node:
            del self._spreads[group]
        return was_crowded


def replica_groups(pod: Pod) -> tuple[ReplicaGroup, ...]:
    """Return the groups that a pod belongs to, one for each owner of another kind or name."""
    images = pod.spec.images
    if len(pod.owners) == 1:
        [owner] = pod.owners
        return (ReplicaGroup(pod.namespace, owner.kind, owner.name, images),)
    groups = (ReplicaGroup(pod.namespace, own.kind, own.name, images) for own in pod.owners)
    return tuple(dict.fromkeys(groups))


_CROWD: Final = 2
"""So many pods of a group on one node make it crowded."""

_DestinationKey = tuple[int, int, int]
"""The identity of what decides where a pod may be; pods of one template share these parts."""

K = TypeVar("K", bound=Hashable)


class _Spread:
    """One group: its pods by node and by where they may be, and how many nodes are crowded."""

    __slots__ = ("crowded_nodes", "destinations", "pods_by_node")

    def __init__(self) -> None:
        self.pods_by_node: dict[str, int] = {}
        self.destinations: dict[_DestinationKey, int] = {}
        self.crowded_nodes = 0


class _Destinations:
    """The eligible nodes that pods with certain tolerations, selector and affinity may be on.

    `pods` counts those pods. `nodes` is empty until the first question: until then no node has
    been looked at.
    """

    __slots__ = ("affinity", "nodes", "pods", "spec")

    def __init__(self, spec: PodSpec) -> None:
        """As upstream, an affinity that does not parse matches every node."""
        self.spec = spec  # it keeps alive what the key identifies
        affinity = spec.node_affinity
        required = None if affinity is None else affinity.required
        is_malformed = required is not None and required.is_malformed()
        self.affinity = None if is_malformed else affinity
        self.pods = 0
        self.nodes: set[str] = set()

    def accepts(self, node: Node) -> bool:
        """Say whether a pod may be on the node, be there room or not."""
        spec = self.spec
        if node.taints:
            hard = (taint for taint in node.taints if taint.effect in HARD_EFFECTS)
            if next(untolerated(spec.tolerations, hard), None) is not None:
                return False
        return satisfies_required(spec.node_selector, self.affinity, node.name, node.labels)

    def update(self, node: Node, *, is_eligible: bool) -> bool:
        """Look at a node again; say whether pods may be on it now, or no longer."""
        accepted = is_eligible and self.accepts(node)
        if accepted == (node.name in self.nodes):
            return False
        if accepted:
            self.nodes.add(node.name)
        else:
            self.nodes.remove(node.name)
        return True


def _destination_key(spec: PodSpec) -> _DestinationKey:
    tolerations, selector, affinity = spec.tolerations, spec.node_selector, spec.node_affinity
    return (
        id(tolerations) if tolerations else 0,
        id(selector) if selector else 0,
        0 if affinity is None else id(affinity),
    )


def _counted_groups(pod: Pod) -> tuple[ReplicaGroup, ...]:
    """Return the groups in which a pod is counted: none once it has ended."""
    return () if pod.has_ended else replica_groups(pod)


def _counts_alike(old: Pod, new: Pod) -> bool:
    """Say whether neither where a pod is counted nor what may be decided on it differs."""
    return (
        old.node == new.node
        and (old.owners is new.owners or old.owners == new.owners)
        and (
            old.spec is new.spec
            or (
                old.spec.images == new.spec.images
                and _destination_key(old.spec) == _destination_key(new.spec)
            )
        )
        and old.is_terminating == new.is_terminating
        and old.has_ended == new.has_ended
    )


def _subtract_one(counts: dict[K, int], key: K) -> None:
    if counts[key] == 1:
        del counts[key]
    else:
        counts[key] -= 1
