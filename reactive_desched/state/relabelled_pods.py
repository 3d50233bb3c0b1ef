"""Keeps which labels pods had a moment ago, so that a label that is brief is no reason to act."""

from collections import defaultdict, deque
from collections.abc import Callable
from math import inf
from typing import Final

from reactive_desched.model.labels import Labels, LabelSelector
from reactive_desched.model.objects import Pod, PodKey
from reactive_desched.model.usage import LEFT_PODS_KEPT_S

MAX_KEPT: Final = 5_000
"""So many changes are kept, of all pods; the labels of what changed before that are old."""


class RelabelledPods:
    """The labels that pods had within the last five minutes; `clock` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._changes: deque[tuple[float, PodKey]] = deque()  # the first one first
        self._by_pod: defaultdict[PodKey, deque[tuple[float, Labels]]] = defaultdict(deque)

    def add(self, before: Pod) -> None:
        """Keep the labels of a pod that has others now; drop those of long ago."""
        now, changes = self._clock(), self._changes
        changes.append((now, before.uid))
        self._by_pod[before.uid].append((now, before.labels))
        while len(changes) > MAX_KEPT or now - changes[0][0] > LEFT_PODS_KEPT_S:
            _, uid = changes.popleft()
            of_pod = self._by_pod[uid]
            of_pod.popleft()
            if not of_pod:
                del self._by_pod[uid]

    def matched_s(self, pod: PodKey, selector: LabelSelector) -> float:
        """Return for how long a selector has matched a pod that it matches now."""
        for changed_at, before in reversed(self._by_pod.get(pod, ())):
            if not selector.matches(before):
                return self._clock() - changed_at
        return inf
