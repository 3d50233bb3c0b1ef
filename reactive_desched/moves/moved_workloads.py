"""Counts the moves of each workload in the last day, for metrics of those that moved most.

A metric by workload would have as many series as the cluster has workloads: only those that are
moved most have one, and one that is passed by others loses it.
"""

from collections import deque
from collections.abc import Iterator
from heapq import nlargest
from typing import Final

from reactive_desched.ledger.eviction import Eviction, owner_of
from reactive_desched.ledger.participant import EvictionParticipant
from reactive_desched.model.decisions import Defer, Refuse
from reactive_desched.model.evaluation import DecisionContext
from reactive_desched.model.moves import MoveOwner
from reactive_desched.model.outcomes import Outcome
from reactive_desched.policy.settings.moves import MoveSettings
from reactive_desched.primitives.bounded_text import bounded_name
from reactive_desched.telemetry.metrics import Metric, counter, gauge

DAY_S: Final = 24 * 3600.0
"""For so long a move counts."""

MAX_MOVES: Final = 20_000
"""So many moves are counted; beyond that the oldest is forgotten."""

MAX_REASONS: Final = 20
"""So many reasons are counted for each workload; further ones together, as `OTHER_REASONS`."""

OTHER_REASONS: Final = "(other)"

WORKLOAD_MOVES: Final = gauge(
    "workload_moves",
    "Pods of a workload that were evicted in the last day, of the `moves.workloadsInMetrics` "
    "workloads that had most; also those that earlier processes evicted, as far as the journal "
    "has them. Bare pods, pods that had ended, and those of a dry run do not count.",
    *("workload_namespace", "workload_kind", "workload"),
)
WORKLOAD_BLOCKED: Final = counter(
    "workload_blocked",
    "Decisions of this process that refused or deferred a pod of the workloads in "
    "`workload_moves`, by reason, since the first of the moves that count there.",
    *("workload_namespace", "workload_kind", "workload", "reason"),
)

_Workload = tuple[str, str, str]
"""Its namespace, kind and name, cut to a length."""

_BARE_POD: Final = "Pod"


class MovedWorkloads(EvictionParticipant):
    """The moves of the last day by workload; times are monotonic seconds.

    A bare pod, and one that had ended, is of no workload.
    """

    name = "MovedWorkloads"

    def __init__(self, settings: MoveSettings) -> None:
        self._settings = settings
        self._moves: deque[tuple[float, _Workload]] = deque()  # oldest first
        self._counts: dict[_Workload, int] = {}
        self._names: dict[_Workload, _Workload] = {}  # one for all moves of a workload
        self._blocked: dict[_Workload, dict[str, int]] = {}

    def reconfigure(self, settings: MoveSettings) -> None:
        """Apply other settings."""
        self._settings = settings

    def collect(self, now: float) -> Iterator[Metric]:
        """Yield the moves of those that moved most, and what blocked the same ones.

        Of workloads with as many moves, those come first that have been counted for longest: so
        a series is not taken from one by another that has no more.
        """
        self._forget(now)
        count_of = self._counts.__getitem__
        most = nlargest(self._settings.workloads_in_metrics, self._counts, key=count_of)
        yield WORKLOAD_MOVES.by_labels({each: self._counts[each] for each in most})
        yield WORKLOAD_BLOCKED.by_labels(
            {
                (*each, reason): count
                for each in most
                for reason, count in self._blocked.get(each, {}).items()
            }
        )

    def ended(self, eviction: Eviction, outcome: Outcome) -> None:
        """Count a pod that was evicted."""
        del outcome
        self._count(eviction)

    def restored(self, eviction: Eviction, now: float) -> None:
        """Count a pod that an earlier process evicted."""
        del now
        self._count(eviction)

    def count_blocked(self, context: DecisionContext, decision: Defer | Refuse) -> None:
        """Count a decision against moving a pod of a workload that was moved."""
        workload = _workload_of(owner_of(context.finding.pod, context.owners))
        if workload not in self._counts:
            return
        reasons, reason = self._blocked.setdefault(workload, {}), decision.reason
        if reason not in reasons and len(reasons) >= MAX_REASONS:
            reason = OTHER_REASONS
        reasons[reason] = reasons.get(reason, 0) + 1

    def _count(self, eviction: Eviction) -> None:
        owner, at = eviction.origin.owner, eviction.accepted_at
        if at is None or eviction.is_clean_up or owner.kind == _BARE_POD:
            return
        workload = _workload_of(owner)
        self._forget(at)
        if len(self._moves) >= MAX_MOVES:
            self._drop_oldest()
        workload = self._names.setdefault(workload, workload)
        self._moves.append((at, workload))
        self._counts[workload] = self._counts.get(workload, 0) + 1

    def _forget(self, now: float) -> None:
        while self._moves and self._moves[0][0] <= now - DAY_S:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        _, workload = self._moves.popleft()
        self._counts[workload] -= 1
        if not self._counts[workload]:
            del self._counts[workload], self._names[workload]
            self._blocked.pop(workload, None)


def _workload_of(owner: MoveOwner) -> _Workload:
    return bounded_name(owner.namespace), bounded_name(owner.kind), bounded_name(owner.name)
