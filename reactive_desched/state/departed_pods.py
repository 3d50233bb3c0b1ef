"""Keeps which pods left their nodes a moment ago, so that what is brief is no reason to act."""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import Final

from reactive_desched.model.objects import Pod, PodKey
from reactive_desched.model.usage import LEFT_PODS_KEPT_S

MAX_KEPT: Final = 5_000
"""So many pods are kept, of all nodes; beyond that the one that left first counts as long gone."""

_Left = tuple[float, Pod]


class DepartedPods:
    """The pods that ended, or were deleted, on each node within the last five minutes.

    One that was moved, as its replacement is bound, is none of them: it does not come back. `clock`
    gives monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._left: OrderedDict[PodKey, _Left] = OrderedDict()  # the first one first, and when
        self._by_node: defaultdict[str, dict[PodKey, _Left]] = defaultdict(dict)
        self._moved: OrderedDict[PodKey, None] = OrderedDict()  # those that are still there

    def add(self, pod: Pod) -> None:
        """Keep a pod that left its node just now; drop those that did so too long ago."""
        if pod.uid in self._moved:
            del self._moved[pod.uid]
            return
        now, left, uid = self._clock(), self._left, pod.uid
        left[uid] = (now, pod)
        self._by_node[pod.node][uid] = left[uid]
        while len(left) > MAX_KEPT or now - next(iter(left.values()))[0] > LEFT_PODS_KEPT_S:
            self._drop(next(iter(left)))

    def moved(self, pod: PodKey) -> None:
        """Leave out a pod that has a replacement on a node, whether it left already or will."""
        if pod in self._left:
            self._drop(pod)
            return
        self._moved[pod] = None
        if len(self._moved) > MAX_KEPT:
            self._moved.popitem(last=False)

    def _drop(self, uid: PodKey) -> None:
        _, pod = self._left.pop(uid)
        of_node = self._by_node[pod.node]
        del of_node[uid]
        if not of_node:
            del self._by_node[pod.node]

    def of_node(self, name: str) -> Iterator[_Left]:
        """Yield the pods that left a node, each with for how many seconds it is gone."""
        now = self._clock()
        return ((now - left_at, pod) for left_at, pod in self._by_node.get(name, {}).values())

    def latest(self, within_s: float) -> Iterator[_Left]:
        """Yield the pods that left any node within a time, the latest first, as `of_node` does."""
        now = self._clock()
        found = ((now - left_at, pod) for left_at, pod in reversed(self._left.values()))
        return takewhile(lambda each: each[0] < within_s, found)
