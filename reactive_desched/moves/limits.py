"""How many pods may be moving at once, by owner, namespace, node, zone and cluster."""

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final, Self

from reactive_desched.model.changes import Change
from reactive_desched.model.decisions import GateReason, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import Pod
from reactive_desched.model.wakes import ChangeTypes, WakeOn, WakeOnPod
from reactive_desched.moves.move import ScopeKey, owner_of, scopes_of
from reactive_desched.moves.tracker import MoveTracker
from reactive_desched.policy.moves import MaxMovingSettings, MoveSettings, count_of
from reactive_desched.state.indexes.owners import OwnerIndex, ReplicaCounts
from reactive_desched.state.view import ClusterView

TOO_MANY_MOVING: Final = GateReason(
    "MaxMoving",
    "TooManyMoving",
    "As many pods of the owner, namespace, node, zone or cluster as `moves.maxMoving` allows are "
    "evicted and not yet replaced by a Ready pod.",
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

    @classmethod
    def fulfilled_by(cls, change: Any) -> Self:  # a MoveEnded
        """Return the wake of the scope."""
        return cls(change.scope, change.name)


class MovingLimits:
    """Refuses a pod while as many pods are moving in one of its scopes as the settings allow.

    Each limit that refuses remembers its scope, at most one for each name of a pod, node, zone or
    namespace, until a move in it ends.
    """

    name = TOO_MANY_MOVING.gate
    indexes = (OwnerIndex, ReplicaCounts)

    def __init__(self, view: ClusterView, tracker: MoveTracker, settings: MoveSettings) -> None:
        self._view = view
        self._tracker = tracker
        self._limits: MaxMovingSettings = settings.max_moving
        self._timeout_s = settings.ready_timeout_s
        self._awaited: set[ScopeKey] = set()

    def reconfigure(self, settings: MoveSettings) -> None:
        """Apply other limits; every blocked pod is evaluated again."""
        self._limits, self._timeout_s = settings.max_moving, settings.ready_timeout_s
        self._awaited.clear()

    def check(self, finding: Finding, _: float) -> Refuse | None:
        """Refuse the pod when one of its scopes has no room for another move."""
        for key, limit, label in self._limits_of(finding.pod):
            if (moving := self._tracker.moving[key]) >= limit:
                self._awaited.add(key)
                pods = "pod is" if moving == 1 else "pods are"
                message = (
                    f"{moving} {pods} moving in {label}, and moves.maxMoving allows {limit}; there "
                    f"is room when a replacement is Ready, or after {self._timeout_s:g} s"
                )
                wakes = (WakeOnMoveEnded(*key), WakeOnPod(finding.pod.uid))
                exhausted = _EXHAUSTED[key[0]]
                return TOO_MANY_MOVING.refuse(finding, message, wakes, scope_exhausted=exhausted)
        return None

    def wakes(self, released: Iterable[ScopeKey]) -> Iterator[Change]:
        """Yield a change for each scope that has room again and was found full before."""
        for key in released:
            if key in self._awaited:
                self._awaited.discard(key)
                yield MoveEnded(*key)

    def _limits_of(self, pod: Pod) -> Iterator[tuple[ScopeKey, int, str]]:
        """Yield each limited scope of a pod, its limit, and how people call it."""
        chain = self._view.index(OwnerIndex).chain(pod)
        owner = owner_of(pod, chain)
        for key in scopes_of(owner, pod.node, self._view.zone(pod.node)):
            scope, name = key
            limit = getattr(self._limits, scope)
            if limit is None:
                continue
            if scope == "owner":
                pods = self._view.index(ReplicaCounts).count(chain[0].uid) if chain else 1
                yield key, count_of(limit, pods), f"owner {owner}"
            else:
                yield key, limit, "the cluster" if scope == "cluster" else f"{scope} {name}"
