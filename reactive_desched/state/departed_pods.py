"""Keeps which pods left their nodes a moment ago, so that what is brief is no reason to act."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import Final

from reactive_desched.model.objects import Pod
from reactive_desched.model.usage import LEFT_PODS_KEPT_S

MAX_KEPT: Final = 5_000
"""So many pods are kept, of all nodes; beyond that the one that left first counts as long gone."""


class DepartedPods:
    """The pods that ended, or were deleted, on each node within the last five minutes.

    `clock` gives monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._left: deque[tuple[float, Pod]] = deque()  # when each left: the first one first
        self._by_node: defaultdict[str, deque[tuple[float, Pod]]] = defaultdict(deque)

    def add(self, pod: Pod) -> None:
        """Keep a pod that left its node just now; drop those that did so too long ago."""
        now, left = self._clock(), self._left
        left.append((now, pod))
        self._by_node[pod.node].append((now, pod))
        while len(left) > MAX_KEPT or now - left[0][0] > LEFT_PODS_KEPT_S:
            _, dropped = left.popleft()
            of_node = self._by_node[dropped.node]
            of_node.popleft()
            if not of_node:
                del self._by_node[dropped.node]

    def of_node(self, name: str) -> Iterator[tuple[float, Pod]]:
        """Yield the pods that left a node, each with for how many seconds it is gone."""
        now = self._clock()
        return ((now - left_at, pod) for left_at, pod in self._by_node.get(name, ()))

    def latest(self, within_s: float) -> Iterator[tuple[float, Pod]]:
        """Yield the pods that left any node within a time, the latest first, as `of_node` does."""
        now = self._clock()
        found = ((now - left_at, pod) for left_at, pod in reversed(self._left))
        return takewhile(lambda each: each[0] < within_s, found)
