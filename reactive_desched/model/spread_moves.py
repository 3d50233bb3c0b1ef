"""Chooses pods to leave so that no two domains of a topology differ by too many.

Pure arithmetic on numbers of pods: a domain is a value of a topology label.
"""

from collections import deque
from collections.abc import (
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from heapq import heappop, heappush, heapreplace
from itertools import count
from math import ceil, log
from typing import Final, NamedTuple

from reactive_desched.model.objects import Node, Pod


def moves_between(sizes: list[int], average: float, max_skew: int) -> Iterator[tuple[int, int]]:
    """Yield from which domain to take pods, and how many, until no two differ too much.

    `sizes` are the domains' numbers of pods, the smallest first; domains are named by their place
    in it. They are changed as the moves change them, and not sorted anew.
    """
    low, high = 0, len(sizes) - 1
    while low < high:
        if sizes[high] <= average:
            high -= 1
        skew = sizes[high] - sizes[low]
        above, below = ceil(sizes[high] - average), ceil(average - sizes[low])
        number = min(above, below, ceil((skew - max_skew) / 2))
        if skew <= max_skew or number <= 0:
            low += 1
            continue
        sizes[high] -= number
        sizes[low] += number
        yield high, number


Standing = tuple[str | None, ...]
"""The domain of a pod, or of a node, in each companion; None where it is in none."""

NearDomains = Sequence[Collection[str]]
"""The domains of some nodes in each companion."""

Admitted = tuple[frozenset[str] | None, ...]
"""The domains of each companion that may take a pod; None for any."""


class Companion:
    """Another constraint of the same pods: its numbers of pods by domain, empty ones included.

    `domain_of` and `domain_of_node` return where it counts a pod, and what a node would add to.
    `is_restored` says that a move must not make its skew worse.
    """

    def __init__(
        self,
        sizes: dict[str, int],
        max_skew: int,
        domain_of: Callable[[Pod], str | None],
        domain_of_node: Callable[[Node], str | None],
        *,
        is_restored: bool,
    ) -> None:
        self.sizes: Final = sizes
        self.domain_of: Final = domain_of
        self.domain_of_node: Final = domain_of_node
        self.is_restored: Final = is_restored
        self.weight: Final = log(len(sizes) + 2)  # as the kube-scheduler's score
        self._average: Final = sum(sizes.values()) / len(sizes) if sizes else 0.0
        self._even: Final = min(sizes.values(), default=0) + max_skew

    def excess(self, domain: str | None) -> float:
        """Return by how much a domain is above the average."""
        if domain is None:
            return 0.0
        return self.weight * (self.sizes.get(domain, 0) - self._average)

    def admits(self, domain: str | None, near: Iterable[str]) -> frozenset[str] | None:
        """Return which of some domains may take a pod of this one; None where any may.

        That is the domain itself, one with fewer pods, and one with so few that the constraint
        stays within its maxSkew.
        """
        if domain is None or not self.is_restored:
            return None
        size = max(self.sizes.get(domain, 0), self._even)
        return frozenset(at for at in near if at == domain or self.sizes.get(at, 0) < size)

    def cost(self, domain: str | None, other: str | None) -> float:
        """Return by how much a move from one domain to another makes the spread less even."""
        if domain in (None, other) or other is None or not self.is_restored:
            return 0.0
        return self.weight * (self.sizes.get(other, 0) + 1 - self.sizes.get(domain or "", 0))

    def take(self, domain: str | None) -> None:
        """Count one pod less in a domain."""
        if domain is not None:
            self.sizes[domain] = self.sizes.get(domain, 0) - 1


class Companions:
    """The other constraints of the pods of one: which pods serve them best by leaving."""

    def __init__(self, companions: Sequence[Companion]) -> None:
        self._each: Final = companions

    def __bool__(self) -> bool:
        return bool(self._each)

    def standing(self, pod: Pod) -> Standing:
        """Return where a pod counts."""
        return tuple([each.domain_of(pod) for each in self._each])

    def excess(self, standing: Standing) -> float:
        """Return by how much the domains of a pod are above the average, all together."""
        return sum(map(Companion.excess, self._each, standing))

    def domains_of(self, node: Node) -> Standing:
        """Return where a node counts."""
        return tuple([each.domain_of_node(node) for each in self._each])

    def admitted(self, standing: Standing, near: NearDomains) -> Admitted:
        """Return the domains that may take a pod of this standing so that no constraint loses."""
        return tuple(map(Companion.admits, self._each, standing, near))

    def cost(self, standing: Standing, other: Standing) -> float:
        """Return by how much less even they are, all together, after a move."""
        return sum(map(Companion.cost, self._each, standing, other))

    def take(self, standing: Standing) -> None:
        """Count a pod of this standing no more."""
        for each, domain in zip(self._each, standing, strict=True):
            each.take(domain)


class _Source:
    """A domain that gives pods: how many it has, and those that may leave by their standing."""

    def __init__(self, name: str, size: int, companions: Companions) -> None:
        self.name = name
        self.size = size
        self._companions = companions
        self._waiting: dict[Standing, deque[tuple[int, Pod]]] = {}
        self._heap: list[tuple[float, int, Standing]] = []

    def add(self, number: int, pod: Pod) -> None:
        """Add a pod; of equals the one with the lowest number is taken first."""
        standing = self._companions.standing(pod)
        if (waiting := self._waiting.get(standing)) is not None:
            waiting.append((number, pod))
            return
        self._waiting[standing] = deque([(number, pod)])
        heappush(self._heap, self._entry(standing))

    def best(self) -> Standing | None:
        """Return the standing of the pods that serve the other constraints best by leaving."""
        while self._heap:
            standing = self._heap[0][-1]
            if (now := self._entry(standing)) == self._heap[0]:
                return standing
            heapreplace(self._heap, now)  # another domain of it gave pods since
        return None

    def pop(self, standing: Standing) -> Pod:
        """Take the next pod of the best standing."""
        _, pod = self._waiting[standing].popleft()
        if self._waiting[standing]:
            heapreplace(self._heap, self._entry(standing))
        else:
            heappop(self._heap)
        return pod

    def _entry(self, standing: Standing) -> tuple[float, int, Standing]:
        return -self._companions.excess(standing), self._waiting[standing][0][0], standing


class Pick(NamedTuple):
    """A pod that may leave, its domain, how many pods that has left, and where the pod counts."""

    pod: Pod
    domain: str
    left: int
    standing: Standing


class SourcePods:
    """The pods of the domains above the average, in the order in which they serve the spread best.

    Those of the fullest domain come first, and of equal ones those whose other constraints gain
    most. A domain gives none once it has no more than `floor`.
    """

    def __init__(self, floor: float, companions: Companions) -> None:
        self._floor: Final = floor
        self._companions: Final = companions
        self._levels: Final[dict[int, dict[Standing, deque[_Source]]]] = {}
        self._numbers: Final = count()

    def add(self, domain: str, size: int, pods: Iterable[Pod]) -> Iterator[Pod]:
        """Add a domain with so many pods, and those that may leave; yield each when it is added.

        Equals are taken in the order in which they were added.
        """
        source = _Source(domain, size, self._companions)
        for pod in pods:
            source.add(next(self._numbers), pod)
            yield pod
        self._put(source)

    def pick(self) -> Generator[Pick, bool, None]:
        """Yield one pod after the other; sent back is whether it leaves.

        Pods of one template and standing go to the same nodes: after one that does not leave,
        the others of its kind in its domain are passed over, but for those with volumes.
        """
        passed_over: set[tuple[str, Standing, int]] = set()
        while self._levels:
            size = max(self._levels)
            level = self._levels[size]
            if size <= self._floor:
                return
            standing = max(level, key=self._companions.excess)
            source = level[standing].popleft()
            if not level[standing]:
                del level[standing]
                if not level:
                    del self._levels[size]
            if source.best() != standing:  # another domain of it gave pods since
                self._put(source)
                continue
            pod = source.pop(standing)
            kind = source.name, standing, id(pod.spec)
            if kind not in passed_over:
                if (yield Pick(pod, source.name, size - 1, standing)):
                    source.size -= 1
                    self._companions.take(standing)
                elif not pod.pvc_names:
                    passed_over.add(kind)
            self._put(source)

    def _put(self, source: _Source) -> None:
        if (standing := source.best()) is not None:
            self._levels.setdefault(source.size, {}).setdefault(standing, deque()).append(source)
