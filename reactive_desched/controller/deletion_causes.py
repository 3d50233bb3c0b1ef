"""Says what the owners of a deleted pod show of why it was deleted.

The watches of pods, of owners and of namespaces are independent of each other. A pod's deletion may
arrive before the change of its owner that explains it, or after one that is over again. Which of
the two was written first their resourceVersions say: one store counts the writes of all objects.
"""

from collections import OrderedDict, deque
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.model.changes import NamespaceChanged, NodeGone, WorkloadChanged
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
from reactive_desched.model.objects import (
    DaemonSet,
    Deployment,
    IntermediateOwner,
    Job,
    Namespace,
    Node,
    OwnerReference,
    Pod,
    ReplicaSet,
    StatefulSet,
    Workload,
    controller_of,
)
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.owners import OwnerIndex
from reactive_desched.state.indexes.workload_pods import WorkloadPods
from reactive_desched.state.kinds.workloads import UNOBSERVED

ROLLOUT_KEPT_S: Final = 5.0
"""So long after the end of a rollout it explains a deletion: the watch of pods may be later."""

MAX_ROLLOUTS: Final = 10_000
"""So many rollouts are kept, of one workload each; then the oldest is forgotten."""

MAX_ENDED_JOBS: Final = 10_000
"""So many Jobs that have ended, or had a pod that has, are kept; then the oldest is forgotten."""

MAX_DATED_OWNERS: Final = 10_000
"""Of so many owners, namespaces and nodes the latest changes are kept; then those of the one that
changed longest ago are forgotten."""

MAX_DATED_CHANGES: Final = 16
"""So many changes of one owner are kept; then the oldest is forgotten."""

MAX_VERSIONS_APART: Final = 100_000
"""Versions that are further apart say nothing of what was first: they may be of two stores, as an
API server can keep some kinds in one of their own."""

CAUSES_READ: Final = (
    *("deployments", "statefulsets", "daemonsets", "replicasets", "jobs"),
    "namespaces",
)
"""The resources whose objects explain deletions."""

_UNDER_WAY: Final = float("inf")
_RESOURCES: Final = {
    "ReplicaSet": "replicasets",
    "Deployment": "deployments",
    "StatefulSet": "statefulsets",
    "DaemonSet": "daemonsets",
}
"""The resources of Kubernetes' own workloads by kind, except Jobs."""


class Deletion(Struct, frozen=True, gc=False):
    """A deletion as it was first seen; `seen_s` is when, in seconds since the epoch.

    `others` is how many pods the controller of the pod had then, beside it: a moment later they may
    include its replacement. `owners` is its chain of controllers, `zone` that of its node.
    `version` is the resourceVersion with which it was written, 0 where that is not known.
    """

    pod: Pod
    seen_s: float
    owners: tuple[OwnerReference, ...]
    zone: str
    others: int
    has_namespace: bool
    version: int

    def ended(self, cause: str, more: str = "", *, is_explained: bool = True) -> EndedPod:
        """Return how the pod ended, by this cause."""
        message = "; ".join(filter(None, (CAUSES[cause], more)))
        return EndedPod(
            *(self.pod, cause, message),
            is_explained=is_explained,
            owners=self.owners,
            zone=self.zone,
        )


class _DatedChange(Struct, frozen=True, gc=False):
    """A change of an owner, its version, and what the owner was before it and is since."""

    version: int
    before: Workload | IntermediateOwner
    after: Workload | IntermediateOwner | None


class DeletionCauses:
    """Explains deletions by the owners and the namespaces of the pods, as they were then.

    Where versions are known, an owner counts as it was when the deletion was written; else as it is
    when that is explained. `now` is monotonic, in seconds.
    """

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._rollouts: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._ended_jobs: OrderedDict[str, None] = OrderedDict()
        self._first_ends: OrderedDict[str, int] = OrderedDict()  # of the pods of each Job
        self._workloads: dict[str, Workload] = {}
        self._changes: OrderedDict[str, deque[_DatedChange]] = OrderedDict()
        self._namespaces_deleted: OrderedDict[str, int] = OrderedDict()
        self._nodes_deleted: OrderedDict[str, int] = OrderedDict()

    def adopt(self) -> None:
        """Note the workloads as they were found: what each was before its first change."""
        for kind in (Deployment, StatefulSet, DaemonSet):
            self._workloads.update((each.uid, each) for each in self._view.store(kind))

    def follow(self, change: WorkloadChanged, now: float, version: int) -> None:
        """Remember what an owner was before a change, and for a while that it rolled out.

        `version` is that of the change, 0 where it is not known. A Job may be deleted as soon as it
        has ended, before the pods that it ended are gone.
        """
        uid = change.uid
        owner = self._owner(uid)
        self._date(uid, owner, version)
        if isinstance(owner, Job):
            if _is_over(owner):
                self._ended_jobs[uid] = None
                if len(self._ended_jobs) > MAX_ENDED_JOBS:
                    self._ended_jobs.popitem(last=False)
        elif isinstance(owner, Workload) and owner.rollout:
            self._rollouts[uid] = owner.rollout, _UNDER_WAY
            self._rollouts.move_to_end(uid)
            if len(self._rollouts) > MAX_ROLLOUTS:
                self._rollouts.popitem(last=False)
        elif (kept := self._rollouts.get(uid)) is not None and kept[1] == _UNDER_WAY:
            self._rollouts[uid] = kept[0], now + ROLLOUT_KEPT_S

    def note_ended(self, pod: Pod) -> None:
        """Keep with which version the first pod of a Job ended, which may end the Job."""
        owner = controller_of(pod.owners)
        if owner is None or not owner.is_batch_job:
            return
        self._first_ends.setdefault(owner.uid, pod.resource_version)
        if len(self._first_ends) > MAX_ENDED_JOBS:
            self._first_ends.popitem(last=False)

    def follow_namespace(self, change: NamespaceChanged, version: int) -> None:
        """Remember with which version a namespace began to go; 0 is one that is not known."""
        namespace = self._view.store(Namespace).get(change.namespace)
        if namespace is None or not namespace.is_terminating:
            self._namespaces_deleted.pop(change.namespace, None)
        elif change.namespace not in self._namespaces_deleted:
            self._namespaces_deleted[change.namespace] = version
            if len(self._namespaces_deleted) > MAX_DATED_OWNERS:
                self._namespaces_deleted.popitem(last=False)

    def follow_node(self, change: NodeGone, version: int) -> None:
        """Remember with which version a node was deleted; 0 is one that is not known."""
        if self._view.store(Node).get(change.node) is not None:
            return
        self._nodes_deleted.pop(change.node, None)
        self._nodes_deleted[change.node] = version
        if len(self._nodes_deleted) > MAX_DATED_OWNERS:
            self._nodes_deleted.popitem(last=False)

    def _date(self, uid: str, owner: Workload | IntermediateOwner | None, version: int) -> None:
        """Keep what an owner was before this change, where that and its version are known.

        A change of its pods alone is none.
        """
        kept = self._changes.get(uid)
        if kept and kept[-1].after == owner:
            return
        before: Workload | IntermediateOwner | None = self._workloads.pop(uid, None)
        if isinstance(owner, Workload):
            self._workloads[uid] = owner
        elif before is None:  # a Job or ReplicaSet: before its first change it was there, no more
            before = kept[-1].after if kept else IntermediateOwner(uid)
        if before == owner:
            return
        if before is None or not (version or owner is None):
            self._changes.pop(uid, None)
            return
        if kept is None or not version:
            kept = self._changes[uid] = deque(maxlen=MAX_DATED_CHANGES)
        kept.append(_DatedChange(version, before, owner))
        self._changes.move_to_end(uid)
        if len(self._changes) > MAX_DATED_OWNERS:
            self._changes.popitem(last=False)

    def _owner(self, uid: str) -> Workload | IntermediateOwner | None:
        """Return an owner as it is now."""
        return (
            self._view.workload(uid)
            or self._view.store(Job).get(uid)
            or self._view.store(ReplicaSet).get(uid)
            or self._view.store(DaemonSet).get(uid)
        )

    def _owner_at(self, uid: str, version: int) -> Workload | IntermediateOwner | None:
        """Return an owner as it was when this version was written; 0 means as it is."""
        owner = self._owner(uid)
        for change in reversed(self._changes.get(uid, ()) if version else ()):
            if not _is_before(version, change.version):
                break
            owner = change.before
        return owner

    def first_seen(self, pod: Pod, version: int) -> Deletion:
        """Keep of a deletion what a later look cannot see any more; 0 is no version."""
        owners = self._view.index(OwnerIndex).chain(pod)
        return Deletion(
            pod,
            self._view.now_s,
            owners,
            self._view.zone(pod.node),
            self._view.index(WorkloadPods).count(pod.namespace, owners[0].uid) if owners else 0,
            self._view.store(Namespace).get(pod.namespace) is not None,
            version,
        )

    def explain(self, deletion: Deletion, now: float) -> EndedPod:
        """Return the cause of a deletion, as the cluster shows it now."""
        pod, chain = deletion.pod, self._view.index(OwnerIndex).chain(deletion.pod)
        if len(chain) > len(deletion.owners):  # its ReplicaSet was not seen before
            deletion = replace(deletion, owners=chain)
        if self._is_namespace_gone(deletion):
            return deletion.ended(NAMESPACE_GONE)
        if not deletion.owners:
            return deletion.ended(DELETED, "it has no owner", is_explained=False)
        for each in deletion.owners:
            if self._is_owner_gone(each, deletion) and not self._has_ended_pods(each, deletion):
                return deletion.ended(OWNER_GONE, each.named(pod.namespace))
            if why := self._why_job_gave_up(each, deletion):
                return deletion.ended(JOB_ENDED, f"{each.named(pod.namespace)}: {why}")
        for each in reversed(deletion.owners):
            owner = self._owner_at(each.uid, deletion.version)
            if owner is not None and owner.replicas is not None:
                return self._explain_by(each, owner, deletion, now)
        own = deletion.owners[0].named(pod.namespace)
        return deletion.ended(DELETED, f"whether {own} gave it up is not known")

    def _explain_by(
        self,
        reference: OwnerReference,
        owner: Workload | IntermediateOwner,
        deletion: Deletion,
        now: float,
    ) -> EndedPod:
        """Return the cause of a deletion by an owner of a known size, as it was then.

        It is the topmost one of which the size is known: a ReplicaSet, where what controls that is
        no Deployment. A DaemonSet's controller deletes pods from nodes that are there, and counts
        these behind.
        """
        pod, wanted, latest = deletion.pod, owner.replicas, self._owner(owner.uid)
        may_be_too_many = True
        if isinstance(latest, DaemonSet):
            wanted = latest.replicas
            may_be_too_many = self._had_node(deletion)
        name = reference.named(pod.namespace)
        assert wanted is not None, "its size is known"
        numbers = f"{name} wants {wanted} and has {deletion.others} without it"
        is_too_many = may_be_too_many and deletion.others >= wanted
        rollout = owner.rollout if isinstance(owner, Workload) else ""
        rollout = rollout or self._recent_rollout(owner.uid, deletion, now)
        if rollout and not (is_too_many and rollout == UNOBSERVED):
            return deletion.ended(ROLLED_OUT, f"{name}: {rollout}")
        if is_too_many:
            return deletion.ended(SCALED_DOWN, numbers)
        return deletion.ended(DELETED, numbers, is_explained=False)

    def _had_node(self, deletion: Deletion) -> bool:
        """Say whether the node of a pod was there when the deletion was written."""
        node = deletion.pod.node
        is_there = self._view.store(Node).get(node) is not None
        return is_there or _is_before(deletion.version, self._nodes_deleted.get(node, 0))

    def _recent_rollout(self, uid: str, deletion: Deletion, now: float) -> str:
        """Return a rollout that was over a moment ago, where versions do not say when."""
        rollout, until = self._rollouts.get(uid, ("", 0.0))
        return rollout if now <= until and not self._is_dated(uid, deletion) else ""

    def _is_dated(self, uid: str, deletion: Deletion) -> bool:
        """Say whether it is known what an owner was when the deletion was written."""
        return bool(deletion.version) and uid in self._changes

    def _is_namespace_gone(self, deletion: Deletion) -> bool:
        name = deletion.pod.namespace
        namespace = self._view.store(Namespace).get(name)
        is_gone = deletion.has_namespace if namespace is None else namespace.is_terminating
        since = self._namespaces_deleted.get(name, 0)
        return is_gone and not _is_before(deletion.version, since)

    def _has_ended_pods(self, owner: OwnerReference, deletion: Deletion) -> bool:
        """Say whether a Job that is gone has ended its pods before.

        That it has ended is written behind their deletion. One that was being deleted then may have
        ended because they went: it had a reason of its own where another pod had ended before, or
        its deadline had passed.
        """
        found = self._owner_at(owner.uid, deletion.version)
        if self._is_dated(owner.uid, deletion) and isinstance(found, Job) and found.is_terminating:
            first_end = self._first_ends.get(owner.uid, deletion.version)
            has_reason = _is_late(found, deletion.seen_s) or first_end < deletion.version
            if not has_reason:
                return _is_over(found)
        return owner.uid in self._ended_jobs

    def _why_job_gave_up(self, owner: OwnerReference, deletion: Deletion) -> str:
        if not owner.is_batch_job:
            return ""
        ended = self._view.store(Job).get(owner.uid)  # which is written behind its pods' ends
        if owner.uid in self._ended_jobs or (ended is not None and _is_over(ended)):
            return "it has ended"
        job = self._owner_at(owner.uid, deletion.version)
        is_suspended = isinstance(job, Job) and job.tries and job.tries.makes_no_pod == SUSPENDED
        return SUSPENDED if is_suspended else ""

    def _is_owner_gone(self, owner: OwnerReference, deletion: Deletion) -> bool:
        resource = _resource_of(owner)
        if resource is None or not self._view.is_readable(resource):
            return False
        found = self._owner_at(owner.uid, deletion.version)
        return found is None or found.is_terminating


def _resource_of(owner: OwnerReference) -> str | None:
    """Return the resource of an owner that is watched, if it is one."""
    if owner.is_batch_job:
        return "jobs"
    return _RESOURCES.get(owner.kind) if owner.is_of_apps else None


def _is_over(job: Job) -> bool:
    """Say whether a Job has ended; one that is being deleted may have had work left."""
    tries = job.tries
    return tries is not None and tries.is_over and (tries.has_ended or not job.is_terminating)


def _is_late(job: Job, now_s: float) -> bool:
    """Say whether the deadline of a Job has passed."""
    deadline_s = None if job.tries is None else job.tries.deadline_s
    return deadline_s is not None and deadline_s <= now_s


def _is_before(version: int, other: int) -> bool:
    """Say whether what has this version was surely written before the other; 0 is not known."""
    return 0 < version < other <= version + MAX_VERSIONS_APART
