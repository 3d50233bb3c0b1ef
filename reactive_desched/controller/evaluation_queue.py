"""The subjects that wait for their evaluation, and what brings the turn of each.

As the kube-scheduler's scheduling queue has active, backing-off and unschedulable pods: a subject
is dirty since a change, has a timer, is blocked until what its finding waits for comes, or belongs
to a resync. The queue calls no plugin and no gate; times are monotonic seconds.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

from reactive_desched.controller.blocked import Blocked, BlockedDecision, BlockedFindings, awaited
from reactive_desched.controller.instances import FindingKey, PluginInstance, SubjectKey
from reactive_desched.controller.pending import PendingFinding
from reactive_desched.controller.work_queue import (
    FlapDetector,
    FlappingConfig,
    PodBackoff,
    Portions,
    WorkQueue,
)
from reactive_desched.gate.rate_limits import RATE_LIMITED
from reactive_desched.model.changes import Change, PdbChanged, TimePassed
from reactive_desched.model.decisions import CapacityHint
from reactive_desched.model.evaluation import ChangeTrigger
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import PodKey
from reactive_desched.model.subjects import NodeSubject, PodSubject
from reactive_desched.model.wakes import WakeOnEviction, WakeOnPod
from reactive_desched.primitives.long_answers import PORTION, LongAnswers, portions
from reactive_desched.primitives.timers import Timers
from reactive_desched.telemetry.metrics import Metric

RESYNC_TURN: Final = 8
"""While a resync is under way, every so many subjects one is of the resync, whatever is dirty."""


class NodeFitAnswers(Protocol):
    """Answers what every evaluation asks of node fit."""

    @property
    def long_answers(self) -> LongAnswers:
        """Return what says whether long answers are wanted in steps."""
        ...

    def take_capacity_hints(self) -> Sequence[CapacityHint]:
        """Return, once, which of the blocked pods may fit now, as far as one step finds out."""
        ...

    @property
    def has_more_hints(self) -> bool:
        """Say whether another step may find more."""
        ...


PreviousFindings = dict[FindingKey, Blocked[SubjectKey, ChangeTrigger]]
"""Why the findings of a subject were blocked before its evaluation."""


class EvaluationQueue:
    """Holds each subject of the plugin instances until its turn; bounded by the subjects there are.

    `awaited_kinds` are the types of change that blocked findings wait for.
    """

    def __init__(
        self,
        instances: Iterable[PluginInstance],
        backoff: PodBackoff,
        node_fit: NodeFitAnswers,
        flapping: FlappingConfig,
    ) -> None:
        self._backoff = backoff
        self._node_fit = node_fit
        self._dirty = WorkQueue(instances, flapping)
        self._timers: Timers[SubjectKey] = Timers()
        self._blocked: BlockedFindings[FindingKey, SubjectKey, ChangeTrigger] = BlockedFindings()
        self.awaited_kinds: Final = self._blocked.awaited_kinds
        self._resyncs: list[tuple[Iterator[SubjectKey], ChangeTrigger]] = []
        self._turn = 0
        self._capacity_trigger: ChangeTrigger | None = None

    def __len__(self) -> int:
        """Return how many subjects are dirty."""
        return len(self._dirty)

    def __contains__(self, subject: SubjectKey) -> bool:
        """Say whether a subject is dirty."""
        return subject in self._dirty

    @property
    def flaps(self) -> FlapDetector:
        """Return which objects flap: their subjects wait longer."""
        return self._dirty.flaps

    @property
    def enqueued(self) -> int:
        """Return how often a subject was enqueued since the start."""
        return self._dirty.enqueued

    @property
    def is_resyncing(self) -> bool:
        """Say whether a look at everything is not finished yet."""
        return bool(self._resyncs)

    @property
    def has_more_to_enqueue(self) -> bool:
        """Say whether more may come of the changes that were applied, in further steps."""
        return self._capacity_trigger is not None or self._dirty.has_portions

    @property
    def blocked_by_gate(self) -> dict[str, int]:
        """Return how many findings are blocked, by gate."""
        return self._blocked.count_by_gate()

    def collect(self) -> Iterator[Metric]:
        """Yield how many subjects and findings wait."""
        yield from self._dirty.collect()
        yield from self._blocked.collect()

    # --- what is to be evaluated ---

    def enqueue(self, key: SubjectKey, now: float, trigger: ChangeTrigger) -> None:
        """Enqueue a subject that a change concerns."""
        self._dirty.enqueue(key, now, trigger)

    def enqueue_in_portions(self, found: Portions, now: float, trigger: ChangeTrigger) -> None:
        """Enqueue the first portion of what a change concerns, and keep the others for later."""
        self._dirty.enqueue_in_portions(found, now, trigger)

    def enqueue_more(self, now: float) -> bool:
        """Take one more step of what the changes so far concern; say whether there was one."""
        if self._dirty.enqueue_portion(now):
            return True
        if (trigger := self._capacity_trigger) is None:
            return False
        self.follow_capacity(trigger, now)
        return True

    def resync(self, subjects: Iterable[Iterator[SubjectKey]], trigger: ChangeTrigger) -> None:
        """Take all subjects in turn beside what is dirty, and not what was left of a resync."""
        self._resyncs = [(each, trigger) for each in subjects]

    def resync_some(self, subjects: Iterator[SubjectKey], trigger: ChangeTrigger) -> None:
        """Take these subjects after those of the resyncs under way."""
        self._resyncs.append((subjects, trigger))

    def requeue_at(self, key: SubjectKey, at: float) -> None:
        """Evaluate a subject again at a time, or sooner where another timer of it is."""
        self._timers.set_if_sooner(key, at)

    def requeue_node_at(self, key: SubjectKey, at: float) -> None:
        """Do the same with the node of a pod where the plugin splits nodes: it has fewer timers."""
        self._timers.set_if_sooner(_timer_key(key), at)

    def next_due(self, now: float) -> float | None:
        """Return when there is something to evaluate or enqueue; `now` or earlier means at once."""
        if self._resyncs or self.has_more_to_enqueue:
            return now
        earliest = self._timers.next_due()
        due = self._dirty.next_due()
        if due is not None and (earliest is None or due < earliest):
            earliest = due
        return earliest

    def pop_due(self, now: float) -> tuple[SubjectKey, ChangeTrigger] | None:
        """Take out the next subject: of the dirty ones and the timers what came due first.

        The subjects of a resync come when nothing else is due, and in every eighth turn, so that
        changes that do not end hold up no resync. Those that are evaluated when a node has settled
        are left out.
        """
        while True:
            self._turn += 1
            due = None
            if self._resyncs and self._turn % RESYNC_TURN == 0:
                due = self._pop_resync()
            if due is None:
                due = self._pop_dirty(now)
            if due is None and self._resyncs:
                due = self._pop_resync()
            if due is None or not self._dirty.settling or not self._is_settling(due[0]):
                return due

    def _pop_dirty(self, now: float) -> tuple[SubjectKey, ChangeTrigger] | None:
        timer_due = self._timers.next_due()
        by = now if timer_due is None or timer_due > now else timer_due
        if (popped := self._dirty.pop_due(by)) is not None:
            return popped
        if timer_due is None or timer_due > now or (key := self._timers.pop_due(now)) is None:
            return None
        return key, self._blocked.trigger_of(key) or ChangeTrigger(TimePassed(), now)

    def _pop_resync(self) -> tuple[SubjectKey, ChangeTrigger] | None:
        while self._resyncs:
            resync, trigger = self._resyncs[0]
            if (next_key := next(resync, None)) is not None:
                return next_key, trigger
            self._resyncs.pop(0)
        return None

    def _is_settling(self, key: SubjectKey) -> bool:
        """Say whether a subject, or the node of a pod, waits until an object stops flapping."""
        settling = self._dirty.settling
        return key in settling or _timer_key(key) in settling

    # --- what is blocked ---

    def block(
        self, key: FindingKey, decision: BlockedDecision, since: float, trigger: ChangeTrigger
    ) -> None:
        """Let a finding wait for what the decision on it names, and for its time."""
        self._blocked.add(key, decision, since, trigger, _groups(key, decision.finding))
        if decision.retry_at_s is not None:
            self._timers.set_if_sooner(key[:2], decision.retry_at_s)

    def take_blocked(self, key: SubjectKey) -> Iterator[PreviousFindings]:
        """Take out the blocked findings that an evaluation of this subject answers for.

        They come in portions.
        """
        self._timers.cancel(key)
        for previous in self._blocked.remove_group(key):
            for outdated in previous:
                self._timers.cancel(outdated[:2])
            yield previous

    def retake_blocked(self, key: SubjectKey) -> Iterator[PreviousFindings]:
        """Take out what was blocked since the evaluation of this subject began; timers stand."""
        return self._blocked.remove_group(key)

    def drop(self, instance: PluginInstance) -> None:
        """Drop the blocked findings of a plugin that is switched off."""
        for key in [key for key, _ in self._blocked.snapshot() if key[0] is instance]:
            self._blocked.remove(key)

    def unblock(self, trigger: ChangeTrigger, now: float) -> None:
        """Enqueue the blocked findings that a change may unblock: of very many, in portions."""
        if not (keys := self._blocked.affected_by(trigger.change)):
            return
        found = self._unblocked(keys, trigger.change, now)
        if len(keys) > PORTION:
            self.enqueue_in_portions(found, now, trigger)
            return
        for key in next(found):
            self.enqueue(key, now, trigger)

    def _unblocked(self, keys: Sequence[FindingKey], change: Change, now: float) -> Portions:
        """Yield the subjects of these findings, those left out that are not blocked any more."""
        for portion in portions(keys):
            subjects: list[SubjectKey] = []
            for key in portion:
                if (decision := self._blocked.decision_of(key)) is None:
                    continue
                if isinstance(change, PdbChanged):
                    self._backoff.pdb_changed(decision.finding.pod.uid, now)
                subjects.append(key[:2])
            yield subjects

    def unblock_after_eviction(self, pod: PodKey, trigger: ChangeTrigger, now: float) -> None:
        """Enqueue the findings that wait for the end of this pod's eviction."""
        for key in self._blocked.waiting_for(WakeOnEviction(pod)):
            self.enqueue(key[:2], now, trigger)

    def follow_capacity(
        self, trigger: ChangeTrigger, now: float, evaluated: SubjectKey | None = None
    ) -> None:
        """Take a step of finding what may fit by now, and enqueue that; work is left for more.

        `evaluated` is the subject whose evaluation is under way.
        """
        if hints := self._node_fit.take_capacity_hints():
            self.enqueue_in_portions(self._woken(hints, evaluated), now, trigger)
        self._capacity_trigger = trigger if self._node_fit.has_more_hints else None

    def _woken(self, hints: Iterable[CapacityHint], evaluated: SubjectKey | None) -> Portions:
        """Yield at most as many blocked subjects as the freed capacity holds."""
        for hint in hints:
            left = hint.slots
            for keys in portions(self._blocked.waiting_for(hint.wake)):
                woken: dict[SubjectKey, None] = {}
                for key in keys:
                    if len(woken) == left:
                        break
                    if hint.after_fit and key[:2] == evaluated:
                        continue  # it would wake itself for ever
                    if key[0].is_observed != hint.is_observed:
                        continue  # its reservations are others
                    if self._blocked.may_use(key, hint) and key[:2] not in self._dirty:
                        woken[key[:2]] = None
                yield woken
                left = None if left is None else left - len(woken)
                if left == 0:
                    break

    # --- what waits, for people and for the turns of limits ---

    def pending(self) -> Iterator[PendingFinding]:
        """Yield every blocked finding, with what it waits for."""
        for key, blocked in self._blocked.snapshot():
            decision, until = blocked.decision, blocked.decision.retry_at_s
            if until is not None and decision.gate == RATE_LIMITED.gate:
                until = self._timers.due(key[:2]) or until
            yield PendingFinding(
                key[0].profile,
                decision,
                tuple(awaited(decision)),
                blocked.since,
                until,
                blocked.trigger.record,
                mode=key[0].mode,
            )

    def rate_limited(
        self, now: float, *, is_observed: bool = False
    ) -> Iterator[tuple[Finding, float]]:
        """Yield every finding that waits for a rate limit, and before when it is not evaluated.

        One of a pod can be evaluated at any time; one of a plan, when that is made again. Those
        that are only observed have limits of their own.
        """
        for key, blocked in self._blocked.snapshot():
            decision = blocked.decision
            if decision.gate == RATE_LIMITED.gate and key[0].is_observed == is_observed:
                alone = isinstance(key[1], PodSubject)
                yield decision.finding, now if alone else decision.retry_at_s or now

    def reschedule(self, pod: PodKey, at: float, *, is_observed: bool = False) -> bool:
        """Evaluate a pod that waits for a rate limit at this time; say whether there is one."""
        found = False
        for key in self._blocked.waiting_for(WakeOnPod(pod)):
            if key[0].is_observed != is_observed:
                continue
            decision = self._blocked.decision_of(key)
            if isinstance(key[1], PodSubject) and decision and decision.gate == RATE_LIMITED.gate:
                self._timers.set(key[:2], at)
                found = True
        return found


def _timer_key(key: SubjectKey) -> SubjectKey:
    """Return the key of a subject's timer, to have fewer timers.

    A plugin that splits nodes has one for a node and its pods.
    """
    instance, subject = key
    if not (instance.plugin.splits_nodes and isinstance(subject, PodSubject)):
        return key
    bound = instance.view.pod_and_node(subject.pod)
    return key if bound is None else (instance, NodeSubject(bound[1].name))


def _groups(key: FindingKey, finding: Finding) -> tuple[SubjectKey, ...]:
    """Return the subjects whose evaluation answers for a finding: a pod's node answers for it."""
    instance, subject, _ = key
    if isinstance(subject, PodSubject):
        return key[:2], (instance, NodeSubject(finding.pod.node))
    return (key[:2],)
