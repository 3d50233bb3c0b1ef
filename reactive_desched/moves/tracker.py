"""Follows each eviction to its end: evicted pod gone, replacement created, bound, Ready.

It is synchronous and reads no clock: the time comes in as monotonic seconds. What it finds out is
taken by the controller: moves that ended, and scopes in which fewer pods are moving.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import nsmallest
from typing import Any, Final

from reactive_desched.api.balance_plugin import BalancePlugin
from reactive_desched.ledger.eviction import (
    CLOCK_SKEW_S,
    Eviction,
    MatchKey,
    ScopeKey,
    match_key_of,
)
from reactive_desched.ledger.ledger import EvictionLedger
from reactive_desched.ledger.participant import EvictionParticipant
from reactive_desched.model.changes import (
    Change,
    CompletedPodDeleted,
    PendingPodAdded,
    PendingPodDeleted,
    PodBound,
    PodGone,
    PodStatusChanged,
)
from reactive_desched.model.findings import Finding
from reactive_desched.model.moves import (
    MOVED,
    NOT_FOLLOWED,
    NOT_READY,
    NOT_REPLACED,
    OWNER_GONE,
    RETURNED,
    UNSCHEDULED,
    EndedMove,
    MovedPods,
    MoveEnd,
    MoveOwner,
)
from reactive_desched.model.objects import SUCCEEDED, Job, Pod, PodKey, ReplicaSet
from reactive_desched.model.outcomes import Outcome
from reactive_desched.model.plugin_faults import ask_plugin
from reactive_desched.moves.memory import MoveMemory
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.settings.guards import GuardName
from reactive_desched.primitives.timers import Timers
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.owners import OwnerIndex
from reactive_desched.state.indexes.workload_pods import WorkloadPods
from reactive_desched.telemetry.metrics import Histogram, Metric, counter, gauge, histogram

MAX_MOVES: Final = 20_000
"""So many moves are followed at once; beyond that the oldest is given up as not_followed."""

CREATION_TIMEOUT_S: Final = 60.0
"""An owner that created no pod so long after the evicted one was gone wants no other one, unless
it is known to have fewer than it wants."""

VERDICT_S: Final = 1.0
"""How long beyond the quiet time a plugin has to find the same of a replacement."""

MOVES = counter(
    "moves",
    "Evictions by what came of them, and by whether the finding ceased to hold: yes, no, or "
    "unknown. The share of yes is the share of moves that helped.",
    "result",
    "helped",
    "plugin",
)
MOVING = gauge("moving_pods", "Pods that are evicted and not yet replaced by a Ready pod.")
TO_READY = histogram(
    "eviction_to_ready_seconds", "From an accepted eviction until the replacement was Ready."
)

_READY_BOUNDS_S: Final = (0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)


Unanswered = tuple[BalancePlugin[Any, Any], str, BaseException]
"""A plugin, the replacement that it was asked about, and what it raised."""


class MoveTracker(EvictionParticipant):
    """Follows the evictions of the ledger that are not over, MAX_MOVES at most."""

    indexes = (OwnerIndex, WorkloadPods)
    reacts_to = (
        *(PendingPodAdded, PodBound, PodStatusChanged),
        *(PodGone, PendingPodDeleted, CompletedPodDeleted),
    )

    def __init__(
        self, view: ClusterView, config: Configuration, ledger: EvictionLedger, memory: MoveMemory
    ) -> None:
        self._view = view
        self._ledger = ledger
        self._memory = memory
        self._by_replacement: dict[PodKey, Eviction] = {}
        self._awaiting: dict[MatchKey, dict[PodKey, Eviction]] = {}
        self._timers: Timers[PodKey] = Timers()
        self._ended: list[EndedMove] = []
        self._unanswered: list[Unanswered] = []
        self._restored: dict[PodKey, Eviction] = {}
        self._results: Counter[tuple[str, ...]] = Counter()
        self._to_ready = Histogram(_READY_BOUNDS_S)
        self.reconfigure(config)

    def reconfigure(self, config: Configuration) -> None:
        """Apply other settings, to the moves under way from their next step on."""
        self._timeout_s = config.controller.moves.ready_timeout_s
        self._guards = config.controller.guards
        debounce = config.controller.debounce
        self._verdict_s = {
            plugin.name: debounce.for_plugin(plugin.name, plugin.least_debounce).quiet_s + VERDICT_S
            for profile in config.policy.profiles
            for plugin in profile.plugins
        }
        self._balance_plugins: dict[str, list[BalancePlugin[Any, Any]]] = {}
        for profile in config.policy.profiles:
            for plugin in profile.plugins:
                if isinstance(plugin, BalancePlugin):
                    self._balance_plugins.setdefault(plugin.name, []).append(plugin)

    def collect(self) -> Iterator[Metric]:
        """Yield how evictions ended, how long replacements took, and how many are moving."""
        yield MOVES.by_labels(self._results)
        yield MOVING.value(len(self._ledger))
        yield TO_READY.value(self._to_ready)

    # --- evictions: decided, ended, restored ---

    def decided(self, eviction: Eviction) -> None:
        """Follow a pod from the decision to evict it on."""
        self._follow(eviction, eviction.decided_at)

    def ended(self, eviction: Eviction, outcome: Outcome) -> None:
        """Wait for the replacement of a pod that was evicted; another is not followed."""
        del outcome
        if (now := eviction.accepted_at) is None:
            self._stop_following(eviction)
        elif eviction.is_followed and eviction.pod_uid not in self._restored:
            self._lose_evicted_if_gone(eviction, now)
            self._advance(eviction, now)

    def restored(self, eviction: Eviction, now: float) -> None:
        """Follow on an eviction whose end is not known: `adopt` looks for its replacement."""
        del now
        if eviction.is_followed and self._ledger.current(eviction.pod_uid) is eviction:
            self._restored[eviction.pod_uid] = eviction

    def adopt(self, now: float) -> None:
        """Look for the replacements of restored moves among the pods of the initial sync."""
        restored = sorted(self._restored.values(), key=lambda each: each.decided_at)
        self._restored = {}
        for move in restored:
            self._follow(move, now)
            if self._is_seen_leaving(move):
                move.miss_leaving()
        self._match_newest(restored, now)
        for move in restored:
            if self._is_current(move):
                self._lose_evicted_if_gone(move, now)
                self._advance(move, now)

    # --- the cluster ---

    @property
    def has_ended_or_released(self) -> bool:
        """Say whether `take_ended` or `take_arrivals` has something, or a scope has room again."""
        has_arrivals = self._memory.arrivals.has_changed
        return bool(self._ended) or self._ledger.has_released or has_arrivals

    def apply_changes(self, changes: Sequence[Change], now: float) -> bool:
        """Follow the pods of open moves; say whether the time of `next_due` changed."""
        for change in changes:
            if isinstance(change, (PodGone, PendingPodDeleted, CompletedPodDeleted)):
                self._ledger.forget(change.pod.uid)
        if not len(self._ledger):
            return False
        due = self.next_due()
        for change in changes:
            match change:
                case PodStatusChanged(pod=pod):
                    self._on_replacement(pod, now)
                case PodBound(pod=pod):
                    self._match(pod, now, is_new=False)
                    self._on_replacement(pod, now)
                case PendingPodAdded(pod=pod):
                    self._match(pod, now, is_new=True)
                case PodGone(pod=pod) | PendingPodDeleted(pod=pod) | CompletedPodDeleted(pod=pod):
                    self._on_pod_gone(pod, now)
        return self.next_due() != due

    def found(self, finding: Finding, now: float) -> None:
        """Apply a finding: its plugin may find the same of the replacement of a pod.

        One that may still pass by itself says nothing of where the replacement landed.
        """
        if self._may_pass(finding):
            return
        if self._memory.observe(finding, now):
            move = self._by_replacement.get(finding.pod.uid)
            if move is not None:
                move.confirm_finding()

    def _may_pass(self, finding: Finding) -> bool:
        """Say whether what is wrong must last longer to be a reason to evict."""
        return finding.counts_from_s > self._view.now_s and self._guards.holds(
            GuardName.STANDING_TIME, finding.plugin
        )

    def next_due(self) -> float | None:
        """Return when the next move is given up, or has its verdict."""
        return self._timers.next_due()

    def expire(self, now: float) -> None:
        """End the moves whose time has come, and forget what is over for long."""
        self._memory.arrivals.expire(now)
        self._ledger.expire(now)
        while (uid := self._timers.pop_due(now)) is not None:
            if (move := self._ledger.current(uid)) is not None:
                self._advance(move, now)

    def take_ended(self) -> Sequence[EndedMove]:
        """Return, once, the moves that ended."""
        ended, self._ended = self._ended, []
        return ended

    def take_arrivals(self) -> Sequence[MovedPods]:
        """Return, once, the pods that plugins moved to each node, where they differ."""
        return self._memory.arrivals.take_changed()

    def ended_by(self, scope: ScopeKey, count: int, now: float) -> float:
        """Return by when so many moves of a scope end at the latest, by their deadlines.

        A move whose eviction has no outcome yet has `moves.readyTimeout` from now on.
        """
        longest = now + self._timeout_s
        uids = self._ledger.moving_in(scope)
        return nsmallest(count, (self._timers.due(uid) or longest for uid in uids))[-1]

    def _is_current(self, move: Eviction) -> bool:
        return self._ledger.current(move.origin.pod_uid) is move

    def _follow(self, move: Eviction, now: float) -> None:
        if len(self._ledger) > MAX_MOVES:
            accepted = (each for each in self._ledger if each.accepted_at is not None)
            if (oldest := next(accepted, None)) is not None and oldest is not move:
                self._end(oldest, now, NOT_FOLLOWED, "more moves are under way than are followed")
        self._await_replacement(move)

    def _lose_evicted_if_gone(self, move: Eviction, now: float) -> None:
        if self._view.pod(move.origin.pod_uid) is None and move.gone_at is None:
            move.lose_evicted(now)

    def _await_replacement(self, move: Eviction) -> None:
        if move.match_key is not None:
            self._awaiting.setdefault(move.match_key, {})[move.origin.pod_uid] = move

    def _on_replacement(self, pod: Pod, now: float) -> None:
        if (move := self._by_replacement.get(pod.uid)) is not None:
            self._take_replacement(move, pod, now)

    def _on_pod_gone(self, pod: Pod, now: float) -> None:
        if (move := self._ledger.current(pod.uid)) is not None:
            move.lose_evicted(now)
            if not pod.is_terminating:  # a new list lacks it, and had its replacement before
                self._match_passed_over(move, now)
            self._advance(move, now)
        if (move := self._by_replacement.get(pod.uid)) is None:
            return
        if pod.status.phase == SUCCEEDED:
            self._take_replacement(move, pod, now)
            return
        del self._by_replacement[pod.uid]
        move.lose_replacement(now)
        self._await_replacement(move)
        self._advance(move, now)

    def _match(self, pod: Pod, now: float, *, is_new: bool) -> None:
        """Take a pod for the replacement of the first move that waits for one like it.

        Pods come over one watch in the order of their changes: a pod that is new after the evicted
        one was seen to leave was created since. The time of its creation must say so of any other:
        of a pod that is not new, of one that comes before, as after a list that lagged behind, and
        of every one where the evicted pod had left before this process began. A move passes a pod
        over while the evicted pod is still there: its controller creates it for another reason.
        Those of the pod's own ReplicaSet come first: during a rollout, an older one replaces none.
        """
        if (key := self._key_awaited(pod)) is None:
            return
        waiting = self._awaiting[key].values()
        candidates = [move for move in waiting if self._may_replace(move, pod, is_new=is_new)]
        chain = self._view.index(OwnerIndex).chain(pod)
        controller_uid = chain[0].uid if chain else ""
        for move in sorted(candidates, key=lambda move: move.controller_uid != controller_uid):
            if self._is_leaving(move):
                self._replace(move, pod, now)
                return
            move.pass_over((pod.uid,))

    def _may_replace(self, move: Eviction, pod: Pod, *, is_new: bool) -> bool:
        """Say whether a pod came after the eviction of a move, and was not passed over."""
        if is_new:
            seen_leaving = not move.had_left and self._is_seen_leaving(move)
            return seen_leaving or move.precedes(pod)
        return move.precedes(pod) and pod.uid not in move.passed_over

    def _key_awaited(self, pod: Pod) -> MatchKey | None:
        """Return the key by which moves wait for a pod like this; None where none do.

        A pod that is leaving, or is a replacement already, becomes none.
        """
        if not self._awaiting or pod.is_terminating or pod.uid in self._by_replacement:
            return None
        if (own := self._ledger.current(pod.uid)) is not None and self._is_leaving(own):
            return None
        key = match_key_of(pod, self._view.index(OwnerIndex).chain(pod))
        return key if key in self._awaiting else None

    def _match_newest(self, moves: Sequence[Eviction], now: float) -> None:
        """Take, for each move, from the last on, the newest pod that may be its replacement.

        When its eviction happened is not known: a pod that was created a moment before is older.
        """
        if not self._awaiting:
            return
        since_s = int(min(move.replaced_since_s for move in moves) - CLOCK_SKEW_S)
        pods = [pod for pod in self._view.store(Pod) if pod.created_s >= since_s]
        candidates: dict[MatchKey, list[Pod]] = {}
        for pod in sorted(pods, key=lambda pod: pod.created_s, reverse=True):
            if (key := self._key_awaited(pod)) is not None:
                candidates.setdefault(key, []).append(pod)
        for move in reversed(moves):
            newest = [] if move.match_key is None else candidates.get(move.match_key, [])
            if not self._is_leaving(move):
                move.pass_over(pod.uid for pod in newest)
            elif (replacement := next(filter(move.precedes, newest), None)) is not None:
                newest.remove(replacement)
                self._replace(move, replacement, now)

    def _match_passed_over(self, move: Eviction, now: float) -> None:
        for uid in move.passed_over:
            if (pod := self._view.pod(uid)) is not None and move.replacement is None:
                self._match(pod, now, is_new=True)

    def _is_leaving(self, move: Eviction) -> bool:
        """Say whether the eviction has happened, as far as is known."""
        return move.accepted_at is not None or self._is_seen_leaving(move)

    def _is_seen_leaving(self, move: Eviction) -> bool:
        """Say whether the evicted pod was seen to terminate, or to be gone."""
        if move.gone_at is not None:
            return True
        pod = self._view.pod(move.origin.pod_uid)
        return pod is None or pod.is_terminating

    def _replace(self, move: Eviction, pod: Pod, now: float) -> None:
        self._stop_awaiting(move)
        self._by_replacement[pod.uid] = move
        self._take_replacement(move, pod, now)

    def _take_replacement(self, move: Eviction, pod: Pod, now: float) -> None:
        if move.take_replacement(pod, now):
            self._ledger.replace(move, pod)
        self._advance(move, now)

    def _stop_awaiting(self, move: Eviction) -> None:
        if move.match_key is not None and (waiting := self._awaiting.get(move.match_key)):
            waiting.pop(move.origin.pod_uid, None)
            if not waiting:
                del self._awaiting[move.match_key]

    # --- one move's next step ---

    def _advance(self, move: Eviction, now: float) -> None:
        """End the move if it is over, else set its timer."""
        if move.accepted_at is None:
            return  # its outcome comes first
        due = self._deadline(move) if move.ready_at is None else self._verdict_at(move)
        if due > now:
            self._timers.set(move.origin.pod_uid, due)
        elif move.ready_at is None:
            result, message = self._given_up(move)
            self._end(move, now, result, message, is_expected=self._is_expected(move, result))
        else:
            assert move.replacement is not None
            returned = move.replacement.node == move.origin.node
            message = self._why_misplaced(move, move.replacement, returned=returned)
            if message:
                move.confirm_finding()
            self._end(move, now, RETURNED if returned else MOVED, message)

    def _why_misplaced(self, move: Eviction, replacement: Pod, *, returned: bool) -> str:
        """Say why a balance plugin's move did not help, whatever it finds; empty if it may have."""
        plugins = self._balance_plugins.get(move.origin.plugin, ())
        if returned and plugins:
            return f"the replacement returned to node {replacement.node}, which it was to relieve"
        if any(self._is_misplaced(each, replacement) for each in plugins):
            return f"the plugin moves pods away from node {replacement.node}, too"
        return ""

    def _is_misplaced(self, plugin: BalancePlugin[Any, Any], replacement: Pod) -> bool:
        """Ask a plugin; one that raises an exception says nothing against the replacement."""

        def failed(error: BaseException) -> bool:
            self._unanswered.append((plugin, str(replacement), error))
            return False

        view = self._view
        return ask_plugin(
            lambda: bool(plugin.is_misplaced(replacement, view, view.now_s)), otherwise=failed
        )

    def take_unanswered(self) -> Sequence[Unanswered]:
        """Return, once, what plugins raised when they were asked about a replacement."""
        unanswered, self._unanswered = self._unanswered, []
        return unanswered

    def _verdict_at(self, move: Eviction) -> float:
        """Return when the plugin has had the time to find the same of the Ready replacement."""
        assert move.ready_at is not None
        assert move.scheduled_at is not None
        if move.finding_holds:
            return move.ready_at
        verdict_s = self._verdict_s.get(move.origin.plugin, 0.0)
        return max(move.ready_at, move.scheduled_at + verdict_s)

    def _deadline(self, move: Eviction) -> float:
        """Return when a move without a Ready replacement is given up."""
        assert move.accepted_at is not None
        deadline = move.accepted_at + self._timeout_s
        if move.replacement is None and move.gone_at is not None and not self._is_missed(move):
            patience_s = 0.0 if move.match_key is None else CREATION_TIMEOUT_S
            return min(deadline, move.gone_at + patience_s)
        return deadline

    def _is_missed(self, move: Eviction) -> bool:
        """Say whether the owner wants more pods than it has, and will create one when it can.

        A StatefulSet creates none while one of a lower ordinal is not Ready. Which of a
        Deployment's ReplicaSets wants it is not known while it is rolling out.
        """
        workload = self._view.workload(move.origin.owner.uid)
        if workload is None or not move.controller_uid:
            return False
        if workload.rollout and move.controller_uid != workload.uid:
            return False
        pods = self._view.index(WorkloadPods)
        return workload.replicas > pods.count(move.origin.owner.namespace, move.controller_uid)

    def _given_up(self, move: Eviction) -> tuple[str, str]:
        """Return the result of a move that is given up, and why."""
        if (pod := move.replacement) is not None:
            if not pod.node:
                return UNSCHEDULED, "the replacement was bound to no node"
            return NOT_READY, f"the replacement is not Ready on node {pod.node}"
        if move.match_key is None:
            if move.controller_uid:
                return (
                    NOT_REPLACED,
                    "the pod had ended earlier, and its controller makes no other now",
                )
            return NOT_REPLACED, "no controller creates a bare pod again"
        if self._owner_is_gone(move.origin.owner):
            return OWNER_GONE, "the owner was deleted"
        if move.gone_at is None:
            return NOT_REPLACED, "the evicted pod is still terminating"
        if self._is_missed(move):
            return NOT_REPLACED, "the owner has fewer pods than it wants, and created no other one"
        return NOT_REPLACED, "the owner created no other pod: it may want fewer now"

    def _is_expected(self, move: Eviction, result: str) -> bool:
        """Say whether no replacement was to come: nothing creates one, or none is wanted now."""
        if result == OWNER_GONE:
            return True
        if result != NOT_REPLACED or move.match_key is None:
            return result == NOT_REPLACED
        return move.gone_at is not None and not self._is_missed(move)

    def _owner_is_gone(self, owner: MoveOwner) -> bool:
        """Say whether an owner of a kind that is watched was deleted."""
        if owner.kind == "ReplicaSet":
            return (
                self._view.is_readable("replicasets")
                and self._view.store(ReplicaSet).get(owner.uid) is None
            )
        if owner.kind == "Job":
            return self._view.is_readable("jobs") and self._view.store(Job).get(owner.uid) is None
        return False

    def _end(
        self,
        move: Eviction,
        now: float,
        result: str,
        message: str = "",
        *,
        is_expected: bool = False,
    ) -> None:
        in_force = move.origin.plugin in self._verdict_s
        end = move.end_with(result, message, plugin_in_force=in_force, is_expected=is_expected)
        self._ledger.follow_up(move, end, now)

    def followed_up(self, eviction: Eviction, end: MoveEnd) -> None:
        """Stop following an eviction, and count how it ended."""
        self._stop_following(eviction)
        helped = "unknown" if end.finding_holds is None else "no" if end.finding_holds else "yes"
        self._results[end.result, helped, eviction.origin.plugin] += 1
        if end.ready_s is not None:
            self._to_ready.observe(end.ready_s)
        self._ended.append(EndedMove(eviction.request_id, eviction.origin, end))

    def _stop_following(self, move: Eviction) -> None:
        uid = move.pod_uid
        if self._ledger.current(uid) in (None, move):
            self._timers.cancel(uid)
        if self._restored.get(uid) is move:
            del self._restored[uid]
        self._stop_awaiting(move)
        if move.replacement is not None:
            self._by_replacement.pop(move.replacement.uid, None)
