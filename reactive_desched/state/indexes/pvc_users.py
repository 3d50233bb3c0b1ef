"""Which pods use a persistent volume claim, so that a claim's news reaches their nodes."""

from collections.abc import Collection

from reactive_desched.model.objects import Pod, PodKey


class PvcUsers:
    """The pods that sit on a node and have not ended, by the claims they mount."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[PodKey, Pod]] = {}

    def users_of(self, pvc: str) -> Collection[Pod]:
        """Return the pods that use a claim, given by namespace and name."""
        return self._pods.get(pvc, {}).values()

    def add_pod(self, pod: Pod) -> None:
        """Note a pod as it is now."""
        if not pod.is_active:
            self.remove_pod(pod)
            return
        for pvc in pod.pvc_names:
            self._pods.setdefault(f"{pod.namespace}/{pvc}", {})[pod.uid] = pod

    def remove_pod(self, pod: Pod) -> None:
        """Forget a pod that left its node or has ended."""
        for pvc in pod.pvc_names:
            users = self._pods.get(f"{pod.namespace}/{pvc}", {})
            users.pop(pod.uid, None)
            if not users:
                self._pods.pop(f"{pod.namespace}/{pvc}", None)
