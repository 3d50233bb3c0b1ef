"""Remembers moves whose replacements do not come up, whichever workloads they are of.

What fails then is seldom a workload's own: a quota is used up, an admission webhook does not
answer, the image registry is down. Each further eviction would cost one more workload a pod.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from reactive_desched.ledger.eviction import Eviction
from reactive_desched.model.decisions import GateReason, Refuse, WaitEnd
from reactive_desched.model.findings import Finding
from reactive_desched.model.moves import MOVED, NOT_FOLLOWED, RETURNED, MoveEnd
from reactive_desched.model.pod_importance import STATEFUL_SET
from reactive_desched.moves.node_memory import MAX_REST_S, MEMORY_GATE
from reactive_desched.policy.settings.moves import MoveSettings
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.owners import ReplicaSetsByOwner
from reactive_desched.state.indexes.workload_pods import WorkloadPods

CREATED_WITHIN_S: Final = 20.0
"""So long after an evicted pod is gone its controller has made another one, if it can."""

READY_WITHIN_S: Final = 120.0
"""So long a replacement has to become Ready, or twice as long as the evicted pod took."""

WORKLOADS_OF_NAMESPACE: Final = 2
NAMESPACES: Final = 3
"""Failing moves of so many workloads hold their namespace, and in so many namespaces all."""

MAX_MOVES: Final = 50
MAX_NAMESPACES: Final = 200
"""So many moves of so many namespaces are remembered; beyond that the oldest are forgotten."""

RECHECK_S: Final = 60.0
"""How often is looked at whether a workload whose pod did not come up is whole after all."""

MAX_NAMED: Final = 3

REPLACEMENTS_FAIL: Final = GateReason(
    MEMORY_GATE,
    "ReplacementsFail",
    "The evicted pods of two workloads of the namespace, or of workloads of three namespaces, have "
    "no Ready replacement after two minutes, and none came up since: what fails is not their own. "
    "One more pod is evicted after `moves.readyTimeout`, twice as long each time.",
    "moves.readyTimeout",
)

_ENDED_WELL: Final = frozenset({MOVED, RETURNED})


class _Row:
    """The moves of a namespace since one succeeded, in the order of their evictions."""

    __slots__ = ("moves", "succeeded_at")

    def __init__(self) -> None:
        self.moves: OrderedDict[str, Eviction] = OrderedDict()
        self.succeeded_at = float("-inf")


class FailingMoves:
    """The rule that holds Ready pods while replacements do not come up; times are monotonic."""

    indexes = (WorkloadPods, ReplicaSetsByOwner)

    def __init__(self, view: ClusterView, settings: MoveSettings) -> None:
        self._view = view
        self._settings = settings
        self._rows: OrderedDict[str, _Row] = OrderedDict()

    def reconfigure(self, settings: MoveSettings) -> None:
        """Apply other settings."""
        self._settings = settings

    def clear(self) -> None:
        """Forget which replacements did not come up."""
        self._rows.clear()

    # --- what happens ---

    def decided(self, eviction: Eviction) -> None:
        """Follow a move from the decision on: of several pods at once one is tried."""
        namespace = eviction.origin.owner.namespace
        row = self._rows.pop(namespace, None) or _Row()
        self._rows[namespace] = row
        row.moves[eviction.pod_uid] = eviction
        if len(row.moves) > MAX_MOVES:
            row.moves.popitem(last=False)
        if len(self._rows) > MAX_NAMESPACES:
            self._rows.popitem(last=False)

    def refused(self, eviction: Eviction) -> None:
        """Forget an eviction that did not happen."""
        if (row := self._rows.get(eviction.origin.owner.namespace)) is not None:
            row.moves.pop(eviction.pod_uid, None)

    def followed_up(self, eviction: Eviction, end: MoveEnd, now: float) -> None:
        """Note how a move ended; one whose replacement is Ready ends the row."""
        if (row := self._rows.get(eviction.origin.owner.namespace)) is None:
            return
        if end.result in _ENDED_WELL:
            self._succeed(row, eviction, now)
        elif end.is_expected or end.result == NOT_FOLLOWED:
            row.moves.pop(eviction.pod_uid, None)

    @staticmethod
    def _succeed(row: _Row, eviction: Eviction, now: float) -> None:
        """Keep the moves under way alone: these have their time again from now on."""
        row.succeeded_at = now
        row.moves.pop(eviction.pod_uid, None)
        for uid in [uid for uid, each in row.moves.items() if each.followed_up_at is not None]:
            del row.moves[uid]

    # --- the rule ---

    def check(self, finding: Finding, now: float) -> Refuse | None:
        """Hold a Ready pod where the last replacements did not come up, but for one now and then.

        A pod that is not Ready may leave: it does no work.
        """
        pod = finding.pod
        if not self._rows or finding.is_companion or not pod.status.is_ready:
            return None
        failing, where = self._failing(pod.namespace, now), f"namespace {pod.namespace}"
        rows = [self._rows[pod.namespace]] if failing else []
        if len({each.origin.owner.key for each in failing}) < WORKLOADS_OF_NAMESPACE:
            found = {each: self._failing(each, now) for each in tuple(self._rows)}
            if sum(map(bool, found.values())) < NAMESPACES:
                return None
            failing = [move for moves in found.values() for move in moves]
            failing.sort(key=_decided_at)
            where, rows = "several namespaces", [self._rows[each] for each in found if found[each]]
        until = self._rests_until(failing[0], rows)
        if now >= until:
            return None
        message = (
            f"the last pods that were evicted from {where} have no Ready replacement: "
            f"{self._named(failing)}; `reactive-desched eviction-loops clear --all` lets others go"
        )
        refusal = REPLACEMENTS_FAIL.refuse(finding, message, (), min(until, now + RECHECK_S))
        return refusal.ending(WaitEnd("; one more pod is evicted", until))

    def _rests_until(self, first: Eviction, rows: Sequence[_Row]) -> float:
        """Return until when no other pod is evicted: longer after each that was tried since."""
        known_at = first.decided_at + READY_WITHIN_S
        decided = [each.decided_at for row in rows for each in row.moves.values()]
        tried = sum(1 for each in decided if each > known_at)
        return max(decided) + min(
            MAX_REST_S, self._settings.ready_timeout_s * 2.0 ** min(30, tried)
        )

    def _failing(self, namespace: str, now: float) -> list[Eviction]:
        """Return the moves of a namespace whose replacements are overdue or did not come up.

        A workload that has all its pods is whole again, and one that is gone wants none.
        """
        if (row := self._rows.get(namespace)) is None:
            return []
        failing = []
        for move in tuple(row.moves.values()):
            if not self._is_failing(move, row.succeeded_at, now):
                continue
            if (is_whole := self._is_whole(move)) is None:
                del row.moves[move.pod_uid]
            elif is_whole:
                self._succeed(row, move, now)
                return []
            else:
                failing.append(move)
        return failing

    @staticmethod
    def _is_failing(move: Eviction, succeeded_at: float, now: float) -> bool:
        if move.followed_up_at is not None:
            return True  # those that ended well are not kept
        if move.gone_at is None or move.ready_at is not None:
            return False
        since = max(move.gone_at, succeeded_at)
        if move.replacement is None:
            return now >= since + CREATED_WITHIN_S
        took_s, pod = 0, move.pod
        if pod is not None and pod.ready_since_s is not None:
            took_s = pod.ready_since_s - pod.created_s
        return now >= since + max(READY_WITHIN_S, 2 * took_s)

    def _is_whole(self, move: Eviction) -> bool | None:
        """Say whether a workload has its Ready pods again; None where it wants none any more."""
        owner, pods = move.origin.owner, self._view.index(WorkloadPods)
        controllers = owner.uid, *self._view.index(ReplicaSetsByOwner).of(owner.uid)
        ready = sum(pods.ready(owner.namespace, each) for each in controllers)
        if (workload := self._view.workload(owner.uid)) is None:
            return None if owner.kind in ("Deployment", STATEFUL_SET) else False
        return ready >= workload.replicas

    def _named(self, failing: Sequence[Eviction]) -> str:
        latest = {each.origin.owner.key: each for each in failing}
        said = [_why(each) for each in latest.values()]
        more = f", and {len(said) - MAX_NAMED} more" if len(said) > MAX_NAMED else ""
        return ", ".join(said[:MAX_NAMED]) + more


def _decided_at(move: Eviction) -> float:
    return move.decided_at


def _why(move: Eviction) -> str:
    """Say what a person looks at to find out why a replacement did not come up."""
    owner = move.origin.owner
    if move.replacement is None:
        command = f"kubectl describe {owner.kind.lower()} -n {owner.namespace} {owner.name}"
        return f"{owner.title} created none (`{command}`)"
    return f"{move.replacement} of {owner.title} is not Ready"
