"""The pods that are being deleted and still hold their node's capacity."""

from collections.abc import Collection, Hashable

from reactive_desched.api.index import Cluster, Index
from reactive_desched.model.objects import Pod, PodKey


class TerminatingPods(Index):
    """The active pods of each namespace whose deletion has begun."""

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._pods = cluster.store(Pod)
        self._uids: dict[str, dict[PodKey, None]] = {}
        for pod in self._pods:
            self.on_pod(None, pod)

    def pods_of(self, namespace: str) -> Collection[Pod]:
        """Return the active pods of a namespace whose deletion has begun."""
        found = map(self._pods.get, self._uids.get(namespace, ()))
        return [pod for pod in found if pod is not None]

    def on_pod(self, old: Pod | None, new: Pod | None) -> tuple[()]:
        """Follow a pod whose deletion began, or that ended."""
        is_terminating = new is not None and new.is_terminating and new.is_active
        if new is not None and is_terminating:
            self._uids.setdefault(new.namespace, {})[new.uid] = None
        elif old is not None and old.is_terminating and old.namespace in self._uids:
            uids = self._uids[old.namespace]
            uids.pop(old.uid, None)
            if not uids:
                del self._uids[old.namespace]
        return ()

    def answers(self) -> object:
        """Return the uids by namespace."""
        return {namespace: {pod.uid for pod in self.pods_of(namespace)} for namespace in self._uids}
