"""Node fit asked about every node, ready or not, a pod's own included."""

from reactive_desched.fit.filters import Diagnosis
from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.model.objects import Pod


def fitting_nodes(fit: SchedulerNodeFit, pod: Pod) -> set[str]:
    """Name every node that fits the pod when it is the only one searched."""
    fit._sync_nodes()
    nodes, find_best = fit._nodes, fit._filters.find_best
    return {nodes.name(slot) for slot in nodes.slots() if find_best(pod, 1 << slot) is not None}


def diagnose_all_nodes(fit: SchedulerNodeFit, pod: Pod) -> Diagnosis:
    """Count why nodes do not fit the pod."""
    fit._sync_nodes()
    return fit._filters.diagnose(pod, fit._nodes.existing)
