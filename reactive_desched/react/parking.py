"""Findings that must wait, and the news that wakes them.

As the kube-scheduler's queueing hints: a finding refused for want of room waits for room, one
stopped by a disruption budget waits for that budget. Deferred work is judged afresh when woken,
never executed late.
"""

from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeVar

from reactive_desched.model.changes import (
    Change,
    ClaimChanged,
    DisruptionBudgetChanged,
    NamespaceChanged,
    NodeAdded,
    NodeLabelsChanged,
    NodeRelaxed,
    NodeTaintsChanged,
    OwnerSizeChanged,
    PodChange,
    PodGone,
    PodLabelsChanged,
    PodSpecChanged,
    PodTerminating,
    PriorityClassChanged,
)
from reactive_desched.model.decisions import Defer, Refuse, WakeKey

K = TypeVar("K", bound=Hashable)

ROOM: WakeKey = ("room",)
_MAKE_ROOM = (NodeAdded, NodeRelaxed, NodeTaintsChanged, NodeLabelsChanged, PodGone)
_MAY_MAKE_ROOM = (PodSpecChanged, PodLabelsChanged)  # it shrank, or no longer repels


def makes_room(change: Change) -> bool:
    """Say whether a pod that fitted nowhere might fit somewhere after this."""
    return isinstance(change, _MAKE_ROOM + _MAY_MAKE_ROOM)


def wakes(change: Change) -> Iterator[WakeKey]:
    """Name what this change is news for."""
    if makes_room(change):
        yield ROOM
    match change:
        case PodTerminating():
            return
        case PodChange(pod=pod):
            yield ("pod", pod.uid)
        case DisruptionBudgetChanged(namespace=namespace):
            yield ("budgets", namespace)
        case NamespaceChanged(namespace=namespace):
            yield ("namespace", namespace)
        case OwnerSizeChanged(owner_uid=uid):
            yield ("owner", uid)
        case ClaimChanged(namespace=namespace, name=name):
            yield ("claim", f"{namespace}/{name}")
        case PriorityClassChanged():
            yield ("priorityclasses",)


class Parking(Generic[K]):
    """Blocked keys by what they wait for; bounded by the number of blocked findings."""

    def __init__(self) -> None:
        self._verdicts: dict[K, Defer | Refuse] = {}
        self._waiting: dict[WakeKey, dict[K, None]] = {}

    def __len__(self) -> int:
        return len(self._verdicts)

    def __contains__(self, key: K) -> bool:
        return key in self._verdicts

    def park(self, key: K, verdict: Defer | Refuse) -> None:
        """Let a key wait for what its verdict names."""
        self.leave(key)
        self._verdicts[key] = verdict
        for wake in _wanted(verdict):
            self._waiting.setdefault(wake, {})[key] = None

    def leave(self, key: K) -> Defer | Refuse | None:
        """Take a key out; returns what it was waiting with."""
        verdict = self._verdicts.pop(key, None)
        if verdict is None:
            return None
        for wake in _wanted(verdict):
            keys = self._waiting[wake]
            keys.pop(key, None)
            if not keys:
                del self._waiting[wake]
        return verdict

    def woken_by(self, change: Change) -> list[K]:
        """Name the keys that should look again after this change."""
        if not self._waiting:
            return []
        return [key for wake in wakes(change) for key in self._waiting.get(wake, ())]

    def verdict(self, key: K) -> Defer | Refuse | None:
        """Return what a key waits with."""
        return self._verdicts.get(key)

    def by_gate(self) -> dict[str, int]:
        """Count the parked keys per gate."""
        counts: dict[str, int] = {}
        for verdict in self._verdicts.values():
            counts[verdict.gate] = counts.get(verdict.gate, 0) + 1
        return counts


def _wanted(verdict: Defer | Refuse) -> Iterable[WakeKey]:
    if isinstance(verdict, Refuse):
        return verdict.wakes
    return (("pod", verdict.finding.pod.uid),)
