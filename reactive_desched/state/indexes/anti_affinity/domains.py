"""Pods by topology domain: which share a zone, a host, or whatever label a term names."""

from collections import Counter
from collections.abc import Iterator

from reactive_desched.model.objects import PodKey
from reactive_desched.state.indexes.multimap import Groups
from reactive_desched.state.nodes import Standing


class Domains:
    """Active pods by their nodes' value of one topology label, `key`.

    Pods on nodes that lack the label, or that we do not know, do not show. `counting` has those
    on nodes that count, `others` the rest: plugins look at the former, the scheduler at both.
    Follows every change; what its methods return is to be used up before the next one.
    """

    __slots__ = ("counting", "key", "others")

    def __init__(self, key: str) -> None:
        self.key = key
        self.counting = Groups()
        self.others = Groups()

    def __bool__(self) -> bool:
        return len(self.counting) > 0 or len(self.others) > 0

    def values(self) -> Iterator[str]:
        """Name every domain in which there is a pod, each once."""
        yield from self.counting
        yield from (value for value in self.others if value not in self.counting)

    def count(self, value: str) -> int:
        """Count the pods of a domain, on whatever nodes."""
        return len(self.counting.of(value)) + len(self.others.of(value))

    def pods(self, value: str) -> Iterator[PodKey]:
        """Return the keys of the pods of a domain, on whatever nodes."""
        yield from self.counting.of(value)
        yield from self.others.of(value)

    def put(self, pod: PodKey, node: Standing) -> None:
        """Place a pod by its node."""
        if (value := node.labels.get(self.key)) is not None:
            (self.counting if node.counts else self.others).add(value, pod)

    def drop(self, pod: PodKey, node: Standing) -> None:
        """Take a pod away, told the same about its node as when it was placed."""
        if (value := node.labels.get(self.key)) is not None:
            (self.counting if node.counts else self.others).discard(value, pod)


class KeysInUse:
    """Which topology labels anybody keeps domains of; the other labels of nodes do not matter."""

    def __init__(self) -> None:
        self._uses: Counter[str] = Counter()

    def __iter__(self) -> Iterator[str]:
        return iter(self._uses)

    def __contains__(self, key: str) -> bool:
        return key in self._uses

    def begin(self, key: str) -> None:
        """One more keeps domains of this label."""
        self._uses[key] += 1

    def end(self, key: str) -> None:
        """One fewer does."""
        self._uses[key] -= 1
        if not self._uses[key]:
            del self._uses[key]
