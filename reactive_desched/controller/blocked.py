"""Findings that must wait, by what they wait for.

As the kube-scheduler's queueing hints: a finding rejected for want of capacity waits for capacity,
one that a PodDisruptionBudget stopped waits for that budget. A blocked finding is evaluated afresh
when it is woken, never carried out late.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterator
from typing import Final, Generic, NamedTuple, TypeVar

from reactive_desched.model.changes import Change
from reactive_desched.model.decisions import CapacityHint, Defer, Refuse
from reactive_desched.model.wakes import WakeOn, WakeOnPod
from reactive_desched.primitives.long_answers import portions
from reactive_desched.telemetry.metrics import Metric, gauge

BLOCKED = gauge(
    "blocked_findings",
    "Findings that a gate blocks until an object changes or a time comes.",
    "gate",
)

K = TypeVar("K", bound=Hashable)
G = TypeVar("G", bound=Hashable)
C = TypeVar("C")
BlockedDecision = Defer | Refuse


class Blocked(NamedTuple, Generic[G, C]):
    """A finding that a gate blocks: the decision, since when (monotonic seconds), the trigger."""

    decision: BlockedDecision
    since: float
    trigger: C
    groups: tuple[G, ...]


class BlockedFindings(Generic[K, G, C]):
    """Blocked findings by key, by wake and by group; bounded by the number of blocked findings.

    A group is a subject whose evaluation answers for the finding; a finding has one or more, and
    the first is the one to evaluate again. A change that is none of `awaited_kinds` affects none.
    """

    def __init__(self) -> None:
        self._blocked: dict[K, Blocked[G, C]] = {}
        self._by_wake: _KeysBy[WakeOn, K] = _KeysBy()
        self._by_group: _KeysBy[G, K] = _KeysBy()
        self._by_gate: Counter[str] = Counter()
        self._wake_types: dict[type[Change], list[type[WakeOn]]] = {}
        self.awaited_kinds: Final = self._wake_types.keys()

    def __len__(self) -> int:
        return len(self._blocked)

    def __contains__(self, key: K) -> bool:
        return key in self._blocked

    def snapshot(self) -> Iterator[tuple[K, Blocked[G, C]]]:
        """Yield every finding that is blocked now, in the order in which they were last evaluated.

        One that is taken out before its turn is left out. A list of them all, which is one of new
        objects, would hold the event loop.
        """
        for key in list(self._blocked):
            if (blocked := self._blocked.get(key)) is not None:
                yield key, blocked

    def add(
        self, key: K, decision: BlockedDecision, since: float, trigger: C, groups: tuple[G, ...]
    ) -> None:
        """Let a finding wait for what the decision on it names."""
        self.remove(key)
        self._blocked[key] = Blocked(decision, since, trigger, groups)
        self._by_gate[decision.gate] += 1
        for group in groups:
            self._by_group.add(group, key)
        for wake in awaited(decision):
            self._by_wake.add(wake, key)
            for kind in wake.changes:
                types = self._wake_types.setdefault(kind, [])
                if type(wake) not in types:
                    types.append(type(wake))

    def remove(self, key: K) -> Blocked[G, C] | None:
        """Take a finding out; return why it was blocked."""
        if (blocked := self._blocked.pop(key, None)) is None:
            return None
        gate = blocked.decision.gate
        self._by_gate[gate] -= 1
        if not self._by_gate[gate]:
            del self._by_gate[gate]
        for group in blocked.groups:
            self._by_group.discard(group, key)
        for wake in awaited(blocked.decision):
            self._by_wake.discard(wake, key)
        return blocked

    def remove_group(self, group: G) -> Iterator[dict[K, Blocked[G, C]]]:
        """Take out the findings of a group, in portions; yield why each was blocked."""
        for keys in portions(tuple(self._by_group.members(group))):
            yield {key: blocked for key in keys if (blocked := self.remove(key)) is not None}

    def affected_by(self, change: Change) -> list[K]:
        """Return the findings that this change may unblock."""
        found: list[K] = []
        for wake_type in self._wake_types.get(type(change), ()):
            found += self._by_wake.members(wake_type.fulfilled_by(change))
        return found

    def waiting_for(self, wake: WakeOn) -> list[K]:
        """Return the findings that wait for this, longest blocked first."""
        return list(self._by_wake.members(wake))

    def may_use(self, key: K, hint: CapacityHint) -> bool:
        """Say whether a finding is still blocked on another node than the hint's."""
        blocked = self._blocked.get(key)
        return blocked is not None and (
            not hint.exclude_node or blocked.decision.finding.pod.node != hint.exclude_node
        )

    def decision_of(self, key: K) -> BlockedDecision | None:
        """Return the decision a finding is blocked by."""
        blocked = self._blocked.get(key)
        return None if blocked is None else blocked.decision

    def trigger_of(self, group: G) -> C | None:
        """Return what led to the first finding that is evaluated again with this subject."""
        for key in self._by_group.members(group):
            blocked = self._blocked[key]
            return blocked.trigger if blocked.groups[0] == group else None
        return None

    def count_by_gate(self) -> dict[str, int]:
        """Count the blocked findings per gate."""
        return dict(self._by_gate)

    def collect(self) -> Iterator[Metric]:
        """Yield how many findings each gate blocks."""
        yield BLOCKED.by_label(self.count_by_gate())


class _KeysBy(Generic[G, K]):
    """Sets of keys in order of arrival; most have one member, which is held bare to save memory."""

    def __init__(self) -> None:
        self._sets: dict[G, K | dict[K, None]] = {}

    def __len__(self) -> int:
        return len(self._sets)

    def members(self, name: G) -> Collection[K]:
        """Return the keys of a set; the collection follows later changes."""
        found = self._sets.get(name)
        if found is None:
            return ()
        return found if isinstance(found, dict) else (found,)

    def add(self, name: G, key: K) -> None:
        found = self._sets.get(name)
        if found is None:
            self._sets[name] = key
        elif isinstance(found, dict):
            found[key] = None
        elif found != key:
            self._sets[name] = {found: None, key: None}

    def discard(self, name: G, key: K) -> None:
        found = self._sets.get(name)
        if isinstance(found, dict):
            found.pop(key, None)
            if not found:
                del self._sets[name]
        elif found == key:
            del self._sets[name]


def awaited(decision: BlockedDecision) -> Collection[WakeOn]:
    """Return what a blocked finding waits for, besides the time that its decision names."""
    if isinstance(decision, Refuse):
        return decision.wake_on
    return (WakeOnPod(decision.finding.pod.uid),)
