"""The cost of moving a pod, in moves of a usual one."""

from typing import Final

from reactive_desched.model.deletion_cost import read_deletion_cost
from reactive_desched.model.objects import Pod

_DELETION_COSTS: Final = 2.0**27
_PRIORITIES: Final = 2.0**25
_EACH_S: Final = 60.0
_LONGEST_START_S: Final = 600.0
LEAST: Final = 0.1
MOST: Final = 10.0


def move_cost(pod: Pod) -> float:
    """Return the cost of a pod's move, as Karpenter counts it, but that no move is free.

    It is 1 for a pod without priority and `pod-deletion-cost`. Both raise or lower it, and each
    minute that the pod took to be Ready adds 1; it is 10 at most.
    """
    cost = 1.0 + (read_deletion_cost(pod.annotations.deletion_cost) or 0) / _DELETION_COSTS
    cost += (pod.spec.priority or 0) / _PRIORITIES
    cost += seconds_until_ready(pod) / _EACH_S
    return min(max(cost, LEAST), MOST)


def seconds_until_ready(pod: Pod) -> float:
    """Return how long a pod took from its start on the node until it was Ready; 0: not known.

    One that became Ready after ten minutes was Ready before, as a rule: that is no start.
    """
    started, ready = pod.started_s, pod.ready_since_s
    if started is None or ready is None or not started <= ready <= started + _LONGEST_START_S:
        return 0.0
    return float(ready - started)
