"""Turns changes into decisions: changes enqueue subjects, plugins judge the subjects that are due.

The evaluator is synchronous and reads no clock: callers pass the time in monotonic seconds. It
works in small portions, so that the worker can yield to the event loop between two of them.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import chain
from math import inf
from typing import Final

from msgspec.structs import replace

from reactive_desched.api.balance_plugin import BalancePlugin
from reactive_desched.api.plugin import Opinions
from reactive_desched.controller.blocked import Blocked, BlockedDecision
from reactive_desched.controller.evaluation_queue import (
    EvaluationQueue,
    NodeFitAnswers,
    PreviousFindings,
)
from reactive_desched.controller.instances import FindingKey, PluginInstance, SubjectKey
from reactive_desched.controller.plugin_calls import PluginCalls
from reactive_desched.controller.plugin_faults import PluginFaults, SlowPlugins
from reactive_desched.controller.work_queue import (
    FLAPPING_FIELDS,
    NEVER_FLAPPING,
    FlappingConfig,
    PodBackoff,
)
from reactive_desched.errors import EvaluationEndless
from reactive_desched.gate.approval import APPROVAL_GATE, as_accepted
from reactive_desched.gate.gang_moves import GangMoves
from reactive_desched.model.changes import Change, Resynced, TimePassed
from reactive_desched.model.decisions import (
    DISRUPTION_BUDGET,
    Decision,
    Evict,
    GateReason,
    Refuse,
    WaitEnd,
)
from reactive_desched.model.evaluation import ChangeTrigger, Evaluation
from reactive_desched.model.findings import Finding, RequeueAfter, YieldPoint
from reactive_desched.model.objects import PodKey
from reactive_desched.model.outcomes import PDB_REFUSED, POD_LEAVES, Outcome
from reactive_desched.model.plugin_faults import PluginFault
from reactive_desched.model.subjects import LeftBehind, NodeSubject, PodSubject
from reactive_desched.model.wakes import WakeOnPdb, WakeOnPod
from reactive_desched.policy.settings.guards import GuardName
from reactive_desched.primitives.long_answers import PORTION, AnswerTakesLong
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.telemetry.metrics import Metric

BACKING_OFF: Final = GateReason(
    "EvictionBackoff",
    "BackingOff",
    "The last eviction of the pod failed; the next attempt waits, doubling each time.",
    "evictions.retry",
)


POD_GONE: Final = GateReason(
    "Evaluation",
    "PodGone",
    "The pod ended, or its node is not eligible any more, since its subject's evaluation began. "
    "Only the plugin receives this; it is not recorded.",
)

OBSERVED_RETRY_S: Final = 5.0
"""So long after an eviction that was only observed was cancelled it is decided again: no request
failed, so the pod backs off for no other plugin."""

_END: Final = object()

_OTHERS_PER_SLICE: Final = 1_000
"""So many subjects that were not asked for are passed over at once."""

EVALUATION_PAUSE_S: Final = 10.0
"""An evaluation that was not gone on with for so long is begun anew: the cluster that the plugin
looked at has changed. One that takes long without a pause goes on: begun anew, it would take as
long again, and a large cluster would never have its plan."""

ENDLESS_AFTER_S: Final = 60.0
ENDLESS_ANSWERS: Final = 100_000
"""An evaluation that is under way for so long though its plugin yielded so much is a fault of the
plugin: it would hold up all other subjects each time. The plan of 5,000 nodes yields 10,000."""

MAX_ANSWERS: Final = 1_000_000
"""An evaluation with more does not end, also where no time passes, as in a preview."""


class _EvaluationUnderWay:
    """A plugin's evaluation of one subject, interrupted after a finding.

    `previous` says why its findings were blocked before. `suspended` says that the
    cluster may have changed since the evaluation began, `gone_on_at` when it was last gone on with.
    `answers` counts what the plugin yielded.
    `steps` come before all else: those that take what was found before, and those of an answer that
    was asked for. After them `undecided` is decided, a finding
    of a plan whose decision needed the answer. Where there is none, the plugin begins anew: a plan
    is as old as its beginning, and other findings have to hold when they are decided. `is_again`
    says that it did, and will ask for the same answers again; `made_before` counts what it had
    yielded by then, and `first_began_at` is when it began before. `found_since_s` says since when
    there are findings that wait, of each node that they are about.
    """

    __slots__ = (
        "answers",
        "began_at",
        "decided",
        "decision",
        "first_began_at",
        "found",
        "found_since_s",
        "gone_on_at",
        "is_again",
        "key",
        "made_before",
        "opinions",
        "previous",
        "steps",
        "suspended",
        "trigger",
        "undecided",
    )

    def __init__(
        self,
        key: SubjectKey,
        opinions: Opinions,
        trigger: ChangeTrigger,
        now: float,
        *,
        is_again: bool,
    ) -> None:
        self.key = key
        self.trigger = trigger
        self.previous: PreviousFindings = {}
        self.began_at = self.first_began_at = self.gone_on_at = now
        self.opinions = opinions
        self.decision: Decision | None = None
        self.found = self.suspended = False
        self.answers = self.made_before = 0
        self.steps: Iterator[None] | None = None
        self.is_again = is_again
        self.undecided: Finding | None = None
        self.decided: set[FindingKey] = set()
        self.found_since_s: dict[str, float] = {}

    def take(self, taken: Iterable[PreviousFindings]) -> Iterator[None]:
        """Take what was found before, a portion in each step but the last."""
        for portion in taken:
            self.previous.update(portion)
            for blocked in portion.values():
                finding = blocked.decision.finding
                earlier_s = self.found_since_s.get(finding.about, inf)
                self.found_since_s[finding.about] = min(earlier_s, finding.found_since_s)
            if len(portion) == PORTION:
                yield


class Evaluator:
    """Everything between a change and a decision, for all plugin instances.

    Until `resync` is called nothing is evaluated: the initial list is state, not a change.
    `evaluations` counts how often a subject was evaluated, and `steps` what of the work is the same
    in each process: to prepare an answer is no step, as a person may have asked for the same
    before. `installed` is notified when a reload brings other instances; then `queue` and `plugins`
    are other ones. An exception of a plugin, or of an index that only plugins read, becomes one of
    the `faults`; one of a gate, another index or the state ends the process.
    """

    def __init__(
        self,
        instances: Iterable[PluginInstance],
        backoff: PodBackoff,
        node_fit: NodeFitAnswers,
        flapping: FlappingConfig = NEVER_FLAPPING,
        plugin_clock: Callable[[], float] = lambda: 0.0,
        gangs: GangMoves | None = None,
    ) -> None:
        self._backoff = backoff
        self._gangs = gangs
        self._node_fit = node_fit
        self.started = False
        self._start: ChangeTrigger | None = None
        self.evaluations = self.steps = 0
        self.faults = PluginFaults()
        self.slow_plugins = SlowPlugins(plugin_clock)
        self.installed = Wakeup()
        self._install(instances, flapping)

    def _install(self, instances: Iterable[PluginInstance], flapping: FlappingConfig) -> None:
        self.faults.clear()
        self._instances = tuple(instances)
        self._views = tuple({id(each.view): each.view for each in self._instances}.values())
        self.queue = EvaluationQueue(self._instances, self._backoff, self._node_fit, flapping)
        self.plugins = PluginCalls(self._instances, self.queue, self.faults, self.slow_plugins)
        self._under_way: _EvaluationUnderWay | None = None
        self._ending: Iterator[None] | None = None
        self._ended_proposals: list[tuple[str, Finding]] = []
        self._has_outdated = False
        self.installed.notify()

    @property
    def instances(self) -> tuple[PluginInstance, ...]:
        """The plugin instances in force."""
        return self._instances

    @property
    def is_evaluating(self) -> bool:
        """Say whether a subject's evaluation has begun and not ended, or a look at everything."""
        is_under_way = self._current() is not None or self._ending is not None
        return is_under_way or self.queue.is_resyncing

    def is_judging(self, key: SubjectKey) -> bool:
        """Say whether the evaluation of a subject has begun and not ended."""
        return (under_way := self._current()) is not None and under_way.key == key

    def _current(self) -> _EvaluationUnderWay | None:
        """Return the evaluation under way; that of a plugin that was switched off is dropped."""
        if self._under_way is not None and self.faults.is_off(self._under_way.key[0]):
            self._under_way = None
        return self._under_way

    def collect(self) -> Iterator[Metric]:
        """Yield how many subjects, findings and pods wait."""
        yield from self.queue.collect()
        yield from self._backoff.collect()
        yield from self.faults.collect()
        yield from self.slow_plugins.collect()

    def resync(self, now: float) -> None:
        """Enqueue every subject, spread over the coming work."""
        trigger = ChangeTrigger(Resynced(), now)
        self._start = self._start or trigger
        self.started = True
        subjects = [self.plugins.all_subjects(instance, now) for instance in self._instances]
        self.queue.resync(subjects, trigger)
        self.follow_gangs(now)

    def follow_gangs(self, now: float) -> None:
        """Enqueue the pods of gangs that an earlier process may have left behind."""
        if self._gangs is None or not self.started:
            return
        for instance in self._instances:
            for pod in self._gangs.restored_rest(instance.name, instance.profile):
                self.queue.enqueue((instance, LeftBehind(pod)), now, ChangeTrigger(Resynced(), now))

    def evaluate_some(
        self,
        instances: Iterable[PluginInstance],
        concerns: Callable[[Hashable], bool],
        trigger: ChangeTrigger,
        now: float,
    ) -> None:
        """Enqueue the subjects of some plugins that a person asked for, as at a resync."""
        for instance in instances:
            self.queue.resync_some(self._subjects_among(instance, concerns, now), trigger)

    def _subjects_among(
        self, instance: PluginInstance, concerns: Callable[[Hashable], bool], now: float
    ) -> Iterator[SubjectKey]:
        """Yield the subjects that `concerns` names, and few others, to let the event loop run."""
        for number, key in enumerate(self.plugins.all_subjects(instance, now), 1):
            if concerns(key[1]) or number % _OTHERS_PER_SLICE == 0:
                yield key

    def reconfigure(
        self,
        instances: Iterable[PluginInstance],
        node_fit: NodeFitAnswers,
        now: float,
        flapping: FlappingConfig = NEVER_FLAPPING,
    ) -> None:
        """Replace the plugin instances, and evaluate every subject again.

        What was queued, under way, blocked or timed for the old instances is dropped. Evictions
        that they began are still settled, and pods that back off after a failure go on doing so.
        """
        self._node_fit = node_fit
        self._install(instances, flapping)
        if self.started:
            self.resync(now)

    def apply_changes(self, changes: Sequence[Change], now: float, version: int = 0) -> bool:
        """Enqueue what these changes may have made right or wrong; say whether there may be work.

        Most changes of a cluster concern no plugin and no blocked finding: they cost lookups by
        their type, and the cheap test of each plugin. `version` is the resourceVersion of the
        object whose event led to them.
        """
        if not self.started:
            return False
        queue = self.queue
        enqueued = queue.enqueued
        may_change_later = self._update_evictability(changes, now)
        for change in changes:
            kind = type(change)
            if kind in FLAPPING_FIELDS:
                queue.flaps.record(change, now)
            if kind in self.plugins.subscriptions.by_kind:
                self.plugins.enqueue_subjects(change, ChangeTrigger(change, now, version), now)
            if kind in queue.awaited_kinds:
                queue.unblock(ChangeTrigger(change, now, version), now)
        if changes:
            self._follow_capacity(ChangeTrigger(changes[0], now, version), now)
        return may_change_later or queue.has_more_to_enqueue or queue.enqueued != enqueued

    def process_due(self, now: float, should_yield: Callable[[], bool]) -> Iterator[Evaluation]:
        """Evaluate what is due and yield each decision, until nothing is due or it should yield.

        `should_yield` is asked after each decision, yield point and subject. A subject with many
        findings is gone on with by the next call, before any other: its findings are then decided
        on the pods as they are by that time.
        """
        self._update_evictability((), now)
        self._resume(now)
        while (
            self._current() is not None
            or self._enqueue_more(now)
            or self._follows_evictability(now)
            or self._end_more()
            or self._begin_due(now)
        ):
            if (under_way := self._under_way) is not None:
                evaluation = self._next_evaluation(under_way, now)
                if evaluation is not None:
                    yield evaluation
                    yield from _companions(evaluation)
            if should_yield():
                return
        self.steps += 1  # to have found nothing more counts turns, too

    def next_due(self, now: float) -> float | None:
        """Return when there is work again; `now` or earlier means at once."""
        if self._current() is not None or self._has_outdated or self._ending is not None:
            return now
        earliest = self.queue.next_due(now)
        for view in self._views:
            if (due_s := view.next_due_s()) is not None:
                due = now + max(0.0, due_s - view.now_s)
                earliest = due if earliest is None else min(earliest, due)
        return earliest

    def held_since(self, evaluation: Evaluation, found: Finding, now: float) -> str:
        """Say which gate of its profile keeps a pod by now that is to be evicted; empty for none.

        `found` is the finding as its plugin has it now.
        """
        instance = evaluation.instance
        assert isinstance(instance, PluginInstance), "its finding has been asked for"
        return instance.gate.held_since(found, now)

    def settle(self, evaluation: Evaluation, outcome: Outcome, now: float) -> None:
        """Evaluate a pod again later whose eviction did not happen."""
        finding, instance = evaluation.finding, evaluation.instance
        pod = finding.pod
        if evaluation.is_observed:
            if outcome.result in POD_LEAVES:
                return
            until = now + OBSERVED_RETRY_S
        elif outcome.result in POD_LEAVES:
            self._backoff.reset(pod.uid)
            return
        else:
            until = self._backoff.record_failure(pod.uid, outcome, now)
        if isinstance(instance, PluginInstance) and self.plugins.is_in_force(instance):
            follows = finding.is_companion and not evaluation.is_observed
            subject = LeftBehind(pod.uid) if follows else evaluation.subject
            key = instance, subject, pod.uid  # else the pod merely rests
            decision = _blocked_by_outcome(finding, outcome, until)
            self.queue.block(key, decision, now, evaluation.trigger)
        trigger = ChangeTrigger(
            evaluation.trigger.change, evaluation.trigger.seen_at
        )  # by no event of the cluster
        self.queue.unblock_after_eviction(pod.uid, trigger, now)
        self._follow_capacity(trigger, now)

    def eviction_ended(self, pod: PodKey, now: float) -> None:
        """Enqueue the findings that wait for the end of this pod's eviction."""
        self.queue.unblock_after_eviction(pod, ChangeTrigger(TimePassed(), now), now)

    def _follow_capacity(self, trigger: ChangeTrigger, now: float) -> None:
        """Enqueue what may fit by now, but not what is evaluated just now."""
        evaluated = None if self._under_way is None else self._under_way.key
        self.queue.follow_capacity(trigger, now, evaluated)

    def _update_evictability(self, changes: Iterable[Change], now: float) -> bool:
        """Let each profile's plugins know which pods their evictor now protects, or no longer.

        Returns whether time alone may change that, too.
        """
        may_change_later = False
        for view in self._views:
            if not view.remembers_evictability:
                continue
            may_change_later = True
            for change in view.apply_changes(changes):
                self.plugins.enqueue_subjects(change, ChangeTrigger(change, now), now, view)
        self._has_outdated = may_change_later and any(view.has_outdated for view in self._views)
        return may_change_later

    def _enqueue_more(self, now: float) -> bool:
        """Take one more step of what the changes so far concern; say whether there was one.

        One that enqueues nothing looks at nodes that a question may have looked at before.
        """
        enqueued = self.queue.enqueued
        if not self.queue.enqueue_more(now):
            return False
        self.steps += self.queue.enqueued != enqueued
        return True

    def _follows_evictability(self, now: float) -> bool:
        """Take one more portion of the pods that a change of their protection concerns."""
        if not self._has_outdated:
            return False
        self.steps += 1
        self._update_evictability((), now)
        return True

    def _begin_due(self, now: float) -> bool:
        """Begin the evaluation of the next subject that is due; say whether there was one."""
        if (due := self.queue.pop_due(now)) is None:
            return False
        key, trigger = due
        self.steps += 1
        if self.faults.any and self.plugins.is_put_off(key, trigger, now):
            return True
        self.evaluations += 1
        self._node_fit.long_answers.end_wait()
        self._begin(key, trigger, self.queue.take_blocked(key), now)
        return True

    def _begin(
        self,
        key: SubjectKey,
        trigger: ChangeTrigger,
        previous: Iterator[PreviousFindings],
        now: float,
        steps: Iterator[None] | None = None,
    ) -> None:
        """Begin an evaluation; a pod that a gang left behind is found without its plugin.

        `previous` is what was found before, in portions. `steps` are those of an answer for which
        the evaluation begins again.
        """
        subject, opinions = key[1], _nothing()
        if not isinstance(subject, LeftBehind):
            asked = self.plugins.opinions_on(key, now)
            if asked is None:
                for _ in previous:
                    pass
                return
            opinions = asked
        elif self._gangs is not None:
            opinions = self._gangs.left_behind(subject.pod, now)
        is_again = steps is not None
        begun = _EvaluationUnderWay(key, opinions, trigger, now, is_again=is_again)
        self._under_way = begun
        taking = self._as_steps(begun.take(previous))
        has_more = next(taking, _END) is not _END
        if has_more or steps is not None:
            begun.steps = chain(taking, steps or ())

    def _as_steps(self, taken: Iterator[None]) -> Iterator[None]:
        for _ in taken:
            self.steps += 1
            yield

    def _begin_again(
        self, under_way: _EvaluationUnderWay, steps: Iterator[None], now: float
    ) -> None:
        """Take the steps of an answer, then evaluate the subject again."""
        self._node_fit.long_answers.wait()
        previous = chain((under_way.previous,), self.queue.retake_blocked(under_way.key))
        self._under_way = None
        self._begin(under_way.key, under_way.trigger, previous, now, steps)
        if (begun := self._current()) is not None:
            begun.made_before = max(under_way.made_before, under_way.answers - 1)
            begun.first_began_at = under_way.first_began_at

    def _resume(self, now: float) -> None:
        """Go on with the evaluation under way, unless it paused for too long or has no end."""
        if (under_way := self._current()) is None:
            return
        under_way.suspended = True
        paused_s, under_way.gone_on_at = now - under_way.gone_on_at, now
        if paused_s > EVALUATION_PAUSE_S:
            self._under_way = None
            self.queue.enqueue(under_way.key, now, under_way.trigger)
        elif now - under_way.began_at > ENDLESS_AFTER_S and under_way.answers >= ENDLESS_ANSWERS:
            self._under_way = None
            text = f"no end within {ENDLESS_AFTER_S:.0f} s, after {under_way.answers:,} answers"
            self.plugins.failed(under_way.key, EvaluationEndless(text), now)

    def _next_evaluation(self, under_way: _EvaluationUnderWay, now: float) -> Evaluation | None:
        """Decide the subject's next finding; None is the evaluation's end, or no finding yet."""
        if under_way.steps is not None:
            if next(under_way.steps, _END) is _END:
                under_way.steps = None
            return None
        try:
            with self._node_fit.long_answers:
                evaluation = self._decide_next(under_way, now)
        except AnswerTakesLong as asked:
            if under_way.undecided is None:
                self._begin_again(under_way, asked.steps, now)
            else:
                self._node_fit.long_answers.wait()
                under_way.steps = asked.steps
            return None
        self.steps += under_way.answers > under_way.made_before
        return evaluation

    def _decide_next(self, under_way: _EvaluationUnderWay, now: float) -> Evaluation | None:
        under_way.answers += 1
        if under_way.answers > MAX_ANSWERS:
            self._under_way = None
            text = f"no end after {MAX_ANSWERS:,} answers"
            self.plugins.failed(under_way.key, EvaluationEndless(text), now)
            return None
        opinion = under_way.undecided or self.plugins.next_opinion(
            under_way.key, under_way.opinions, under_way.decision, now
        )
        if opinion is None or isinstance(opinion, PluginFault):
            self._end(under_way, opinion, now)
            return None
        if isinstance(opinion, YieldPoint):
            under_way.decision = None
            return None
        if isinstance(opinion, RequeueAfter):
            under_way.decision = None
            self.queue.requeue_node_at(under_way.key, now + opinion.delay_s)
            return None
        is_current = not under_way.suspended and _is_current(under_way, opinion)
        finding = opinion if is_current else _on_current_pod(under_way, opinion)
        if finding is None:
            under_way.decision, under_way.undecided = _gone(under_way, opinion), None
            return None
        evaluation = self._decide_or_wait(under_way, finding, now)
        under_way.decision, under_way.found = as_accepted(evaluation.decision), True
        return evaluation

    def _end(self, under_way: _EvaluationUnderWay, fault: PluginFault | None, now: float) -> None:
        """End an evaluation; only without a fault it says what has ended since the last one."""
        if fault is not None:
            self._under_way = None  # the subject may be evaluated for the capacity, too
        if under_way.found:
            self._follow_capacity(under_way.trigger, now)
        if fault is None:
            self._ending = self._end_in_steps(under_way)
            self._end_more()
            if self.faults.any:
                self.faults.succeeded(under_way.key)
        self._under_way = None
        self._node_fit.long_answers.end_wait()

    def _decide_or_wait(
        self, under_way: _EvaluationUnderWay, finding: Finding, now: float
    ) -> Evaluation:
        """Decide on a finding; that of a plan is kept where its decision waits for answers."""
        has_waited = under_way.undecided is not None
        is_plan = isinstance(under_way.key[0].plugin, BalancePlugin)
        if is_plan and not has_waited:
            finding = replace(finding, found_since_s=self._since_s(under_way, finding, now))
        under_way.undecided = finding if is_plan else None
        evaluation = self._decide(under_way, finding, now)
        under_way.undecided = None
        if has_waited and not under_way.is_again:
            self._node_fit.long_answers.end_wait()
        return evaluation

    def _since_s(self, under_way: _EvaluationUnderWay, finding: Finding, now: float) -> float:
        """Return since when a plan has had findings that wait about what this one is about.

        What it finds at the start may have been so for long. While the scores of the scheduler hold
        a finding there is no better place for its pod: one that comes, or the end of the pod's own,
        is as new as a cause. What one plan finds is as old as its beginning: how far it came in a
        slice of the event loop, before it waited for an answer, differs between processes.
        """
        began_s = under_way.key[0].view.now_s - (now - under_way.first_began_at)
        last = under_way.previous.get(_finding_key(under_way.key, finding))
        own_s = 0.0
        if last is not None:
            is_scored = last.decision.gate == GuardName.SCORED_ELSEWHERE
            own_s = began_s if is_scored else last.decision.finding.found_since_s
        first_s = 0.0 if under_way.trigger is self._start else began_s
        return max(own_s, under_way.found_since_s.setdefault(finding.about, first_s))

    def _end_in_steps(self, under_way: _EvaluationUnderWay) -> Iterator[None]:
        """Drop what was found before, and note the proposals that do not hold any more."""
        previous, decided = under_way.previous, under_way.decided
        for number, key in enumerate(list(previous), 1):
            blocked = previous.pop(key)
            if blocked.decision.gate == APPROVAL_GATE and key not in decided:
                self._ended_proposals.append((key[0].profile, blocked.decision.finding))
            if number % PORTION == 0:
                yield

    def _end_more(self) -> bool:
        """Take a step of what an evaluation that has ended leaves; say whether there was one."""
        if self._ending is None:
            return False
        self.steps += 1
        if next(self._ending, _END) is _END:
            self._ending = None
        return True

    def take_ended_proposals(self) -> Sequence[tuple[str, Finding]]:
        """Return, once, the profile and finding of each proposal that ended by itself."""
        if not self._ended_proposals:
            return ()
        ended, self._ended_proposals = self._ended_proposals, []
        return ended

    def _decide(self, under_way: _EvaluationUnderWay, finding: Finding, now: float) -> Evaluation:
        key, trigger = under_way.key, under_way.trigger
        finding_key = _finding_key(key, finding)
        under_way.decided.add(finding_key)
        last = under_way.previous.get(finding_key)
        backoff = self._backoff.backing_off(finding.pod.uid, now)
        decision: Decision = (
            key[0].gate.decide(finding, now)
            if backoff is None
            else _blocked_by_outcome(finding, backoff.outcome, backoff.until)
        )
        changed = last is None or not _is_same_answer(last.decision, decision)
        if not isinstance(decision, Evict):
            since = now if last is None or changed else last.since
            self.queue.block(finding_key, decision, since, trigger)
        instance, subject, _ = finding_key
        return Evaluation(
            instance.profile,
            subject,
            decision,
            trigger,
            now,
            changed,
            is_new=_is_new(last),
            instance=instance,
            mode=instance.mode,
            found_as_decided=not under_way.suspended,
        )


def _nothing() -> Opinions:
    yield from ()


def _finding_key(key: SubjectKey, finding: Finding) -> FindingKey:
    """Return a finding's identity; of a node that is split only its own pod is evaluated again."""
    instance, subject = key
    uid = finding.pod.uid
    is_split = instance.plugin.splits_nodes and isinstance(subject, NodeSubject)
    return instance, PodSubject(uid) if is_split else subject, uid


def _companions(evaluation: Evaluation) -> Iterator[Evaluation]:
    """Yield the evaluations of the pods that leave with another one."""
    decision = evaluation.decision
    if isinstance(decision, Evict):
        for each in decision.companions:
            yield replace(evaluation, decision=Evict(each), changed=True, is_new=False)


def _is_new(last: Blocked[SubjectKey, ChangeTrigger] | None) -> bool:
    """Say whether a finding was not blocked before, but for the time that it had to last."""
    return last is None or last.decision.gate == GuardName.STANDING_TIME


def _is_same_answer(last: BlockedDecision, decision: Decision) -> bool:
    """Say whether a finding is blocked again by the same gate, for the same reason."""
    return not isinstance(decision, Evict) and (last.gate, last.reason) == (
        decision.gate,
        decision.reason,
    )


def _is_current(under_way: _EvaluationUnderWay, finding: Finding) -> bool:
    """Say whether the finding is on a pod as the cluster has it: a plugin may keep one, or make it.

    Gates rely on every field of a pod.
    """
    return under_way.key[0].view.pod(finding.pod.uid) is finding.pod


def _on_current_pod(under_way: _EvaluationUnderWay, finding: Finding) -> Finding | None:
    """Return the finding on the pod as it is now; None where the plugin would not see it."""
    instance = under_way.key[0]
    completed_too = instance.plugin.judges_completed_pods
    find = instance.view.pod_and_node if completed_too else instance.view.active_pod
    if (found := find(finding.pod.uid)) is None:
        return None
    return finding if found[0] is finding.pod else replace(finding, pod=found[0])


def _gone(under_way: _EvaluationUnderWay, finding: Finding) -> Refuse:
    """Return what the plugin receives for a pod that it would not see any more."""
    pod = under_way.key[0].view.pod(finding.pod.uid)
    leaves = pod is None or not pod.is_active
    return POD_GONE.refuse(finding, "the pod is gone, or its node not eligible", pod_leaves=leaves)


def _blocked_by_outcome(finding: Finding, outcome: Outcome, until: float) -> BlockedDecision:
    """Return the decision on a finding whose eviction failed: it waits for the backoff."""
    message = outcome.message or outcome.reason or outcome.result
    if outcome.result == PDB_REFUSED:
        wakes = (WakeOnPdb(finding.pod.namespace), WakeOnPod(finding.pod.uid))
        return DISRUPTION_BUDGET.refuse(finding, message, wakes, until)
    message = f"the last eviction attempt ended as {outcome.result} ({message})"
    end = WaitEnd("; the next attempt comes", until)
    return BACKING_OFF.defer(finding, message, until, end=end)
