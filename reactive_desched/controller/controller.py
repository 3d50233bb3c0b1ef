"""The way of a change: cluster state -> subjects -> findings -> decisions -> intents -> outcomes.

All that decides is synchronous. Reflectors call `apply` through a `ResourceEventHandler`, the
`Worker` drains `work`, and the `EvictionPool` executes the intents and calls `settle`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from reactive_desched.controller.asked_evaluations import (
    AskedEvaluation,
    AskedEvaluations,
    EvaluationScope,
    SelectedPods,
)
from reactive_desched.controller.asked_kinds import asked_kinds
from reactive_desched.controller.declared_drains import nodes_to_begin
from reactive_desched.controller.deletion_causes import CAUSES_READ
from reactive_desched.controller.disruptions import Disruptions, as_past
from reactive_desched.controller.evaluation_queue import NodeFitAnswers
from reactive_desched.controller.evaluator import Evaluator
from reactive_desched.controller.instances import PluginInstance, plugin_instances
from reactive_desched.controller.observing import BothCapacities, observes
from reactive_desched.controller.outdated_decisions import DecisionChecks
from reactive_desched.controller.pauses import EvictionPauses, SuspendDetector
from reactive_desched.controller.readiness import Readiness
from reactive_desched.controller.turn_clocks import TurnClocks
from reactive_desched.controller.turn_plan import TurnPlan
from reactive_desched.controller.work_queue import PodBackoff, flapping_config
from reactive_desched.eviction.client import IntentOwner
from reactive_desched.eviction.recorder import DecisionRecorder
from reactive_desched.gate.approval import proposal_id
from reactive_desched.gate.eviction_controls import (
    ChangeFollower,
    ChangeFollowers,
    EvictionControls,
)
from reactive_desched.ledger.eviction import Eviction
from reactive_desched.ledger.ledger import EvictionLedger
from reactive_desched.model.approvals import ProposalAnswer
from reactive_desched.model.changes import Change, EvaluationAsked, ProposalAnswered, Resynced
from reactive_desched.model.decisions import Evict
from reactive_desched.model.disruptions import RememberedEnd
from reactive_desched.model.evaluation import (
    ChangeTrigger,
    DecisionContext,
    Evaluation,
    EvictionResult,
    Intent,
)
from reactive_desched.model.findings import MoveSet
from reactive_desched.model.history import PastEviction
from reactive_desched.model.modes import ACT, PROPOSE
from reactive_desched.model.objects import Node, PodKey
from reactive_desched.model.observer import Observer
from reactive_desched.model.outcomes import (
    EVICTIONS_PAUSED,
    POD_LEAVES,
    POLICY_CHANGED,
    Outcome,
)
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.settings.drains import DrainRule
from reactive_desched.primitives.timers import earliest
from reactive_desched.primitives.wakeup import Latch, Wakeup
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.state.indexes.owners import OwnerIndex
from reactive_desched.state.resources import PODS

if TYPE_CHECKING:
    from reactive_desched.migration.migrations import Migrations


class Controller(IntentOwner):
    """Turns changes of the cluster into decisions and intents, and settles their outcomes.

    `clock` is the event loop's monotonic clock, `wall_clock` the time of day, both in seconds.
    While a pause holds, another process leads, or the recorder has a fault, changes are followed
    and nothing is decided. `evicted` is how many pods left since the start. What it is given, and
    noted, in one block of its `clocks` is at one moment.
    """

    def __init__(  # noqa: PLR0913 -- each is one part that others share, or a clock
        self,
        config: Configuration,
        *,
        readiness: Readiness,
        recorder: DecisionRecorder,
        observer: Observer,
        work_available: Wakeup,
        suspend: SuspendDetector,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        dry_run: bool = False,
    ) -> None:
        self._dry_run = dry_run
        self.observed: EvictionControls | None = None
        self.clocks: Final = TurnClocks(clock, wall_clock)
        plugin_clock, clock, wall_clock = clock, self.clocks.monotonic, self.clocks.wall
        self.readiness = readiness
        self.state = ClusterState(config.policy.node_selector, clock, wall_clock)
        self.view = ClusterView(self.state, wall_clock)
        self.ledger = EvictionLedger(self.view)
        self.gates = EvictionControls(self.view, clock, config, self.ledger, dry_run=dry_run)
        self.node_fit, self.memory = self.gates.node_fit, self.gates.memory
        self.evictor_rules, self.answers = self.gates.evictor_rules, self.gates.answers
        self.config = config
        self._clock, self._wall_clock = clock, wall_clock
        self._backoff = PodBackoff(config.controller.evictions.retry)
        self.migrations = self._build_migrations()
        self.asked = AskedEvaluations()
        self.ledger.add_participants(self.asked)
        self.observed = self._build_observed()
        instances = self._instances()
        self.evaluator = Evaluator(
            instances,
            self._backoff,
            self._capacity(),
            flapping_config(config),
            plugin_clock,
            self.gates.gangs,
        )
        self._checks = DecisionChecks(self.view, self.evaluator, clock)
        self._turns = self._turn_plans()
        self.pauses = EvictionPauses(
            readiness,
            self.gates,
            self.evaluator,
            recorder=recorder,
            observer=observer,
            work_available=work_available,
            suspend=suspend,
            clock=clock,
        )
        self.disruptions = Disruptions(
            self.view,
            recorder,
            self._is_evicting,
            self._count_late,
            self._count_foreign,
            observer,
            work_available,
            partial(readiness.is_in_sync, (PODS, *CAUSES_READ)),
            clock,
        )
        self._followers = ChangeFollowers(self._all_followers())
        self.initial_sync_done = Latch()
        self.evicted = self._steps = 0
        self._recorder = recorder
        self._observer = observer
        self._work_available = work_available
        self._clock = clock
        self._index_faults = 0
        self._selecting: Iterator[list[Change]] | None = None
        self._switch_off_readers()
        observer.on_plugins({each.name for each in instances})

    def _all_followers(self) -> Iterator[ChangeFollower]:
        """Yield the followers of changes of the cluster, each with its purpose, in any order.

        The evaluator comes after all of them: it takes the capacity that they found to be free.
        """
        for each in self.controls:
            yield from each.followers
        if self.migrations is not None:
            yield self.migrations  # jobs differ, or their pods do

    def _build_migrations(self) -> "Migrations | None":
        """Build what carries out migration jobs, which is loaded where the settings have them."""
        settings = self.config.controller.migration
        if settings is None:
            return None
        from reactive_desched.migration.migrations import Migrations

        migrations = Migrations(
            self.view, settings, self.ledger, self.node_fit, self._wall_clock, self._clock
        )
        self.ledger.add_participants(*migrations.participants)
        return migrations

    def _build_observed(self) -> EvictionControls | None:
        """Return the controls over evictions that are only observed, where a plugin has them so.

        Once there are some they stay: what was observed before a reload has its outcome yet to
        come. In a dry run everything is observed, under the controls of all.
        """
        if self.observed is not None or self._dry_run or not observes(self.config):
            return self.observed
        ledger = EvictionLedger(self.view)
        observed = EvictionControls(self.view, self._clock, self.config, ledger, self.gates)
        ledger.add_participants(self.asked)
        return observed

    @property
    def controls(self) -> tuple[EvictionControls, ...]:
        """The controls over evictions: of those that are carried out, and those observed."""
        return (self.gates,) if self.observed is None else (self.gates, self.observed)

    def _instances(self) -> list[PluginInstance]:
        return plugin_instances(
            self.config,
            self.state,
            self.gates,
            self._wall_clock,
            self.migrations,
            observed=self.observed,
            dry_run=self._dry_run,
        )

    def _capacity(self) -> NodeFitAnswers:
        if self.observed is None:
            return self.node_fit
        return BothCapacities(self.node_fit, self.observed.node_fit)

    def _turn_plans(self) -> tuple[TurnPlan, ...]:
        return tuple(
            TurnPlan(each.rate_limiter, self.evaluator, is_observed=each is self.observed)
            for each in self.controls
        )

    def _controls_of(self, eviction: Intent | Evaluation) -> EvictionControls:
        """Return the controls over evictions that are only observed, or over the others."""
        return (self.observed if eviction.is_observed else None) or self.gates

    @property
    def ignores_changes(self) -> bool:
        """Say whether the initial sync has not ended: at its end every subject is evaluated."""
        return not self.evaluator.started

    def apply(self, changes: Sequence[Change], version: int = 0) -> bool:
        """Enqueue the subjects that these changes concern; say whether the worker should look.

        `version` is the resourceVersion of the object they came from. Before the first evaluation
        they count for a brake alone that holds that up.
        """
        if self.ignores_changes:
            return self.pauses.look_again_at_brake()
        self._checks.note_change()
        self._observer.on_changes(changes)
        self._switch_off_readers()
        now = self._clock()
        concerned = self._followers.apply(changes, now)
        self.disruptions.apply_changes(changes, now, version)  # pods end by others, or by us late
        enqueued = self.evaluator.apply_changes(changes, now, version)
        self._report_faults()
        return self._follow_up(now) or enqueued or concerned

    def next_due(self, now: float) -> float | None:
        """Return when there is work, or a brake may be released; None where neither is foreseen.

        While a pause holds there is no work, but that moves end in a pause by a person or a brake,
        and that nodes follow another selector.
        """
        if self._selecting is None:
            self.pauses.update()
        return self.foreseen_due(now)

    def foreseen_due(self, now: float) -> float | None:
        """Return what `next_due` does, and release no brake: for who only asks."""
        if self._selecting is not None:
            return now
        is_paused = bool(self.readiness.reason)
        if not is_paused and not self.evaluator.started:
            return now
        ends_due = self.disruptions.next_due()
        brakes_due = self.gates.brakes.next_due
        moves_due = earliest(*(each.moves.next_due() for each in self.controls))
        if is_paused:
            return earliest(brakes_due, ends_due, moves_due if self._may_end_moves else None)
        turns_due = earliest(*(each.next_due(now) for each in self._turns))
        return earliest(brakes_due, self.evaluator.next_due(now), ends_due, moves_due, turns_due)

    @property
    def steps(self) -> int:
        """Count the steps of the work so far, the same in each process that is given the same."""
        return self._steps + self.evaluator.steps

    @property
    def _may_end_moves(self) -> bool:
        return self.readiness.is_paused_on_purpose and self.evaluator.started

    def work(self, should_yield: Callable[[], bool]) -> Iterator[Intent]:
        """Evaluate due subjects and yield an intent for each pod to evict, until `should_yield`.

        After that, record how pods ended that nothing explained in time. All of it is at one
        moment of the controller's clocks.
        """

        def ends_step() -> bool:
            self._steps += 1
            return should_yield()

        with self.clocks.still() as now:
            yield from self._evaluate(now, should_yield, ends_step)
            if self.disruptions.is_due(now):
                self.disruptions.expire(now, ends_step)

    def _evaluate(
        self, now: float, should_yield: Callable[[], bool], ends_step: Callable[[], bool]
    ) -> Iterator[Intent]:
        self._switch_off_readers()
        if not self._select_nodes(now, ends_step) or not self._has_started(now):
            return
        is_paused = bool(self.readiness.reason)
        if not is_paused or self._may_end_moves:
            for each in self.controls:
                each.moves.expire(now)
            self._follow_up(now)
        if is_paused:
            return
        yield from self._decide(now, should_yield)
        self._report_faults()
        if not self.evaluator.is_evaluating:
            self.asked.note_evaluated(now)
        for plan in self._turns:
            if not should_yield():
                plan.work(now, ends_step)

    def _select_nodes(self, now: float, should_yield: Callable[[], bool]) -> bool:
        """Let nodes follow the policy's selector; say whether all of them do.

        Nothing is evaluated before that: half of the nodes would be those of another policy. Then
        every subject is, so that the evaluator need not follow each node.
        """
        for changes in self._selecting or ():
            if changes and self.evaluator.started:
                self._observer.on_changes(changes)
                self._followers.apply(changes, now)
            if should_yield():
                return False
        self._selecting = None
        return True

    def _decide(self, now: float, should_yield: Callable[[], bool]) -> Iterator[Intent]:
        """Evaluate what is due, and record and count each decision."""
        for each in self.controls:
            each.follow_resync(under_way=self.evaluator.queue.is_resyncing)
        for evaluation in self.evaluator.process_due(now, should_yield):
            if evaluation.mode == ACT:
                self.gates.brakes.count(evaluation)
            if evaluation.changed:
                if evaluation.mode == PROPOSE:
                    self._record_annotated(evaluation)
                if (intent := self._record(evaluation)) is not None:
                    yield intent
            self.asked.note(evaluation)
            self._observer.on_decision(evaluation)
        self._record_ended_proposals()

    def _record_ended_proposals(self) -> None:
        """Record which proposals ended by themselves: what they found does not hold any more."""
        if not (ended := self.evaluator.take_ended_proposals()):
            return
        from reactive_desched.api.event import ProposalEnded  # what no preview needs
        from reactive_desched.journal.event_builder import who_payload

        for profile, finding in ended:
            pod, proposal = finding.pod, proposal_id(profile, finding)
            owners, zone = self.view.index(OwnerIndex).chain(pod), self.view.zone(pod.node)
            who, plugin = who_payload(pod, owners, zone), finding.plugin
            data = ProposalEnded(plugin=plugin, profile=profile, proposal=proposal, who=who)
            self._recorder.record(data, "proposals", version=proposal, cause="evaluation")

    def _record_annotated(self, evaluation: Evaluation) -> None:
        """Record the annotation by which an eviction that was proposed is decided on, if any."""
        decision, profile = evaluation.decision, evaluation.profile
        gate = self.gates.approval(profile)
        if (answer := gate.annotation_behind(decision, self._clock())) is None:
            return
        from reactive_desched.api.event import ProposalsApproved, ProposalsRejected

        proposal = proposal_id(profile, decision.finding)
        kind = ProposalsApproved if answer.approves else ProposalsRejected
        data = kind(
            by=answer.by,
            message=answer.reason,
            proposals=(proposal,),
            scope=answer.name,
            until=datetime.fromtimestamp(answer.until_s, UTC),
        )
        self._recorder.record(data, "proposals", version=proposal, cause="annotation")

    def _record(self, evaluation: Evaluation) -> Intent | None:
        """Record a decision that is new; return the intent of one to evict."""
        context = decision_context(evaluation, self.view)
        self._recorder.record_decision(context, evaluation.decision)
        controls = self._controls_of(evaluation)
        if not isinstance(evaluation.decision, Evict):
            controls.moved_workloads.count_blocked(context, evaluation.decision)
            return None
        eviction = controls.ledger.evaluated(evaluation)
        if evaluation.found_as_decided:
            self._checks.note_found(eviction)
        evictor = self.config.controller.evictions.evictor_of_intents(context.profile)
        return Intent(context, self.config.policy.grace_period_s, evictor)

    def _has_started(self, now: float) -> bool:
        """Begin to evaluate, every subject first, once no pause holds: the initial sync is done.

        Say whether that has begun and may go on.
        """
        if self.evaluator.started:
            return True
        if self.pauses.update():
            return False
        self._start(now)
        return not self.pauses.update()

    def _start(self, now: float) -> None:
        for each in self.controls:
            each.rate_limiter.begin_warm_up(now)
        self.gates.brakes.start(now)
        self.gates.moves.adopt(now)
        if self.migrations is not None:
            self.migrations.follow_all()
        self.disruptions.adopt_owners()
        self.evaluator.resync(now)
        self._observer.on_initial_sync(self.state.size())
        self.initial_sync_done.set()

    def _switch_off_readers(self) -> None:
        """Switch off the plugins that read an index which failed since the last call."""
        faults = self.state.index_faults
        if len(faults) != self._index_faults:
            self._index_faults = len(faults)
            self.evaluator.plugins.switch_off_readers(faults)
            self._report_faults()

    def _report_faults(self) -> None:
        for each in self.controls:
            for plugin, replacement, error in each.moves.take_unanswered():
                self.evaluator.plugins.gave_no_verdict(plugin, replacement, error, self._clock())
        if self.evaluator.faults.new:
            for fault in self.evaluator.faults.take_new():
                self._observer.on_plugin_fault(fault)
        if self.evaluator.slow_plugins.new:
            for slow in self.evaluator.slow_plugins.take_new():
                self._observer.on_slow_plugin(slow)

    def cancelled(self, intent: Intent) -> Outcome | None:
        """Return the outcome of a decided eviction that must not be sent; None when it may."""
        eviction = self._controls_of(intent).ledger.decided_here(intent.pod.uid)
        assert eviction is not None, "it has no outcome yet"
        if (outcome := self._why_cancelled(intent, eviction)) is not None:
            eviction.withhold()
        return outcome

    def caught_up(self, intent: Intent) -> None:
        """Let the decision count from now on: what it waited for shows, and all is asked again."""
        if (eviction := self._controls_of(intent).ledger.decided_here(intent.pod.uid)) is not None:
            eviction.judged_again(self._clock())

    def _why_cancelled(self, intent: Intent, eviction: Eviction) -> Outcome | None:
        if eviction.is_superseded:
            return POLICY_CHANGED.outcome("the policy or the settings changed")
        if pause := self.pauses.update() or self.gates.brakes.reason_to_keep(intent):
            return EVICTIONS_PAUSED.outcome(pause)
        outcome = self._checks.outdated(intent, eviction, self._controls_of(intent))
        self._report_faults()
        return outcome

    def requested(self, intent: Intent, request_id: str, sent_at: float) -> None:
        """Note the record of the request, which is sent next."""
        uid, evictor = intent.pod.uid, intent.options.evictor
        self._controls_of(intent).ledger.request(uid, request_id, sent_at, evictor)

    def effect_unknown(self, intent: Intent, error: str, within_s: float) -> None:
        """Log that the request may have evicted the pod."""
        self._observer.on_effect_unknown(intent, error, within_s)

    def settle(self, result: EvictionResult) -> None:
        """Release what an intent reserved; what did not happen is evaluated again later."""
        uid, ledger = result.intent.pod.uid, self._controls_of(result.intent).ledger
        eviction, now = ledger.decided_here(uid), self._clock()
        evaluation = None if eviction is None else eviction.evaluation
        assert evaluation is not None, "an intent has one outcome"
        ledger.end(uid, result.outcome, now)
        self.evaluator.settle(evaluation, result.outcome, now)
        if not result.intent.is_observed:
            self.evicted += result.outcome.result in POD_LEAVES
            self.disruptions.settle(as_past(result, self._wall_clock()))
        self._observer.on_outcome(evaluation, result.outcome, result.sent_at)
        self._follow_up(now)
        self._work_available.notify()

    def _follow_up(self, now: float) -> bool:
        """Record the moves that ended, and wake what waited for that; say whether any did."""
        for each in self.controls:
            if each.moves.has_ended_or_released:
                break
        else:
            return False
        for ended in () if self._recorder.fault else self.gates.moves.take_ended():
            if ended.request_id:
                self._recorder.record_follow_up(ended.request_id, ended.end)
            self._observer.on_move_ended(ended)
        rooms = (change for each in self.controls for change in each.room_for_moves())
        changes = [*self._store_arrivals(), *rooms]
        return bool(changes) and self.evaluator.apply_changes(changes, now)

    def _store_arrivals(self) -> list[Change]:
        """Store which pods came to a node by a plugin's moves; return what that changes."""
        arrivals, state = self.gates.moves.take_arrivals(), self.state
        return [
            change
            for each in arrivals
            for change in (state.upsert(each) if each.pods else state.remove(each))
        ]

    def restore(self, past: Sequence[PastEviction], ends: Iterable[RememberedEnd] = ()) -> None:
        """Restore what limits and gates count from the evictions of earlier processes.

        `ends` are the ends of pods by something else that they recorded.
        """
        now, wall_now = self._clock(), self._wall_clock()
        self.gates.restore(past, now, wall_now)
        self.evaluator.follow_gangs(now)
        self._store_arrivals()
        self.disruptions.restore(past, ends)

    def begin_without_history(self) -> None:
        """Begin with every rate limit used up: what another process evicted is not known.

        What it may have requested and is carried out later counts, too.
        """
        self.gates.begin_empty(self._clock())
        self.disruptions.begin_without_history()

    def warm_up_from(self, began: float) -> None:
        """Let the rates have warmed up since an earlier moment, in monotonic seconds."""
        self.gates.rate_limiter.begin_warm_up(began)

    def inherit_eviction(self, pod: PodKey) -> None:
        """Do not evict this pod: the request of an earlier process may still evict it."""
        self.ledger.inherit(pod, self._clock(), self._wall_clock())

    def end_inherited_eviction(self, pod: PodKey, outcome: Outcome) -> None:
        """Evaluate the pod again: an earlier process's eviction of it has its outcome."""
        now = self._clock()
        self.ledger.end_inherited(pod, outcome, now, self._wall_clock())
        self.evaluator.eviction_ended(pod, now)
        self.disruptions.end_inherited(pod, outcome)
        self._follow_up(now)
        self._work_available.notify()

    def _is_evicting(self, pod: PodKey) -> bool:
        return self.ledger.is_under_way(pod)

    def _count_late(self, past: PastEviction) -> None:
        """Count an eviction that happened after its outcome had said that it did not."""
        now, wall_now = self._clock(), self._wall_clock()
        self.gates.count_late(past, now, wall_now)
        if self.migrations is not None:
            self.migrations.follow_all()

    def _count_foreign(self, past: PastEviction) -> None:
        """Count an eviction that may be of a leader whose record this process lacks."""
        self.ledger.count(past, self._clock(), self._wall_clock())

    def reconfigure(self, config: Configuration) -> None:
        """Apply another configuration and evaluate every subject again.

        Where the policy selects other nodes, they follow before the next evaluation. The cluster
        state stays, and so does what protects the cluster: evictions in flight, counted
        evictions, spent tokens, back-offs, reservations. Intents that were not sent yet are
        cancelled. `evictions.maxInFlight` stays as it was at the start.
        """
        now = self._clock()
        self.config = config
        self.readiness.set_asked(asked_kinds(config))
        for each in self.controls:
            each.ledger.supersede()
        self._backoff.reconfigure(config.controller.evictions.retry)
        if (selector := config.policy.node_selector) != self.state.nodes.selector:
            self._selecting = self.state.set_node_selector(selector)
        for each in self.controls:
            each.reconfigure(config, now)
        self._store_arrivals()
        self._observe(now)
        instances = self._instances()
        self.evaluator.reconfigure(instances, self._capacity(), now, flapping_config(config))
        self._turns = self._turn_plans()
        self._index_faults = 0
        self._switch_off_readers()
        self._observer.on_plugins({each.name for each in instances})
        if self.evaluator.started:
            self._observer.on_changes([Resynced()])
            self._followers.apply([Resynced()], now)
        self._work_available.notify()

    def _observe(self, now: float) -> None:
        """Begin to observe where the configuration is the first that has something observed."""
        before, self.observed = self.observed, self._build_observed()
        if self.observed is not None and before is None:
            self._followers = ChangeFollowers(self._all_followers())
            self.observed.rate_limiter.begin_warm_up(now)

    def nodes_to_begin(self, rule: DrainRule, begun: Collection[str]) -> Iterator[Node]:
        """Yield the nodes whose drain a rule begins now; `begun` as `declared_drains` has it."""
        return nodes_to_begin(rule, self.view, self.gates.brakes.zones, begun)

    def sets_to_begin(self) -> Sequence[MoveSet]:
        """Return the sets of moves that all gates let go, and that lack taint or nomination."""
        return self.gates.move_sets.ready(self._clock())

    def nodes_that_follow(self) -> Sequence[str]:
        """Return the nodes that are emptied after the one of now, and that lack the taint."""
        return self.gates.move_sets.following(self._clock())

    def rooms_under_way(self) -> Sequence[MoveSet]:
        """Return the sets of moves that make room for pods which still wait."""
        return self.gates.move_sets.rooms(self._clock())

    def evaluate(
        self, scope: EvaluationScope, selected: SelectedPods, by: str, reason: str
    ) -> AskedEvaluation:
        """Evaluate what a person asks for, at once, through the same gates and limits."""
        now = self._clock()
        asked = self.asked.add(scope, selected, by, reason, now)
        instances = [
            each for each in self.evaluator.instances if scope.takes(each.profile, each.name)
        ]
        trigger = ChangeTrigger(EvaluationAsked(str(scope), by), now)
        self.evaluator.evaluate_some(instances, selected.concern, trigger, now)
        self._work_available.notify()
        return asked

    def answer_proposals(self, proposals: Sequence[str], answer: ProposalAnswer) -> None:
        """Take a person's answer to proposals; raises ConfigError above a bound.

        Each pod is evaluated again, by every gate.
        """
        now = self._clock()
        self.gates.answers.give(proposals, answer, now, self._wall_clock())
        answered = [ProposalAnswered(each, answer.by) for each in proposals]
        if answered:
            self._checks.note_change()  # a decision that stood until now is looked at again
            self.evaluator.apply_changes(answered, now)
        self.gates.brakes.changed.notify()
        self._work_available.notify()

    def decided_proposals(self) -> Iterator[Evaluation]:
        """Yield what was approved, and whose request was not sent yet: a rejection ends that."""
        for each in tuple(self.ledger):
            evaluation = each.evaluation
            if each.requested_at is None and evaluation and evaluation.mode == PROPOSE:
                yield evaluation

    def clear_futile(self, owner_uid: str) -> int:
        """Forget an owner's moves, or with an empty uid all, and evaluate everything again.

        Returns of how many owners there was a memory.
        """
        cleared = self.memory.clear(owner_uid)
        self._store_arrivals()
        if self.evaluator.started:
            self.evaluator.resync(self._clock())
        self._work_available.notify()
        return cleared


def decision_context(evaluation: Evaluation, view: ClusterView) -> DecisionContext:
    """Gather what journal records say of a decision besides itself."""
    finding = evaluation.decision.finding
    pod = finding.pod
    return DecisionContext(
        finding,
        evaluation.profile,
        evaluation.trigger.record,
        view.index(OwnerIndex).chain(pod),
        view.zone(pod.node),
        evaluation.is_observed,
    )
