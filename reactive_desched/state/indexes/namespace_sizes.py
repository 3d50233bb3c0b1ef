"""Counts the pods of each namespace that have a node."""

from collections import Counter
from collections.abc import Hashable

from reactive_desched.api.index import Cluster, Index
from reactive_desched.model.objects import Pod


class NamespaceSizes(Index):
    """Counts the active pods that have a node, by namespace."""

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._placed: Counter[str] = Counter()
        self._total = 0
        for pod in cluster.store(Pod):
            self.on_pod(None, pod)

    def has_half(self, namespace: str) -> bool:
        """Say whether half of the pods, or more, are of this namespace."""
        return 2 * self._placed[namespace] >= self._total

    def on_pod(self, old: Pod | None, new: Pod | None) -> tuple[()]:
        """Follow a pod that got a node, or ended."""
        before = None if old is None or not _is_placed(old) else old.namespace
        after = None if new is None or not _is_placed(new) else new.namespace
        if before != after:
            if before is not None:
                self._count(before, -1)
            if after is not None:
                self._count(after, 1)
        return ()

    def answers(self) -> object:
        """Return the numbers by namespace."""
        return dict(self._placed)

    def _count(self, namespace: str, change: int) -> None:
        self._total += change
        self._placed[namespace] += change
        if not self._placed[namespace]:
            del self._placed[namespace]


def _is_placed(pod: Pod) -> bool:
    return bool(pod.node) and pod.is_active
