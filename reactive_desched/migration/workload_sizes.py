"""How many pods the workload of a pod wants, and which of them are unavailable."""

from typing import Final

from reactive_desched.migration.limits import WorkloadSize
from reactive_desched.model.objects import Pod, controller_of
from reactive_desched.state.indexes.job_pods import JobPods
from reactive_desched.state.indexes.owners import OwnerIndex
from reactive_desched.state.indexes.workload_pods import WorkloadPods
from reactive_desched.state.view import ClusterView

INDEXES: Final = (JobPods, OwnerIndex, WorkloadPods)
"""The indexes that are asked."""


def workload_size(pod: Pod, view: ClusterView) -> WorkloadSize | None:
    """Return the size of the Deployment or StatefulSet above a pod.

    Of any other controller, such as a batch Job, the pods that are there stand for the size.
    """
    owners = view.index(OwnerIndex)
    chain = owners.chain(pod)
    if not chain:
        return None
    topmost = chain[-1].uid
    known = view.workload(topmost)
    there = view.index(WorkloadPods).count(chain[0].uid)
    unavailable = (
        other
        for other in view.index(JobPods).unavailable_in(pod.namespace)
        if controller_of(other.owners) is not None and owners.chain(other)[-1].uid == topmost
    )
    return WorkloadSize(there if known is None else known.replicas, unavailable)
