"""Limits how many pods move at once, by owner, namespace, node, zone and cluster."""

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Final

from reactive_desched.ledger.eviction import ScopeKey, moving_scopes, owner_of
from reactive_desched.ledger.ledger import EvictionLedger
from reactive_desched.model.changes import Change
from reactive_desched.model.decisions import GateReason, Refuse, WaitEnd
from reactive_desched.model.findings import Finding
from reactive_desched.model.moves import MoveOwner
from reactive_desched.model.objects import OwnerReference, Pod
from reactive_desched.model.wakes import ChangeTypes, WakeOn, WakeOnPod
from reactive_desched.moves.memory import MoveMemory
from reactive_desched.moves.tracker import MoveTracker
from reactive_desched.policy.settings.moves import MoveSettings
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.owners import OwnerIndex
from reactive_desched.state.indexes.workload_pods import WorkloadPods
from reactive_desched.text.counts import agree, format_count

TOO_MANY_MOVING: Final = GateReason(
    "MaxMoving",
    "TooManyMoving",
    "As many pods of the owner, namespace, node, zone or cluster as `moves.maxMoving` allows are "
    "evicted and not yet replaced by a Ready pod.",
    "moves.maxMoving",
)

_EXHAUSTED: Final = {
    "owner": "",
    "namespace": "namespace",
    "node": "node",
    "zone": "node",
    "cluster": "cluster",
}
"""What a full scope means to a balance plugin, which goes by three kinds of scope."""


class MoveEnded(Change, frozen=True, gc=False):
    """A pod of this scope is moving no more: one more may be evicted."""

    scope: str
    name: str


class WakeOnMoveEnded(WakeOn, frozen=True, gc=False):
    """A move in a scope ends: its replacement is Ready, or was given up."""

    changes: ClassVar[ChangeTypes] = (MoveEnded,)
    scope: str
    name: str

    @property
    def description(self) -> str:
        """Return what is awaited, in words; an owner is named by its key, which says nothing."""
        of = {"owner": "of its workload", "cluster": "in the cluster"}
        return f"the end of a move {of.get(self.scope, f'in {self.scope} {self.name}')}"


class MovingLimits:
    """Refuses a pod while as many pods are moving in one of its scopes as the settings allow.

    Each limit that refuses remembers its scope, at most one for each name of a pod, node, zone or
    namespace, until a move in it ends; and when there is room at the latest, as that takes a look
    at every move in it. A node that the last moves did not relieve is relieved by one at a time.
    """

    name = TOO_MANY_MOVING.gate
    indexes = MoveTracker.indexes

    def __init__(
        self,
        view: ClusterView,
        ledger: EvictionLedger,
        tracker: MoveTracker,
        memory: MoveMemory,
        settings: MoveSettings,
    ) -> None:
        self._view = view
        self._ledger = ledger
        self._tracker = tracker
        self._memory = memory
        self._awaited: dict[ScopeKey, tuple[int, float]] = {}
        self.reconfigure(settings)

    def reconfigure(self, settings: MoveSettings) -> None:
        """Apply other limits; every blocked pod is evaluated again."""
        limits: dict[str, int | str | None] = dict(settings.max_moving)
        self.limits = {scope: limit for scope, limit in limits.items() if limit is not None}
        self._awaited.clear()

    def check(self, finding: Finding, now: float) -> Refuse | None:
        """Refuse the pod when one of its scopes has no room for another move."""
        if not len(self._ledger):
            return None  # a limit is 1 at least
        pod = finding.pod
        chain = self._view.index(OwnerIndex).chain(pod)
        owner = owner_of(pod, chain)
        for key in moving_scopes(owner, pod.node, self._view.zone(pod.node)):
            if not (count := len(self._ledger.moving_in(key))):
                continue
            if key[0] == "node" and self._memory.is_node_doubtful(finding, now):
                return self._refuse(finding, key, (count, 1), owner, now)
            if (limit := self.limits.get(key[0])) is None:
                continue
            if count >= (allowed := count_of(limit, self._pods_of(pod, chain))):
                return self._refuse(finding, key, (count, allowed), owner, now)
        return None

    def _pods_of(self, pod: Pod, chain: Sequence[OwnerReference]) -> int:
        """Return how many pods an owner wants, or where that is not known, has."""
        if not chain:
            return 1
        if (workload := self._view.workload(chain[-1].uid)) is not None:
            return workload.replicas
        return self._view.index(WorkloadPods).count(pod.namespace, chain[0].uid)

    def _room_at(self, key: ScopeKey, ends: int, now: float) -> float:
        """Return when so many moves of a full scope, which make room, have ended at the latest.

        It is worked out again after a move in the scope has ended, and when the time has come.
        """
        known = self._awaited.get(key)
        if known is None or known[0] != ends or known[1] <= now:
            known = ends, self._tracker.ended_by(key, ends, now)
            if not self._view.is_questioned:
                self._awaited[key] = known
        return known[1]

    def _refuse(
        self,
        finding: Finding,
        key: ScopeKey,
        use: tuple[int, int],
        owner: MoveOwner,
        now: float,
    ) -> Refuse:
        scope, name = key
        count, allowed = use
        room_at = self._room_at(key, count - allowed + 1, now)
        label = {"cluster": "the cluster", "owner": owner.title}.get(scope, f"{scope} {name}")
        doubtful = scope == "node" and self._memory.is_node_doubtful(finding, now)
        setting = f"{TOO_MANY_MOVING.setting}.{scope}"
        reason = "for a trial there may be" if doubtful else f"{setting} allows"
        message = (
            f"{format_count(count, 'pod')} of {label} {agree(count, 'is', 'are')} moving, and "
            f"{reason} {allowed}; there is room when a replacement is Ready"
        )
        wakes = (WakeOnMoveEnded(scope, name), WakeOnPod(finding.pod.uid))
        exhausted = _EXHAUSTED[scope]
        turn_s = self._ledger.turn_within_s(key) if scope == "owner" else 0.0
        refusal = TOO_MANY_MOVING.refuse(
            finding,
            message,
            wakes,
            min(room_at, now + turn_s) if turn_s else room_at,
            scope_exhausted=exhausted,
            setting=setting,
            turn=name if turn_s else "",
        )
        return refusal.ending(WaitEnd(", or", room_at, " at the latest"))

    def wakes(self, released: Iterable[ScopeKey]) -> Iterator[Change]:
        """Yield a change for each scope that has room again and was found full before."""
        for key in released:
            if key in self._awaited:
                del self._awaited[key]
                yield MoveEnded(*key)


def count_of(limit: int | str, pods: int) -> int:
    """Return a number of pods; of a percentage that share of `pods`, rounded down, at least 1."""
    if isinstance(limit, int):
        return limit
    return max(1, pods * int(limit.removesuffix("%")) // 100)
