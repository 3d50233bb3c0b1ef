"""Says what the owners of a deleted pod show of why it was deleted.

The watches of pods, of owners and of namespaces are independent of each other. A pod's deletion may
arrive before the change of its owner that explains it, or after one that is over again.
"""

from collections import OrderedDict
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.model.changes import WorkloadChanged
from reactive_desched.model.disruptions import (
    CAUSES,
    DELETED,
    JOB_ENDED,
    NAMESPACE_GONE,
    OWNER_GONE,
    ROLLED_OUT,
    SCALED_DOWN,
    EndedPod,
)
from reactive_desched.model.job_tries import SUSPENDED
from reactive_desched.model.objects import Job, Namespace, OwnerReference, Pod, ReplicaSet
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.owners import OwnerIndex
from reactive_desched.state.indexes.workload_pods import WorkloadPods
from reactive_desched.state.kinds.workloads import UNOBSERVED

ROLLOUT_KEPT_S: Final = 5.0
"""So long after the end of a rollout it explains a deletion: the watch of pods may be later."""

MAX_ROLLOUTS: Final = 10_000
"""So many rollouts are kept, of one workload each; then the oldest is forgotten."""

MAX_ENDED_JOBS: Final = 10_000
"""So many Jobs that have ended are remembered; then the oldest is forgotten."""

CAUSES_READ: Final = ("deployments", "statefulsets", "replicasets", "jobs", "namespaces")
"""The resources whose objects explain deletions."""

_UNDER_WAY: Final = float("inf")
_REPLICA_SET: Final = "ReplicaSet"
_RESOURCES: Final = {
    _REPLICA_SET: "replicasets",
    "Deployment": "deployments",
    "StatefulSet": "statefulsets",
}
_KNOWN_DEPTH: Final = 2
"""A Deployment and its ReplicaSet: what is above them may decide for them."""


class Deletion(Struct, frozen=True, gc=False):
    """A deletion as it was first seen; `seen_s` is when, in seconds since the epoch.

    `others` is how many pods the controller of the pod had then, beside it: a moment later they may
    include its replacement. `owners` is its chain of controllers, `zone` that of its node.
    """

    pod: Pod
    seen_s: float
    owners: tuple[OwnerReference, ...]
    zone: str
    others: int
    has_namespace: bool

    def ended(self, cause: str, more: str = "", *, is_explained: bool = True) -> EndedPod:
        """Return how the pod ended, by this cause."""
        message = "; ".join(filter(None, (CAUSES[cause], more)))
        return EndedPod(
            *(self.pod, cause, message),
            is_explained=is_explained,
            owners=self.owners,
            zone=self.zone,
        )


class DeletionCauses:
    """Explains deletions by the owners and the namespaces of the pods, as they are at the time.

    `now` is monotonic, in seconds.
    """

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._rollouts: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._ended_jobs: OrderedDict[str, None] = OrderedDict()

    def follow(self, change: WorkloadChanged, now: float) -> None:
        """Remember a rollout that is under way, for a while one that has ended, and Jobs that have.

        A Job may be deleted as soon as it has ended, before the pods that it ended are gone.
        """
        uid = change.uid
        job = self._view.store(Job).get(uid)
        if job is not None:
            if job.tries is not None and job.tries.is_over:
                self._ended_jobs[uid] = None
                if len(self._ended_jobs) > MAX_ENDED_JOBS:
                    self._ended_jobs.popitem(last=False)
            return
        workload = self._view.workload(uid)
        if workload is not None and workload.rollout:
            self._rollouts[uid] = workload.rollout, _UNDER_WAY
            self._rollouts.move_to_end(uid)
            if len(self._rollouts) > MAX_ROLLOUTS:
                self._rollouts.popitem(last=False)
        elif (kept := self._rollouts.get(uid)) is not None and kept[1] == _UNDER_WAY:
            self._rollouts[uid] = kept[0], now + ROLLOUT_KEPT_S

    def first_seen(self, pod: Pod) -> Deletion:
        """Keep of a deletion what a later look cannot see any more."""
        owners = self._view.index(OwnerIndex).chain(pod)
        return Deletion(
            pod,
            self._view.now_s,
            owners,
            self._view.zone(pod.node),
            self._view.index(WorkloadPods).count(pod.namespace, owners[0].uid) if owners else 0,
            self._view.store(Namespace).get(pod.namespace) is not None,
        )

    def explain(self, deletion: Deletion, now: float) -> EndedPod:
        """Return the cause of a deletion, as the cluster shows it now."""
        pod, chain = deletion.pod, self._view.index(OwnerIndex).chain(deletion.pod)
        if len(chain) > len(deletion.owners):  # its ReplicaSet was not seen before
            deletion = replace(deletion, owners=chain)
        namespace = self._view.store(Namespace).get(pod.namespace)
        if deletion.has_namespace if namespace is None else namespace.is_terminating:
            return deletion.ended(NAMESPACE_GONE)
        if not deletion.owners:
            return deletion.ended(DELETED, "it has no owner", is_explained=False)
        own, top = (each.named(pod.namespace) for each in (deletion.owners[0], deletion.owners[-1]))
        for each in deletion.owners:
            if self._is_owner_gone(each) and each.uid not in self._ended_jobs:
                return deletion.ended(OWNER_GONE, each.named(pod.namespace))
            if why := self._why_job_gave_up(each):
                return deletion.ended(JOB_ENDED, f"{each.named(pod.namespace)}: {why}")
        uid = deletion.owners[-1].uid
        workload = self._view.workload(uid)
        if workload is None or len(deletion.owners) > _KNOWN_DEPTH:
            return deletion.ended(DELETED, f"whether {own} gave it up is not known")
        numbers = f"{top} wants {workload.replicas} and has {deletion.others} without it"
        is_too_many = deletion.others >= workload.replicas
        rollout = workload.rollout or self._recent_rollout(uid, now)
        if rollout and not (is_too_many and rollout == UNOBSERVED):
            return deletion.ended(ROLLED_OUT, f"{top}: {rollout}")
        if is_too_many:
            return deletion.ended(SCALED_DOWN, numbers)
        return deletion.ended(DELETED, numbers, is_explained=False)

    def _recent_rollout(self, uid: str, now: float) -> str:
        rollout, until = self._rollouts.get(uid, ("", 0.0))
        return rollout if now <= until else ""

    def _why_job_gave_up(self, owner: OwnerReference) -> str:
        if owner.uid in self._ended_jobs:
            return "it has ended"
        job = self._view.store(Job).get(owner.uid) if owner.is_batch_job else None
        if job is None or job.tries is None:
            return ""
        if job.tries.is_over:
            return "it has ended"
        return SUSPENDED if job.tries.makes_no_pod == SUSPENDED else ""

    def _is_owner_gone(self, owner: OwnerReference) -> bool:
        if owner.is_batch_job:
            return self._view.is_readable("jobs") and self._view.store(Job).get(owner.uid) is None
        if (resource := _RESOURCES.get(owner.kind)) is None or not self._view.is_readable(resource):
            return False
        if owner.kind == _REPLICA_SET:
            return self._view.store(ReplicaSet).get(owner.uid) is None
        return self._view.workload(owner.uid) is None
