"""Pods by topology domain: which share a zone, a host, or whatever label a term names."""

from collections import Counter
from collections.abc import Iterator

from reactive_desched.model.objects import PodKey
from reactive_desched.state.indexes.multimap import CompactMultiMap
from reactive_desched.state.nodes import NodeTopology


class TopologyDomains:
    """Active pods by their nodes' value of one topology label, `key`.

    Pods on nodes that lack the label, or that we do not know, do not show. `counting` has those
    on nodes that count, `others` the rest: plugins look at the former, the scheduler at both.
    Follows every change; what its methods return is to be used up before the next one.
    """

    __slots__ = ("eligible", "ineligible", "topology_key")

    def __init__(self, topology_key: str) -> None:
        self.topology_key = topology_key
        self.eligible = CompactMultiMap()
        self.ineligible = CompactMultiMap()

    def __bool__(self) -> bool:
        return len(self.eligible) > 0 or len(self.ineligible) > 0

    def values(self) -> Iterator[str]:
        """Name every domain in which there is a pod, each once."""
        yield from self.eligible
        yield from (value for value in self.ineligible if value not in self.eligible)

    def count(self, value: str) -> int:
        """Count the pods of a domain, on whatever nodes."""
        return len(self.eligible.members(value)) + len(self.ineligible.members(value))

    def pods(self, value: str) -> Iterator[PodKey]:
        """Return the keys of the pods of a domain, on whatever nodes."""
        yield from self.eligible.members(value)
        yield from self.ineligible.members(value)

    def add_pod(self, pod: PodKey, node: NodeTopology) -> None:
        """Place a pod by its node."""
        if (value := node.labels.get(self.topology_key)) is not None:
            (self.eligible if node.eligible else self.ineligible).add(value, pod)

    def remove_pod(self, pod: PodKey, node: NodeTopology) -> None:
        """Take a pod away, told the same about its node as when it was placed."""
        if (value := node.labels.get(self.topology_key)) is not None:
            (self.eligible if node.eligible else self.ineligible).discard(value, pod)


class TopologyKeyRefs:
    """Which topology labels anybody keeps domains of; the other labels of nodes do not matter."""

    def __init__(self) -> None:
        self._refs: Counter[str] = Counter()

    def __iter__(self) -> Iterator[str]:
        return iter(self._refs)

    def __contains__(self, key: str) -> bool:
        return key in self._refs

    def acquire(self, key: str) -> None:
        """One more keeps domains of this label."""
        self._refs[key] += 1

    def release(self, key: str) -> None:
        """One fewer does."""
        self._refs[key] -= 1
        if not self._refs[key]:
            del self._refs[key]
