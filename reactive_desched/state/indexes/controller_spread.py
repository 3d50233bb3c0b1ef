"""How many pods each controller has on each node: what the kube-scheduler spreads by default."""

from collections import Counter
from collections.abc import Hashable, Mapping

from reactive_desched.api.index import Cluster, Index
from reactive_desched.model.objects import Pod, controller_of


class ControllerSpread(Index):
    """The active pods of each controller, by its uid and by node, without those that terminate."""

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._counts: dict[str, Counter[str]] = {}
        for pod in cluster.store(Pod):
            self._count(pod, 1)

    def by_node(self, controller_uid: str) -> Mapping[str, int]:
        """Count a controller's pods by node."""
        return self._counts.get(controller_uid, {})

    def on_pod(self, old: Pod | None, new: Pod | None) -> tuple[()]:
        """Follow a pod that appeared, disappeared, terminates, or has another controller."""
        if old is not None:
            self._count(old, -1)
        if new is not None:
            self._count(new, 1)
        return ()

    def answers(self) -> object:
        """Return the counts."""
        return {uid: dict(counts) for uid, counts in self._counts.items()}

    def _count(self, pod: Pod, step: int) -> None:
        owner = controller_of(pod.owners)
        if owner is None or not pod.is_active or pod.is_terminating:
            return
        counts = self._counts.setdefault(owner.uid, Counter())
        counts[pod.node] += step
        if not counts[pod.node]:
            del counts[pod.node]
        if not counts:
            del self._counts[owner.uid]
