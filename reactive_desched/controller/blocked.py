"""Findings that must wait, and the news that wakes them.

As the kube-scheduler's queueing hints: a finding refused for want of room waits for room, one
stopped by a disruption budget waits for that budget. Deferred work is judged afresh when woken,
never executed late.
"""

from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeVar

from reactive_desched.model.changes import (
    Change,
    NamespaceChanged,
    NodeAdded,
    NodeCapacityIncreased,
    NodeChange,
    NodeLabelsChanged,
    NodeTaintsChanged,
    PdbChanged,
    PodChange,
    PodGone,
    PodLabelsChanged,
    PodSpecChanged,
    PodTerminating,
    PriorityClassChanged,
    PvcChanged,
    PvChanged,
)
from reactive_desched.model.decisions import CapacityHint, Defer, Refuse, WakeKey
from reactive_desched.model.objects import Pod
from reactive_desched.state.indexes.owners import OwnerSizeChanged

K = TypeVar("K", bound=Hashable)
C = TypeVar("C")
BlockedDecision = Defer | Refuse

ANY_CAPACITY: WakeKey = ("room",)
ELIGIBLE_NODES: WakeKey = ("nodes",)
_FREES_CAPACITY: frozenset[type[Change]] = frozenset(
    {
        *(NodeAdded, NodeCapacityIncreased, NodeTaintsChanged, NodeLabelsChanged, PodGone),
        *(PodSpecChanged, PodLabelsChanged),  # it shrank, or no longer repels
    }
)


def may_free_capacity(change: Change) -> bool:
    """Say whether a pod that fitted nowhere might fit somewhere after this."""
    return type(change) in _FREES_CAPACITY


def wake_keys(change: Change) -> Iterator[WakeKey]:
    """Name what this change is news for."""
    yield from _node_wake_keys(change)
    match change:
        case PodTerminating():
            return
        case PodChange(pod=pod):
            yield ("pod", pod.uid)
        case PdbChanged(namespace=namespace):
            yield ("budgets", namespace)
        case NamespaceChanged(namespace=namespace):
            yield ("namespace", namespace)
        case OwnerSizeChanged(owner_uid=uid):
            yield ("owner", uid)
        case PvcChanged(namespace=namespace, name=name):
            yield ("claim", f"{namespace}/{name}")
        case PvChanged(name=name):
            yield ("volume", name)
        case PriorityClassChanged():
            yield ("priorityclasses",)


def _node_wake_keys(change: Change) -> Iterator[WakeKey]:
    if may_free_capacity(change):
        yield ANY_CAPACITY
    match change:
        case NodeAdded(node=node):
            yield ELIGIBLE_NODES
            yield ("node", node)
        case NodeChange(node=node) | PodGone(pod=Pod(node=node)):
            yield ("node", node)


class BlockedFindings(Generic[K, C]):
    """Blocked keys by what they wait for; bounded by the number of blocked findings.

    A key may have a parent, the broader subject whose judgement blocked it: judging the parent
    again answers for the whole family.
    """

    def __init__(self) -> None:
        self._blocked: dict[K, tuple[BlockedDecision, C, K]] = {}
        self._by_wake_key: dict[WakeKey, dict[K, None]] = {}
        self._groups: dict[K, dict[K, None]] = {}

    def __len__(self) -> int:
        return len(self._blocked)

    def __contains__(self, key: K) -> bool:
        return key in self._blocked

    def add(self, key: K, decision: BlockedDecision, trigger: C, parent: K) -> None:
        """Let a key wait for what its verdict names; a key without a broader one is its own."""
        self.remove(key)
        self._blocked[key] = (decision, trigger, parent)
        if parent != key:
            self._groups.setdefault(parent, {})[key] = None
        for wake in _awaited(decision):
            self._by_wake_key.setdefault(wake, {})[key] = None

    def remove_group(self, key: K) -> dict[K, BlockedDecision]:
        """Take out a key and all it is the parent of; returns what each was waiting with."""
        if key not in self._groups:
            decision = self.remove(key)
            return {} if decision is None else {key: decision}
        members = [*self._groups[key], key]
        return {k: decision for k in members if (decision := self.remove(k)) is not None}

    def remove(self, key: K) -> BlockedDecision | None:
        """Take a key out; returns what it was waiting with."""
        if (blocked := self._blocked.pop(key, None)) is None:
            return None
        decision, _, parent = blocked
        if parent != key:
            self._remove_from_group(parent, key)
        for wake in _awaited(decision):
            keys = self._by_wake_key[wake]
            keys.pop(key, None)
            if not keys:
                del self._by_wake_key[wake]
        return decision

    def _remove_from_group(self, parent: K, key: K) -> None:
        group = self._groups[parent]
        del group[key]
        if not group:
            del self._groups[parent]

    def affected_by(self, change: Change) -> list[K]:
        """Name the keys that should look again after this change."""
        if not self._by_wake_key:
            return []
        return [key for wake in wake_keys(change) for key in self._by_wake_key.get(wake, ())]

    def waiting_for(self, wake: WakeKey) -> list[K]:
        """Name the keys that wait for this."""
        return list(self._by_wake_key.get(wake, ()))

    def candidates_for(self, hint: CapacityHint) -> Iterator[K]:
        """Name those that wait for a room's news and may gain by it, longest waiting first."""
        for key in self._by_wake_key.get(hint.wake, ()):
            verdict, _, _ = self._blocked[key]
            if not hint.exclude_node or verdict.finding.pod.node != hint.exclude_node:
                yield key

    def decision_of(self, key: K) -> BlockedDecision | None:
        """Return what a key waits with."""
        parked = self._blocked.get(key)
        return None if parked is None else parked[0]

    def trigger_of(self, key: K) -> C | None:
        """Return what first led to a blocked key's finding."""
        parked = self._blocked.get(key)
        return None if parked is None else parked[1]

    def count_by_gate(self) -> dict[str, int]:
        """Count the parked keys per gate."""
        counts: dict[str, int] = {}
        for verdict, _, _ in self._blocked.values():
            counts[verdict.gate] = counts.get(verdict.gate, 0) + 1
        return counts


def _awaited(decision: BlockedDecision) -> Iterable[WakeKey]:
    if isinstance(decision, Refuse):
        return decision.wake_on
    return (("pod", decision.finding.pod.uid),)
