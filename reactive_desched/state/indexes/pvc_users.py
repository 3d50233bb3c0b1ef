"""Keeps the pods that use a PersistentVolumeClaim."""

from collections.abc import Collection, Hashable

from reactive_desched.api.index import Cluster, Index
from reactive_desched.model.objects import Pod, PodKey
from reactive_desched.primitives.groups import Groups


class PvcUsers(Index):
    """The active pods by the claims that they mount; a claim is "namespace/name"."""

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._pods = cluster.store(Pod)
        self._uids = Groups[str, PodKey]()
        for pod in self._pods:
            self.on_pod(None, pod)

    def users_of(self, pvc: str) -> Collection[Pod]:
        """Return the pods that sit on a node, have not ended, and use a claim."""
        found = map(self._pods.get, self._uids.of(pvc))
        return [pod for pod in found if pod is not None]

    def on_pod(self, old: Pod | None, new: Pod | None) -> tuple[()]:
        """Follow a pod that starts or stops using claims."""
        if old is not None and old.pvc_names:
            for pvc in _pvcs(old):
                self._uids.discard(pvc, old.uid)
        if new is not None and new.pvc_names and new.is_active:
            for pvc in _pvcs(new):
                self._uids.add(pvc, new.uid)
        return ()

    def answers(self) -> object:
        """Return the uids by claim."""
        return {pvc: {pod.uid for pod in self.users_of(pvc)} for pvc in self._uids.groups()}


def _pvcs(pod: Pod) -> list[str]:
    return [f"{pod.namespace}/{name}" for name in pod.pvc_names]
