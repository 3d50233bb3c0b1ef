"""Counts the pods that a pod's workload wants, and those that are unavailable."""

from collections.abc import Mapping
from typing import Final

from reactive_desched.migration.limits import WorkloadSize
from reactive_desched.model.objects import (
    Deployment,
    Job,
    OwnerReference,
    Pod,
    ReplicaSet,
    StatefulSet,
    controller_of,
)
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.job_pods import JobPods
from reactive_desched.state.indexes.owners import OwnerIndex
from reactive_desched.state.indexes.workload_pods import WorkloadPods
from reactive_desched.state.resources import WATCHED_KINDS

INDEXES: Final = (JobPods, OwnerIndex, WorkloadPods)
"""The indexes that are asked."""

_WATCHED: Final[
    Mapping[tuple[str, str], tuple[str, type[ReplicaSet | Job | Deployment | StatefulSet]]]
] = {
    (kind.group, kind.kind): (kind.resource, kind.record)
    for kind in WATCHED_KINDS.values()
    if kind.record in (ReplicaSet, Job, Deployment, StatefulSet)
}
"""The kinds of controllers that are watched: resource and record, by API group and kind."""

_BATCH_JOB: Final = ("batch", "Job")


def workload_size(pod: Pod, view: ClusterView) -> WorkloadSize | None:
    """Return the size of the topmost controller of a pod: as that says, where it is known.

    Of a kind that is not watched, and of a ReplicaSet of which only metadata is read, the pods that
    are there stand for the size. A batch Job has none, as in koordinator, and neither has a
    controller that is gone: no pod would be made again.
    """
    owners = view.index(OwnerIndex)
    chain = owners.chain(pod)
    if not chain:
        return None
    topmost = chain[-1]
    found = _find(topmost, view)
    if found is None and _is_gone(topmost, view):
        return WorkloadSize(0, is_gone=True)
    if _kind_of(chain[0]) == _BATCH_JOB:
        return WorkloadSize(0)
    written = None if found is None else found.replicas
    there = view.index(WorkloadPods).count(pod.namespace, chain[0].uid)
    unavailable = (
        other
        for other in view.index(JobPods).unavailable_in(pod.namespace)
        if controller_of(other.owners) is not None and owners.chain(other)[-1].uid == topmost.uid
    )
    return WorkloadSize(there if written is None else written, unavailable)


def _find(
    owner: OwnerReference, view: ClusterView
) -> ReplicaSet | Job | Deployment | StatefulSet | None:
    _, record = _WATCHED.get(_kind_of(owner), ("", None))
    return None if record is None else view.store(record).get(owner.uid)


def _is_gone(owner: OwnerReference, view: ClusterView) -> bool:
    """Say whether a controller that is not in the picture would be there if it existed."""
    resource, _ = _WATCHED.get(_kind_of(owner), ("", None))
    return bool(resource) and view.is_readable(resource)


def _kind_of(owner: OwnerReference) -> tuple[str, str]:
    return owner.api_version.rpartition("/")[0], owner.kind
