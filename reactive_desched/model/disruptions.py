"""Names what ended a pod that this controller did not evict, as far as the cluster shows it."""

from typing import Final

from msgspec import Struct

from reactive_desched.model.objects import DISRUPTION_TARGET, OwnerReference, Pod
from reactive_desched.model.outcomes import BY_EVICTION_API

DELETED: Final = "Deleted"
"""A deletion that sets no condition; nothing in the pod says by whom."""
OWNER_GONE: Final = "OwnerGone"
NAMESPACE_GONE: Final = "NamespaceGone"
SCALED_DOWN: Final = "ScaledDown"
ROLLED_OUT: Final = "RolledOut"
JOB_ENDED: Final = "JobEnded"

CAUSES: Final = {
    "PreemptionByScheduler": "the scheduler preempts it for a pod of higher priority",
    "DeletionByTaintManager": "it does not tolerate a NoExecute taint of its node",
    "DeletionByDeviceTaintManager": "it does not tolerate the taint of a device that it uses",
    "DeletionByPodGC": "the pod garbage collector deletes it: its node is gone or out of service",
    "TerminationByKubelet": "the kubelet of its node ends it",
    BY_EVICTION_API: "another client evicts it through the Eviction API",
    OWNER_GONE: "its owner was deleted",
    NAMESPACE_GONE: "its namespace is being deleted",
    SCALED_DOWN: "its owner wants fewer pods",
    ROLLED_OUT: "its owner replaces it in a rollout",
    JOB_ENDED: "its Job has ended or is suspended",
    DELETED: "it was deleted, and nothing says by whom",
}
"""What each cause means; those of the condition DisruptionTarget are Kubernetes' own, and open."""


class EndedPod(Struct, frozen=True, gc=False):
    """A pod that ends, or is gone, by something else than this controller.

    `cause` is the reason of the condition DisruptionTarget where the pod has it, `is_marked` says
    so; else one of the causes above. `is_explained` says that its owner gave it up, or that it may
    have: of some owners it is not known. `since_s` is when that began, in seconds since the epoch
    by the API server's clock, None where it is not known. `zone` is the node's, `owners` the chain.
    """

    pod: Pod
    cause: str
    message: str
    is_marked: bool = False
    is_explained: bool = False
    since_s: int | None = None
    owners: tuple[OwnerReference, ...] = ()
    zone: str = ""


class RememberedEnd(Struct, frozen=True, gc=False):
    """The end of a pod by something else, for `why`; `ended_s` is seconds since the epoch."""

    uid: str
    namespace: str
    name: str
    node: str
    owner: str
    cause: str
    message: str
    ended_s: float

    def is_named(self, pod: str) -> bool:
        """Say whether this is the uid of the pod, or its NAMESPACE/NAME."""
        return pod in (self.uid, f"{self.namespace}/{self.name}")


def disruption_mark(pod: Pod) -> tuple[str, int | None] | None:
    """Return the reason of a pod's DisruptionTarget, and when it was set; None unless it is True.

    The time is in seconds since the epoch.
    """
    for number, condition in enumerate(pod.status.conditions):
        if condition.type == DISRUPTION_TARGET:
            if condition.status != "True":
                return None
            times = pod.condition_transitions
            since = times[number] if number < len(times) else None
            return condition.reason, None if since is None else pod.created_s + since
    return None
