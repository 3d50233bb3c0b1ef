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
        self._by_namespace: defaultdict[str, dict[PodKey, _Left]] = defaultdict(dict)
        self._moved: OrderedDict[PodKey, None] = OrderedDict()  # those that are still there

    def add(self, pod: Pod) -> None:
        """Keep a pod that left its node just now; drop those that did so too long ago."""
        if pod.uid in self._moved:
            del self._moved[pod.uid]
            return
        now, left, uid = self._clock(), self._left, pod.uid
        left[uid] = (now, pod)
        self._by_node[pod.node][uid] = self._by_namespace[pod.namespace][uid] = left[uid]
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

    def is_moved(self, pod: PodKey) -> bool:
        """Say whether a pod that is still there has its replacement already."""
        return pod in self._moved

    def _drop(self, uid: PodKey) -> None:
        _, pod = self._left.pop(uid)
        for kept, key in ((self._by_node, pod.node), (self._by_namespace, pod.namespace)):
            del kept[key][uid]
            if not kept[key]:
                del kept[key]

    def of_node(self, name: str) -> Iterator[_Left]:
        """Yield the pods that left a node, each with for how many seconds it is gone."""
        now = self._clock()
        return ((now - left_at, pod) for left_at, pod in self._by_node.get(name, {}).values())

    def latest(self, within_s: float) -> Iterator[_Left]:
        """Yield the pods that left any node within a time, the latest first, as `of_node` does."""
        return self._latest(self._left, within_s)

    def of_namespace(self, namespace: str, within_s: float) -> Iterator[_Left]:
        """Yield those of a namespace, as `latest` does."""
        return self._latest(self._by_namespace.get(namespace, {}), within_s)

    def _latest(self, left: dict[PodKey, _Left], within_s: float) -> Iterator[_Left]:
        now = self._clock()
        found = ((now - left_at, pod) for left_at, pod in reversed(left.values()))
        return takewhile(lambda each: each[0] < within_s, found)
