"""Pods by topology domain: which share a zone, a host, or another label value of their nodes."""

from collections import Counter
from collections.abc import Collection, Hashable, Iterator
from typing import Final, Generic, TypeVar

from msgspec import Struct

from reactive_desched.api.index import Cluster, NodeState
from reactive_desched.model.labels import Labels
from reactive_desched.model.objects import PodKey
from reactive_desched.primitives.long_answers import emptied_mapping


class NodeTopology(Struct, frozen=True, gc=False):
    """The fields of a node that decide which pods share a domain: labels, and eligibility."""

    labels: Labels
    eligible: bool


UNKNOWN_NODE: Final = NodeTopology({}, eligible=False)
"""The topology of a node name without a Node."""


def topology(state: NodeState | None) -> NodeTopology:
    """Return the topology of a node."""
    return UNKNOWN_NODE if state is None else NodeTopology(state.node.labels, state.eligible)


def topology_of(cluster: Cluster, name: str) -> NodeTopology:
    """Return the topology of a node by its name."""
    info = cluster.node_info(name)
    if info is None or info.node is None:
        return UNKNOWN_NODE
    return NodeTopology(info.node.labels, info.eligible)


K = TypeVar("K", bound=Hashable)


class CompactMultiMap(Generic[K]):
    """Pod uids by a key, for example a label value; a group exists while it has members.

    Most groups have one member, which is stored bare: a dict of one entry takes ten times as much
    memory. What `members` returns follows later changes.
    """

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[K, PodKey | dict[PodKey, None]] = {}

    def __iter__(self) -> Iterator[K]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    def __contains__(self, group: K) -> bool:
        return group in self._groups

    def members(self, group: K) -> Collection[PodKey]:
        """Return a group's members in the order in which they were added."""
        found = self._groups.get(group)
        if found is None:
            return ()
        return (found,) if isinstance(found, str) else found

    def add(self, group: K, pod: PodKey) -> None:
        """Add a pod to a group."""
        found = self._groups.get(group)
        if found is None:
            self._groups[group] = pod
        elif not isinstance(found, str):
            found[pod] = None
        elif found != pod:
            self._groups[group] = {found: None, pod: None}

    def discard(self, group: K, pod: PodKey) -> None:
        """Remove a pod from a group, if it is there."""
        found = self._groups.get(group)
        if found is None:
            return
        if isinstance(found, str):
            if found == pod:
                del self._groups[group]
            return
        found.pop(pod, None)
        if len(found) == 1:
            self._groups[group] = next(iter(found))

    def emptied(self) -> Iterator[None]:
        """Empty it in steps; nothing must be asked any more."""
        while self._groups:
            _, found = self._groups.popitem()
            if not isinstance(found, str):
                yield from emptied_mapping(found)


class TopologyDomains:
    """Active pods by their nodes' value of one topology label, `topology_key`.

    Pods on nodes without the label, or without a Node, are left out. `eligible` has the pods on
    eligible nodes, `ineligible` the others: plugins look at the former, the scheduler at both.
    Follows every change of the state; use up what its methods return before the next one.
    """

    __slots__ = ("eligible", "ineligible", "topology_key")

    def __init__(self, topology_key: str) -> None:
        self.topology_key = topology_key
        self.eligible: CompactMultiMap[str] = CompactMultiMap()
        self.ineligible: CompactMultiMap[str] = CompactMultiMap()

    def __bool__(self) -> bool:
        return len(self.eligible) > 0 or len(self.ineligible) > 0

    def values(self) -> Iterator[str]:
        """Name every domain in which there is a pod, each once."""
        yield from self.eligible
        yield from (value for value in self.ineligible if value not in self.eligible)

    def count(self, value: str, *leaving: PodKey) -> int:
        """Count the pods of a domain, on eligible nodes and on others, without those that leave."""
        both = self.eligible.members(value), self.ineligible.members(value)
        return sum(len(members) - sum(pod in members for pod in leaving) for members in both)

    def pods(self, value: str) -> Iterator[PodKey]:
        """Return the uids of the pods of a domain, on eligible nodes and on others."""
        yield from self.eligible.members(value)
        yield from self.ineligible.members(value)

    def add_pod(self, pod: PodKey, node: NodeTopology) -> None:
        """Add a pod to its node's domain."""
        if (value := node.labels.get(self.topology_key)) is not None:
            (self.eligible if node.eligible else self.ineligible).add(value, pod)

    def remove_pod(self, pod: PodKey, node: NodeTopology) -> None:
        """Remove a pod from the domain that its node had when the pod was added."""
        if (value := node.labels.get(self.topology_key)) is not None:
            (self.eligible if node.eligible else self.ineligible).discard(value, pod)

    def emptied(self) -> Iterator[None]:
        """Empty them in steps; nothing must be asked any more."""
        yield from self.eligible.emptied()
        yield from self.ineligible.emptied()


class TopologyKeyRefs:
    """Reference counts of the topology labels in use: a change of other node labels is ignored."""

    def __init__(self) -> None:
        self._refs: Counter[str] = Counter()

    def __iter__(self) -> Iterator[str]:
        return iter(self._refs)

    def __contains__(self, key: str) -> bool:
        return key in self._refs

    def acquire(self, key: str) -> None:
        """Count one more use of a label."""
        self._refs[key] += 1

    def release(self, key: str) -> None:
        """Count one use fewer."""
        self._refs[key] -= 1
        if not self._refs[key]:
            del self._refs[key]
