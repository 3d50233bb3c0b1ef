"""The pods of each namespace."""

from collections.abc import Hashable, Iterator

from reactive_desched.api.index import Cluster, Index
from reactive_desched.model.objects import Pod, PodKey


class NamespacePods(Index):
    """The pods of each namespace, in any phase."""

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._pods = cluster.store(Pod)
        self._uids: dict[str, dict[PodKey, None]] = {}
        for pod in self._pods:
            self.on_pod(None, pod)

    def pods_of(self, namespace: str) -> Iterator[Pod]:
        """Return the pods of a namespace."""
        found = map(self._pods.get, self._uids.get(namespace, ()))
        return (pod for pod in found if pod is not None)

    def on_pod(self, old: Pod | None, new: Pod | None) -> tuple[()]:
        """Follow a pod that appeared or disappeared."""
        if old is None and new is not None:
            self._uids.setdefault(new.namespace, {})[new.uid] = None
        elif old is not None and new is None:
            uids = self._uids[old.namespace]
            del uids[old.uid]
            if not uids:
                del self._uids[old.namespace]
        return ()

    def answers(self) -> object:
        """Return the uids by namespace."""
        return {namespace: {pod.uid for pod in self.pods_of(namespace)} for namespace in self._uids}
