"""Which pods use a persistent volume claim, so that a claim's news reaches their nodes."""

from collections.abc import Collection

from reactive_desched.model.objects import Pod, PodKey


class ClaimUsers:
    """The pods that sit on a node and have not ended, by the claims they mount."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[PodKey, Pod]] = {}

    def of(self, claim: str) -> Collection[Pod]:
        """Return the pods that use a claim, given by namespace and name."""
        return self._pods.get(claim, {}).values()

    def put(self, pod: Pod) -> None:
        """Note a pod as it is now."""
        if not pod.is_active:
            self.drop(pod)
            return
        for claim in pod.claims:
            self._pods.setdefault(f"{pod.namespace}/{claim}", {})[pod.uid] = pod

    def drop(self, pod: Pod) -> None:
        """Forget a pod that left its node or has ended."""
        for claim in pod.claims:
            users = self._pods.get(f"{pod.namespace}/{claim}", {})
            users.pop(pod.uid, None)
            if not users:
                self._pods.pop(f"{pod.namespace}/{claim}", None)
