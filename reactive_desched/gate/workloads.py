"""Answers the guards' questions about a workload: size, rollout, Ready pods, pods that are moving.

The size and the rollout come from the Deployment or StatefulSet. Where there is none that is known,
such as for a custom controller, the pods that are there stand for the size.
"""

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, TypeVar

from msgspec import Struct

from reactive_desched.gate.named_budgets import NAMED_BUDGET_SPENT
from reactive_desched.gate.policy_limits import PLUGIN_NODE_LIMIT_REACHED
from reactive_desched.gate.rate_limits import RATE_LIMITED
from reactive_desched.gate.schedules import SCHEDULE_GATE
from reactive_desched.ledger.eviction import OWNER, SINGLE, Eviction
from reactive_desched.ledger.ledger import EvictionLedger
from reactive_desched.ledger.participant import EvictionParticipant
from reactive_desched.model.decisions import EVICTION_LIMIT_GATE, TURN_COMES_S, Defer, Refuse
from reactive_desched.model.moves import NOT_REPLACED, MoveEnd, key_of_owner
from reactive_desched.model.objects import (
    OwnerReference,
    Pod,
    PodKey,
    controller_of,
)
from reactive_desched.model.pod_importance import STATEFUL_SET, ordinal_of
from reactive_desched.moves.limits import TOO_MANY_MOVING
from reactive_desched.policy.settings.guards import GuardName
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.owners import OwnerIndex, ReplicaSetsByOwner
from reactive_desched.state.indexes.workload_pods import WorkloadPods
from reactive_desched.text.counts import format_count
from reactive_desched.text.times import format_time_seen_at

WITHOUT_REPLICAS: Final = frozenset({"Job", "DaemonSet", "Node"})
"""The controllers whose pods do not stand in for each other."""

GATHER_S: Final = 1.0
"""How long the first pod of a StatefulSet with a finding waits for findings on others."""

TURN_S: Final = 5.0
"""How long a pod waits for one of a higher ordinal that has a finding, too, and is not evicted."""

SINGLE_TIMEOUT_S: Final = 300.0
"""How long a single-replica workload without a Ready pod holds up others of its namespace."""

SINGLE_RECHECK_S: Final = 10.0
"""How often a single-replica workload is looked at again that was moved: the Ready pod of a
template that is newer than the wait wakes nothing."""

SETTLE_S: Final = 60.0
"""How long a pod that was restarted several times must be Ready again to count as Ready: one that
fails again and again is so for moments in between."""

ABSENT_RECHECK_S: Final = 60.0
"""How often a workload is looked at again that has fewer pods than it wants: whether they were
missing all the time, no change says."""

MAX_REMEMBERED: Final = 10_000
"""So many StatefulSets and controllers are remembered each; then the oldest goes."""

_LIMITS: Final = frozenset(
    {
        PLUGIN_NODE_LIMIT_REACHED.gate,
        EVICTION_LIMIT_GATE,
        NAMED_BUDGET_SPENT.gate,
        RATE_LIMITED.gate,
        SCHEDULE_GATE,
        TOO_MANY_MOVING.gate,
    }
)
"""The gates that make a pod wait and say nothing against its eviction."""

T = TypeVar("T")


class WorkloadState(Struct, frozen=True):
    """A pod's workload as it is now.

    `owner` is the topmost controller and `controllers` are those whose pods count: the pod's own
    one first, and the other ReplicaSets of a Deployment where that has too few pods for it, as in
    the middle of a rollout that is paused. All are of the pod's `namespace`. `wanted` is None where
    it is not known. `moving` counts the owner's pods that were evicted and are not replaced yet,
    and `leaving` names those whose eviction was decided and that the watch still shows unchanged.
    """

    namespace: str
    owner: OwnerReference
    controllers: tuple[str, ...]
    wanted: int | None
    rollout: str
    ready: int
    unready: int
    moving: int
    leaving: tuple[PodKey, ...]

    @property
    def controller_uid(self) -> str:
        """Return the uid of the pod's own controller."""
        return self.controllers[0]

    @property
    def key(self) -> str:
        """Return the key of its topmost controller, as of a `MoveOwner`."""
        return key_of_owner(self.namespace, self.owner.uid)

    @property
    def missing(self) -> int:
        """Return how many Ready pods it lacks."""
        return self.unready if self.wanted is None else self.wanted - self.ready

    @property
    def is_stateful_set(self) -> bool:
        """Say whether its pods leave in order."""
        return self.owner.kind == STATEFUL_SET


class Shortfall(NamedTuple):
    """The number of pods that a workload lacks, and of those that have been missing too long.

    `wait_s` is in how many seconds one more may count as lost, None where none will; `missing`
    names one that is missing, for people; `is_there` says that it is there, and not Ready.
    """

    lost: int
    wait_s: float | None
    missing: str
    is_there: bool


class _Round:
    """The pods of one StatefulSet that had a finding within a few seconds, by ordinal.

    `stay` are those that other gates kept when their turn came, in this round or the one before:
    no other pod waits for them.
    """

    __slots__ = ("began_at", "ordinals", "stay")

    def __init__(self, began_at: float, stay: set[PodKey]) -> None:
        self.began_at = began_at
        self.ordinals: dict[PodKey, int] = {}
        self.stay = stay

    def copy(self) -> "_Round":
        """Return a round of the same pods, in which others may be counted."""
        copied = _Round(self.began_at, set(self.stay))
        copied.ordinals = dict(self.ordinals)
        return copied


class _Absence(NamedTuple):
    """The time since when a workload has had too few pods, and when that was last seen."""

    since: float
    seen_at: float


class _KeptTurn(NamedTuple):
    """A pod of a StatefulSet that waits for a limit until a monotonic time."""

    ordinal: int
    until: float


class OrdinalTurn(Struct, frozen=True, gc=False):
    """For how long a pod of a StatefulSet waits, 0 for one whose turn it is.

    `first` is the ordinal that leaves before it; None while it is not known which is the highest.
    """

    wait_s: float
    first: int | None = None


class Workloads(EvictionParticipant):
    """Answers about the workloads of pods; times are monotonic.

    Whose pods are leaving it finds in the ledger. `is_resyncing` says that a look at everything is
    under way: pods of higher ordinals may be found yet.
    """

    indexes = (OwnerIndex, ReplicaSetsByOwner, WorkloadPods)

    def __init__(
        self,
        view: ClusterView,
        ledger: EvictionLedger,
        clock: Callable[[], float],
    ) -> None:
        self._view = view
        self._ledger = ledger
        self._clock = clock
        self.is_resyncing = False
        self._rounds: OrderedDict[str, _Round] = OrderedDict()
        self._kept_turns: OrderedDict[str, dict[PodKey, _KeptTurn]] = OrderedDict()
        self._absences: OrderedDict[str, _Absence] = OrderedDict()
        self._unreplaced: OrderedDict[str, None] = (
            OrderedDict()
        )  # owners that made no pod for an evicted one

    def follow_resync(self, *, under_way: bool) -> None:
        """Record whether a resync is running: a lower ordinal may be found yet."""
        self.is_resyncing = under_way

    def of(self, pod: Pod) -> WorkloadState | None:
        """Return the workload of a pod; None for one without replicas, such as a Job's."""
        own = controller_of(pod.owners)
        if own is None or own.kind in WITHOUT_REPLICAS:
            return None
        owner = self._view.index(OwnerIndex).chain(pod)[-1]
        known, pods = self._view.workload(owner.uid), self._view.index(WorkloadPods)
        controllers: tuple[str, ...] = (own.uid,)
        own_pods = pods.count(pod.namespace, own.uid)
        if known is not None and owner.uid != own.uid and own_pods < known.replicas:
            others = self._view.index(ReplicaSetsByOwner).of(owner.uid)
            controllers = (own.uid, *(each for each in others if each != own.uid))
        ready = sum(pods.ready(pod.namespace, each) for each in controllers)
        unready = sum(pods.unready(pod.namespace, each) for each in controllers)
        key, now = key_of_owner(pod.namespace, owner.uid), self._clock()
        if known is None or ready + unready >= known.replicas:
            self._unreplaced.pop(key, None)
        return WorkloadState(
            pod.namespace,
            owner,
            controllers,
            None if known is None else known.replicas,
            "" if known is None else known.rollout,
            ready,
            unready,
            len(self._ledger.moving_in((OWNER, key))),
            tuple(uid for each in controllers for uid in self._ledger.unseen(key, each, now)),
        )

    def unsteady(self, workload: WorkloadState) -> tuple[str, int, float]:
        """Return the Ready pods that may fail again at once: one, how many, and for how long."""
        of = partial(self._view.index(WorkloadPods).unsteady_pods, workload.namespace)
        if not (uids := [uid for each in workload.controllers for uid in of(each)]):
            return "", 0, 0.0
        since_s = self._view.now_s - SETTLE_S
        found = [
            (pod.ready_since_s - since_s, str(pod))
            for pod in filter(None, map(self._view.pod, uids))
            if pod.ready_since_s is not None and pod.ready_since_s > since_s
        ]
        left_s, name = max(found, default=(0.0, ""))
        return name, len(found), left_s

    def shortfall(self, workload: WorkloadState, timeout_s: float) -> Shortfall:
        """Return which of the pods that a workload lacks are lost: missing for so many seconds.

        With a timeout of zero none ever is; neither is what is missing altogether where no pod was
        created for one that was evicted: none would be for the next one.
        """
        now_s, uid = self._view.now_s, workload.controller_uid
        of = partial(self._view.index(WorkloadPods).unready_pods, workload.namespace)
        unready_pods = (uid for each in workload.controllers for uid in of(each))
        unready = filter(None, map(self._view.pod, unready_pods))
        missing = [
            (now_s - (pod.unready_since_s or 0), 1, f"{pod} is not Ready", True) for pod in unready
        ]
        absent = 0 if workload.wanted is None else workload.missing - workload.unready
        absent_s = self._absent_s(uid, absent)
        is_unreplaced = absent > 0 and workload.key in self._unreplaced
        if absent > 0:
            pods = format_count(absent, "pod", "is", "are")
            missing.append((absent_s, absent, f"{pods} missing altogether", False))
        missing.sort(reverse=True)  # those that have been missing for longest come first
        counted = [each for each in missing if timeout_s and (each[3] or not is_unreplaced)]
        lost = [each for each in counted if each[0] >= timeout_s]
        waits = counted[len(lost) :]
        wait_s = None
        if waits:
            wait_s = timeout_s - waits[0][0]
            is_rechecked = absent > 0 and absent_s < timeout_s and not is_unreplaced
            wait_s = min(wait_s, ABSENT_RECHECK_S) if is_rechecked else wait_s
        age_s, _, words, is_there = (waits or missing or [(0.0, 0, "", False)])[0]
        text = f"{words} since {format_time_seen_at(now_s - age_s, now_s)}" if words else ""
        if is_unreplaced and not is_there:
            text += ", and none was created for an evicted one"
        return Shortfall(sum(each[1] for each in lost), wait_s, text, is_there)

    def _absent_s(self, controller_uid: str, absent: int) -> float:
        """Return for how long a workload has been seen with fewer pods than it wants, at least."""
        if absent <= 0:
            if not self._view.is_questioned:
                self._absences.pop(controller_uid, None)
            return 0.0
        now, seen = self._clock(), self._absences.get(controller_uid)
        is_on = seen is not None and now - seen.seen_at <= 2 * ABSENT_RECHECK_S
        since = seen.since if seen is not None and is_on else now
        if not self._view.is_questioned:
            _put(self._absences, controller_uid, _Absence(since, now))
        return max(now - since, 0.001)

    def in_flight(self, pod: Pod) -> tuple[PodKey, ...]:
        """Return the pods of a pod's controller that leave, and do not yet in the cluster state."""
        if (own := controller_of(pod.owners)) is None:
            return ()
        owner = self._view.index(OwnerIndex).chain(pod)[-1]
        return self._ledger.unseen(key_of_owner(pod.namespace, owner.uid), own.uid, self._clock())

    def leaves(self, pod: PodKey) -> bool:
        """Say whether the eviction of a pod has begun and is not over."""
        return self._ledger.current(pod) is not None

    def turn_within_s(self, owner_key: str) -> float:
        """Return for how long moves of a topmost controller are likely to end soon."""
        return self._ledger.turn_within_s((OWNER, owner_key))

    def turn_of(self, pod: Pod, workload: WorkloadState) -> OrdinalTurn:
        """Return for how long a pod of a StatefulSet waits for its turn, and for which ordinal.

        The first finding begins a round, in which others are gathered; the highest goes first. A
        higher one that other gates keep holds up the lower ones for one round only, but one that
        waits for a limit alone, for as long as it waits. While everything is looked at, as after a
        start, the gathering does not end.
        """
        uid, now = workload.controller_uid, self._clock()
        ordinal, kept = ordinal_of(pod), self._turns_kept(uid, now)
        higher = [each for each in kept.values() if each.ordinal > ordinal]
        if (until := max((each.until for each in higher), default=now)) > now:
            return OrdinalTurn(until - now, max(each.ordinal for each in higher))
        current = self._rounds.get(uid)
        if current is None or (now - current.began_at >= TURN_S and not self.is_resyncing):
            stay = set() if current is None else current.stay & current.ordinals.keys()
            current = _Round(now, stay)
            if not self._view.is_questioned:
                self._rounds.pop(uid, None)
                _put(self._rounds, uid, current)
        elif self._view.is_questioned:
            current = current.copy()
        if self.is_resyncing:
            current.began_at = now
        current.ordinals[pod.uid] = ordinal
        if (gathering_s := current.began_at + GATHER_S - now) > 0 and pod.uid not in kept:
            return OrdinalTurn(gathering_s)
        leaving = current.ordinals.keys() - current.stay
        there = (current.ordinals[key] for key in leaving if self._view.pod(key))
        highest = max(there, default=0)
        if ordinal < highest:
            return OrdinalTurn(current.began_at + TURN_S - now, highest)
        current.stay.discard(pod.uid)
        return OrdinalTurn(0.0, highest)

    def blocked(self, decision: Defer | Refuse) -> None:
        """Let a pod of a StatefulSet that waits for a limit alone go before lower ordinals.

        It does until it was evaluated again, also where it need not leave any more by then. One
        that another gate keeps though it is its turn holds up none.
        """
        pod, until = decision.finding.pod, decision.retry_at_s
        own = controller_of(pod.owners)
        if own is None or own.kind != STATEFUL_SET:
            return
        if decision.gate in _LIMITS:
            if until is not None:
                kept = _put(self._kept_turns, own.uid, self._kept_turns.get(own.uid, {}))
                kept[pod.uid] = _KeptTurn(ordinal_of(pod), until + TURN_S)
        elif decision.gate != GuardName.STATEFUL_SET_ORDER and not decision.turn:
            current = self._rounds.get(own.uid)
            if current is not None and pod.uid in current.ordinals:
                current.stay.add(pod.uid)

    def followed_up(self, eviction: Eviction, end: MoveEnd) -> None:
        """Remember the owner that created no pod for an evicted one, though it wants one."""
        if end.result == NOT_REPLACED and not end.is_expected:
            self._remember_unreplaced(eviction)

    def restored(self, eviction: Eviction, now: float) -> None:
        """Remember the same of an earlier process's eviction; a workload that is whole ends it."""
        del now
        follow_up = None if eviction.past is None else eviction.past.follow_up
        if follow_up is not None and follow_up.result == NOT_REPLACED:
            self._remember_unreplaced(eviction)

    def _remember_unreplaced(self, eviction: Eviction) -> None:
        if eviction.match_key is not None:
            _put(self._unreplaced, eviction.origin.owner.key, None)

    def _turns_kept(self, controller_uid: str, now: float) -> dict[PodKey, _KeptTurn]:
        """Return the pods of a StatefulSet that wait for a limit, and are still there."""
        if not (kept := self._kept_turns.get(controller_uid)):
            return {}
        for uid, turn in list(kept.items()):
            if turn.until <= now or self._view.pod(uid) is None:
                del kept[uid]
        return kept

    def single_before(self, pod: Pod, workload: WorkloadState) -> tuple[Eviction, float] | None:
        """Return the eviction from a single-replica workload that a pod waits for, and how long.

        It is of another workload of the namespace, which has no Ready pod yet.
        """
        now, scope = self._clock(), (SINGLE, pod.namespace)
        for eviction in self._ledger.leaving_in(scope):
            if self._is_over(eviction, now) or self._is_back(eviction, now):
                self._ledger.leave(scope, eviction)
            elif eviction.origin.owner.key != workload.key:
                until = eviction.decided_at + SINGLE_TIMEOUT_S
                return eviction, min(until - now, SINGLE_RECHECK_S)
        return None

    def began_lately(self, eviction: Eviction) -> bool:
        """Say whether a single replica was evicted so lately that it is Ready again soon."""
        return self._clock() < eviction.decided_at + TURN_COMES_S

    def controllers_of(self, owner_uid: str) -> tuple[str, ...]:
        """Return what may control the pods of a workload: itself, and its ReplicaSets."""
        return owner_uid, *self._view.index(ReplicaSetsByOwner).of(owner_uid)

    def asks_for(self, eviction: Eviction) -> bool:
        """Say whether other workloads of a single replica may wait for this one still.

        That the eviction is over says nothing: it may have been given up, and the workload be down.
        """
        return eviction.is_single and not self._is_over(eviction, self._clock())

    @staticmethod
    def _is_over(eviction: Eviction, now: float) -> bool:
        """Say whether nothing waits any longer for the pod of a workload."""
        return now >= eviction.decided_at + SINGLE_TIMEOUT_S

    def _is_back(self, eviction: Eviction, now: float) -> bool:
        """Say whether a single-replica workload has a Ready pod again, or is none any more.

        That may be one of another template by now.
        """
        owner = eviction.origin.owner
        pods = self._view.index(WorkloadPods)
        known = self._view.workload(owner.uid)
        if known is None or known.replicas != 1:
            return True
        controllers = self.controllers_of(owner.uid)
        if any(self._ledger.unseen(owner.key, each, now) for each in controllers):
            return False
        return any(pods.ready(owner.namespace, each) for each in controllers)


def _put(remembered: OrderedDict[str, T], key: str, value: T) -> T:
    """Remember a value, and drop the oldest at the bound; return what is remembered of the key."""
    if key not in remembered and len(remembered) >= MAX_REMEMBERED:
        remembered.popitem(last=False)
    remembered[key] = value
    return value
