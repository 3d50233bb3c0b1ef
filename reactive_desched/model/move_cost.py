"""The cost of moving a pod, in moves of a usual one."""

from contextlib import suppress
from typing import Final

from reactive_desched.model.objects import Pod

_DELETION_COSTS: Final = 2.0**27
_PRIORITIES: Final = 2.0**25
LEAST: Final = 0.1
MOST: Final = 10.0


def move_cost(pod: Pod) -> float:
    """Return the cost of a pod's move, as Karpenter counts it, but that no move is free.

    It is 1 for a pod without priority and `pod-deletion-cost`. Both raise or lower it, up to 10.
    """
    cost, written = 1.0, pod.annotations.deletion_cost
    if written is not None:
        with suppress(ValueError):  # as the ReplicaSet controller: what is no number says nothing
            cost += int(written) / _DELETION_COSTS
    cost += (pod.spec.priority or 0) / _PRIORITIES
    return min(max(cost, LEAST), MOST)
