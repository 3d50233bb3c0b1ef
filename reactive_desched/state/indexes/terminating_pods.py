"""The pods that are being deleted and still hold their node's capacity."""

from collections.abc import Collection, Hashable

from reactive_desched.api.index import Cluster, Index
from reactive_desched.model.objects import Pod, PodKey
from reactive_desched.primitives.groups import Groups


class TerminatingPods(Index):
    """The active pods of each namespace whose deletion has begun."""

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._pods = cluster.store(Pod)
        self._uids = Groups[str, PodKey]()
        for pod in self._pods:
            self.on_pod(None, pod)

    def pods_of(self, namespace: str) -> Collection[Pod]:
        """Return the active pods of a namespace whose deletion has begun."""
        found = map(self._pods.get, self._uids.of(namespace))
        return [pod for pod in found if pod is not None]

    def on_pod(self, old: Pod | None, new: Pod | None) -> tuple[()]:
        """Follow a pod whose deletion began, or that ended."""
        is_terminating = new is not None and new.is_terminating and new.is_active
        if new is not None and is_terminating:
            self._uids.add(new.namespace, new.uid)
        elif old is not None and old.is_terminating:
            self._uids.discard(old.namespace, old.uid)
        return ()

    def answers(self) -> object:
        """Return the uids by namespace."""
        return self._uids.as_sets()
