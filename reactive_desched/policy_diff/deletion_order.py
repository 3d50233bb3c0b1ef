"""Ranks the pods of a ReplicaSet as kube-controller-manager does when it has too many."""

from collections import Counter
from collections.abc import Iterable
from math import log2
from typing import Final

from reactive_desched.model.deletion_cost import read_deletion_cost
from reactive_desched.model.objects import Pod

__all__ = ["REPLICA_SET", "DeletionOrder"]

REPLICA_SET: Final = "ReplicaSet"

_PHASES: Final = {"Pending": 0, "Unknown": 1}

Rank = tuple[bool, int, bool, int, int, int, str, int, int, str]


class DeletionOrder:
    """Ranks the pods of a ReplicaSet; those of lower rank go first.

    `related` are the active pods of all ReplicaSets of its Deployment: where most of them are on
    one node, one of that node goes first. Of Ready pods of about the same age the uid decides.
    """

    def __init__(self, related: Iterable[Pod], now_s: float) -> None:
        self._on_node = Counter(pod.node for pod in related)
        self._now_s = now_s

    def rank(self, pod: Pod) -> Rank:
        """Return the rank of a pod: without a node, not Ready, cheap, crowded, young."""
        status, ready_since_s = pod.status, pod.ready_since_s
        return (
            bool(pod.node),
            _PHASES.get(status.phase, 2),
            status.is_ready,
            read_deletion_cost(pod.annotations.deletion_cost) or 0,
            -self._on_node[pod.node],
            self._age_class(ready_since_s) if status.is_ready else 0,
            pod.uid if status.is_ready else "",
            -max((each.restart_count for each in status.containers), default=0),
            self._age_class(pod.created_s),
            pod.uid,
        )

    def _age_class(self, since_s: int | None) -> int:
        """Put ages in classes that double, so that those that are nearly equal count as equal."""
        seconds = 0.0 if since_s is None else self._now_s - since_s
        return int(log2(seconds)) + 1 if seconds >= 1 else 0
