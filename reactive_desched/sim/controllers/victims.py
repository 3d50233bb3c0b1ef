"""Chooses the pods that a ReplicaSet deletes first when it has too many."""

from collections import Counter
from collections.abc import Iterable, Sequence
from math import log2
from typing import Final

from reactive_desched.model.deletion_cost import read_deletion_cost
from reactive_desched.sim.clock import parse_time
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.pods import is_ready, node_of, phase_of, ready_since

__all__ = ["first_to_go"]

_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}

_Rank = tuple[bool, int, bool, int, int, int, str, int, int, str]


def first_to_go(pods: Sequence[Obj], related: Iterable[Obj], count: int, now: float) -> list[Obj]:
    """Return `count` pods: those that are least use first, newer ones before older ones.

    `related` are the pods of all ReplicaSets of a Deployment: a node with many of them loses one.
    Of Ready pods of about the same age the uid decides.
    """
    crowd = Counter(node_of(pod) for pod in related)

    def rank(pod: Obj) -> _Rank:
        meta = pod["metadata"]
        return (
            bool(node_of(pod)),
            _PHASES.get(phase_of(pod), 0),
            is_ready(pod),
            _cost(pod),
            -crowd[node_of(pod)],
            _age_class(now - ready_since(pod)) if is_ready(pod) else 0,
            meta["uid"] if is_ready(pod) else "",
            -_restarts(pod),
            _age_class(now - parse_time(meta["creationTimestamp"])),
            meta["uid"],
        )

    return sorted(pods, key=rank)[:count]


def _cost(pod: Obj) -> int:
    return read_deletion_cost((pod["metadata"].get("annotations") or {}).get(_COST)) or 0


def _age_class(seconds: float) -> int:
    """Put ages in classes that double, so that near-equal ones count as equal."""
    return int(log2(seconds)) + 1 if seconds >= 1 else 0


def _restarts(pod: Obj) -> int:
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    return max((int(status.get("restartCount", 0)) for status in statuses), default=0)
