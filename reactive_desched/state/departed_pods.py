"""Keeps which pods left their nodes a moment ago, so that what is brief is no reason to act."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from operator import itemgetter
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
        self._nodes: deque[str] = deque()  # of each pod kept, in the order in which they left
        self._by_node: defaultdict[str, deque[tuple[float, Pod]]] = defaultdict(deque)

    def add(self, pod: Pod) -> None:
        """Keep a pod that left its node just now; drop those that did so too long ago."""
        now = self._clock()
        self._by_node[pod.node].append((now, pod))
        self._nodes.append(pod.node)
        while len(self._nodes) > MAX_KEPT or self._is_old(self._nodes[0], now):
            self._drop(self._nodes.popleft())

    def of_node(self, name: str) -> Iterator[tuple[float, Pod]]:
        """Yield the pods that left a node, each with for how many seconds it is gone."""
        now = self._clock()
        return ((now - left_at, pod) for left_at, pod in self._by_node.get(name, ()))

    def latest(self, within_s: float) -> Iterator[tuple[float, Pod]]:
        """Yield the pods that left any node within a time, the latest first, as `of_node` does."""
        now = self._clock()
        found = (pods for pods in self._by_node.values() if now - pods[-1][0] < within_s)
        left = ((now - left_at, pod) for pods in found for left_at, pod in pods)
        return iter(sorted((each for each in left if each[0] < within_s), key=itemgetter(0)))

    def _is_old(self, name: str, now: float) -> bool:
        return now - self._by_node[name][0][0] > LEFT_PODS_KEPT_S

    def _drop(self, name: str) -> None:
        pods = self._by_node[name]
        pods.popleft()
        if not pods:
            del self._by_node[name]
