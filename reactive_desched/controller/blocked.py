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
    NodeChange,
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
    VolumeChanged,
)
from reactive_desched.model.decisions import Defer, Refuse, Room, WakeKey
from reactive_desched.model.objects import Pod

K = TypeVar("K", bound=Hashable)
C = TypeVar("C")
Blocked = Defer | Refuse

ROOM: WakeKey = ("room",)
NODES: WakeKey = ("nodes",)
_MAKE_ROOM: frozenset[type[Change]] = frozenset(
    {
        *(NodeAdded, NodeRelaxed, NodeTaintsChanged, NodeLabelsChanged, PodGone),
        *(PodSpecChanged, PodLabelsChanged),  # it shrank, or no longer repels
    }
)


def makes_room(change: Change) -> bool:
    """Say whether a pod that fitted nowhere might fit somewhere after this."""
    return type(change) in _MAKE_ROOM


def wakes(change: Change) -> Iterator[WakeKey]:
    """Name what this change is news for."""
    yield from _about_nodes(change)
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
        case VolumeChanged(name=name):
            yield ("volume", name)
        case PriorityClassChanged():
            yield ("priorityclasses",)


def _about_nodes(change: Change) -> Iterator[WakeKey]:
    if makes_room(change):
        yield ROOM
    match change:
        case NodeAdded(node=node):
            yield NODES
            yield ("node", node)
        case NodeChange(node=node) | PodGone(pod=Pod(node=node)):
            yield ("node", node)


class Parking(Generic[K, C]):
    """Blocked keys by what they wait for; bounded by the number of blocked findings.

    A key may have a parent, the broader subject whose judgement blocked it: judging the parent
    again answers for the whole family.
    """

    def __init__(self) -> None:
        self._parked: dict[K, tuple[Blocked, C, K]] = {}
        self._waiting: dict[WakeKey, dict[K, None]] = {}
        self._families: dict[K, dict[K, None]] = {}

    def __len__(self) -> int:
        return len(self._parked)

    def __contains__(self, key: K) -> bool:
        return key in self._parked

    def park(self, key: K, verdict: Blocked, cause: C, parent: K) -> None:
        """Let a key wait for what its verdict names; a key without a broader one is its own."""
        self.leave(key)
        self._parked[key] = (verdict, cause, parent)
        if parent != key:
            self._families.setdefault(parent, {})[key] = None
        for wake in _wanted(verdict):
            self._waiting.setdefault(wake, {})[key] = None

    def leave_family(self, key: K) -> dict[K, Blocked]:
        """Take out a key and all it is the parent of; returns what each was waiting with."""
        if key not in self._families:
            verdict = self.leave(key)
            return {} if verdict is None else {key: verdict}
        members = [*self._families[key], key]
        return {k: verdict for k in members if (verdict := self.leave(k)) is not None}

    def leave(self, key: K) -> Blocked | None:
        """Take a key out; returns what it was waiting with."""
        if (parked := self._parked.pop(key, None)) is None:
            return None
        verdict, _, parent = parked
        if parent != key:
            self._drop_from(parent, key)
        for wake in _wanted(verdict):
            keys = self._waiting[wake]
            keys.pop(key, None)
            if not keys:
                del self._waiting[wake]
        return verdict

    def _drop_from(self, parent: K, key: K) -> None:
        family = self._families[parent]
        del family[key]
        if not family:
            del self._families[parent]

    def woken_by(self, change: Change) -> list[K]:
        """Name the keys that should look again after this change."""
        if not self._waiting:
            return []
        return [key for wake in wakes(change) for key in self._waiting.get(wake, ())]

    def waiting_for(self, wake: WakeKey) -> list[K]:
        """Name the keys that wait for this."""
        return list(self._waiting.get(wake, ()))

    def may_wake(self, news: Room) -> Iterator[K]:
        """Name those that wait for a room's news and may gain by it, longest waiting first."""
        for key in self._waiting.get(news.wake, ()):
            verdict, _, _ = self._parked[key]
            if not news.beside or verdict.finding.pod.node != news.beside:
                yield key

    def verdict(self, key: K) -> Blocked | None:
        """Return what a key waits with."""
        parked = self._parked.get(key)
        return None if parked is None else parked[0]

    def cause(self, key: K) -> C | None:
        """Return what first led to a blocked key's finding."""
        parked = self._parked.get(key)
        return None if parked is None else parked[1]

    def by_gate(self) -> dict[str, int]:
        """Count the parked keys per gate."""
        counts: dict[str, int] = {}
        for verdict, _, _ in self._parked.values():
            counts[verdict.gate] = counts.get(verdict.gate, 0) + 1
        return counts


def _wanted(verdict: Blocked) -> Iterable[WakeKey]:
    if isinstance(verdict, Refuse):
        return verdict.wakes
    return (("pod", verdict.finding.pod.uid),)
