"""The way of a change: cluster state -> subjects -> findings -> decisions -> intents -> outcomes.

All that decides is synchronous. Reflectors call `apply` through a `ResourceEventHandler`, the
`Worker` drains `work`, and the `EvictionPool` executes the intents and calls `settle`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from reactive_desched.controller.backoff import PodBackoff
from reactive_desched.controller.evaluator import NEVER_FLAPPING, Evaluator
from reactive_desched.controller.flapping import FlappingConfig
from reactive_desched.controller.pending import (
    PendingList,
    PendingQuery,
    PendingSummary,
    list_pending,
    summarize_pending,
)
from reactive_desched.controller.readiness import BRAKE, JOURNAL, LEADER, MANUAL, Readiness
from reactive_desched.controller.subscriptions import PluginInstance
from reactive_desched.controller.suspend import SuspendDetector
from reactive_desched.election.leadership import Leadership
from reactive_desched.eviction.executor import EvictionResult
from reactive_desched.eviction.recorder import DecisionRecorder
from reactive_desched.gate.factory import GateFactory
from reactive_desched.gate.limit_status import LimitStatus
from reactive_desched.gate.profile_view import ProfileView
from reactive_desched.model.accounts import DecisionContext
from reactive_desched.model.brakes import SavedBrakes
from reactive_desched.model.changes import Change, Resynced
from reactive_desched.model.decisions import Evict
from reactive_desched.model.evaluation import Evaluation
from reactive_desched.model.history import PastEviction
from reactive_desched.model.intents import Intent
from reactive_desched.model.objects import Pod, PodKey
from reactive_desched.model.observer import Observer
from reactive_desched.model.outcomes import (
    DECISION_OUTDATED,
    EVICTIONS_PAUSED,
    POD_LEAVES,
    POLICY_CHANGED,
    Outcome,
)
from reactive_desched.policy.configuration import Configuration
from reactive_desched.primitives.deadline_heap import earliest
from reactive_desched.primitives.debounce import DebounceConfig
from reactive_desched.primitives.wakeup import Latch, Wakeup
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.index_registry import IndexKey
from reactive_desched.state.indexes.owners import OwnerIndex
from reactive_desched.state.view import ClusterView
from reactive_desched.telemetry.metrics import Metric

DECISION_TTL_S: Final = 5.0
"""An eviction that was decided longer ago is not requested: its pod is evaluated again."""


class Controller:
    """Turns changes of the cluster into decisions and intents, and settles their outcomes.

    `clock` is the event loop's monotonic clock, `wall_clock` the time of day, both in seconds.
    While a pause holds, another process leads, or the recorder has a fault, changes are taken in
    and nothing is decided.
    """

    def __init__(
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
    ) -> None:
        self.readiness = readiness
        self.state = ClusterState(config.policy.node_selector)
        self.view = ClusterView(self.state, wall_clock)
        self.gates = GateFactory(self.view, clock, config)
        self._backoff = PodBackoff(config.settings.evictions.retry)
        instances = plugin_instances(config, self.state, self.gates, wall_clock)
        self.evaluator = Evaluator(
            instances, self._backoff, self.gates.node_fit, flapping_config(config)
        )
        self.leadership = Leadership(suspend.clock)
        self.initial_sync_done = Latch()
        self._config = config
        self._recorder = recorder
        self._observer = observer
        self._work_available = work_available
        self._suspend = suspend
        self._clock = clock
        self._wall_clock = wall_clock
        self._recorder_fault = self._leader_fault = ""
        self._evicting: dict[PodKey, Evaluation] = {}
        self._superseded: set[PodKey] = set()
        self._evicted = 0

    def apply(self, changes: Sequence[Change], version: int = 0) -> bool:
        """Enqueue the subjects that these changes concern; say whether the worker should look.

        `version` is the resourceVersion of the object they came from. The changes of the initial
        sync are ignored: at its end every subject is evaluated.
        """
        if not self.evaluator.started:
            return False
        self._observer.on_changes(changes)
        now = self._clock()
        concerns_brakes = self.gates.apply_changes(changes)
        enqueued = self.evaluator.apply_changes(changes, now, version)
        concerns_moves = self.gates.moves.apply_changes(changes, now)
        return self._follow_up(now) or enqueued or concerns_brakes or concerns_moves

    def next_due(self, now: float) -> float | None:
        """Return when there is work, or a brake may be released; None where neither is foreseen.

        While a pause holds there is no work.
        """
        is_paused = bool(self.pause_reason())
        if not is_paused and not self.evaluator.started:
            return now
        brakes_due = self.gates.brakes.next_due
        if is_paused:
            return brakes_due
        return earliest(brakes_due, self.evaluator.next_due(now), self.gates.moves.next_due())

    def work(self, now: float, should_yield: Callable[[], bool]) -> Iterator[Intent]:
        """Evaluate due subjects and yield an intent for each pod to evict, until `should_yield`."""
        if not self.evaluator.started:
            self.gates.rate_limiter.begin_warm_up(now)
            self.gates.brakes.start(now)
            self.gates.moves.adopt(now)
            self.evaluator.resync(now)
            self._observer.on_initial_sync(self.size())
            self.initial_sync_done.set()
            if self.pause_reason():
                return
        self.gates.moves.expire(now)
        self._follow_up(now)
        for evaluation in self.evaluator.process_due(now, should_yield):
            self.gates.brakes.count(evaluation)
            if evaluation.changed:
                context = decision_context(evaluation, self.view)
                self._recorder.record_decision(context, evaluation.decision)
                if isinstance(evaluation.decision, Evict):
                    self._evicting[evaluation.finding.pod.uid] = evaluation
                    yield Intent(context, self._config.policy.grace_period_s)
            self._observer.on_decision(evaluation)

    def cancelled(self, intent: Intent) -> Outcome | None:
        """Return the outcome of a decided eviction that must not be sent; None when it may."""
        if intent.pod.uid in self._superseded:
            return POLICY_CHANGED.outcome("the policy or the settings changed")
        if pause := self.pause_reason() or self.gates.brakes.reason_to_keep(intent.pod):
            return EVICTIONS_PAUSED.outcome(pause)
        return self._outdated(intent)

    def _outdated(self, intent: Intent) -> Outcome | None:
        """Return the outcome of a decision that waited too long, or whose pod differs by now."""
        decided = intent.pod
        pod = self.view.pod(decided.uid)
        if pod is None or pod.is_terminating or pod.node != decided.node:
            return DECISION_OUTDATED.outcome("the pod has left its node since the decision")
        if pod is not decided and _differs(pod, decided):
            return DECISION_OUTDATED.outcome("the pod has changed since the decision")
        waited_s = self._clock() - self._evicting[decided.uid].decided_at
        if waited_s > DECISION_TTL_S:
            return DECISION_OUTDATED.outcome(f"the decision waited {waited_s:.0f} s for its turn")
        return None

    def settle(self, result: EvictionResult) -> None:
        """Release what an intent reserved; what did not happen is evaluated again later."""
        uid = result.intent.pod.uid
        evaluation = self._evicting.pop(uid)
        self._superseded.discard(uid)
        now = self._clock()
        self.gates.moves.name_request(uid, result.request_id)
        self.evaluator.settle(evaluation, result.outcome, now)
        self._evicted += result.outcome.result in POD_LEAVES
        self._follow_up(now)
        self._observer.on_outcome(evaluation, result.outcome, result.sent_at)
        self._work_available.notify()

    def restore(self, past: Sequence[PastEviction]) -> None:
        """Restore what limits and gates count from the evictions of earlier processes."""
        self.gates.restore(past, self._clock(), self._wall_clock())

    def begin_without_history(self) -> None:
        """Begin with every rate limit used up: what another process evicted is not known."""
        self.gates.rate_limiter.begin_empty(self._clock())

    def inherit_eviction(self, pod: PodKey) -> None:
        """Do not evict this pod: the request of an earlier process may still evict it."""
        self.gates.in_flight.inherit(pod)

    def end_inherited_eviction(self, pod: PodKey, outcome: Outcome) -> None:
        """Evaluate the pod again: an earlier process's eviction of it has its outcome."""
        now = self._clock()
        self.gates.end_inherited(pod, outcome, now)
        self.evaluator.eviction_ended(pod, now)
        self._follow_up(now)
        self._work_available.notify()

    def _follow_up(self, now: float) -> bool:
        """Record the moves that ended, and wake what waited for that; say whether any did."""
        if not self.gates.moves.has_ended_or_released:
            return False
        for ended in () if self._recorder.fault else self.gates.moves.take_ended():
            if ended.request_id:
                self._recorder.record_follow_up(ended.request_id, ended.end)
            self._observer.on_move_ended(ended)
        released = self.gates.room_for_moves()
        return bool(released) and self.evaluator.apply_changes(released, now)

    def pause_reason(self) -> str:
        """Name the first pause; empty for none.

        Before that, checks for a suspend, a fault of the recorder, the end of a term, and brakes
        whose time has come.
        """
        if suspended_s := self._suspend.check():
            self._observer.on_suspend(suspended_s)
            self.readiness.pause_sync(f"the process was suspended for {suspended_s:.0f} s")
        if (fault := self._recorder.fault) != self._recorder_fault:
            self._recorder_fault = fault
            if fault:
                self.readiness.pause(JOURNAL, fault)
            else:
                self.readiness.resume(JOURNAL)
                self._record_brake_notices()
        if (fault := self.leadership.fault) != self._leader_fault:
            self._leader_fault = fault
            if fault:
                self.readiness.pause(LEADER, fault)
            else:
                self.readiness.resume(LEADER)
        if self.gates.brakes.is_due(now := self._clock()):
            self._update_brakes(now)
        return self.readiness.reason

    def pause(self, by: str, reason: str, for_s: float | None) -> None:
        """Pause evictions by command, until `resume` or for so many seconds; `by` is who did it."""
        self.gates.brakes.pause_by_command(by, reason, for_s)
        self.pause_reason()
        self._work_available.notify()

    def resume(self, by: str, reason: str) -> None:
        """End a pause by command, and release the storm brake."""
        self.gates.brakes.resume_by_command(by, reason)
        self.pause_reason()
        self._work_available.notify()

    def restore_brakes(self, saved: SavedBrakes) -> None:
        """Go on with what an earlier process saved; call it before any work."""
        self.gates.brakes.restore(saved)
        self.pause_reason()

    def saved_brakes(self) -> SavedBrakes:
        """Return what of the brakes is to outlive a restart."""
        return self.gates.brakes.saved

    def confirm_brakes_kept(self, kept: SavedBrakes | None) -> None:
        """Take in what a restart would go on with, None where nothing keeps it, and show it."""
        self.gates.brakes.confirm_kept(kept)
        self._record_brake_notices()

    async def brakes_changed(self) -> None:
        """Return when a brake engages or is released."""
        await self.gates.brakes.changed.wait()

    def brake_messages(self) -> Mapping[str, str]:
        """Return why each brake holds evictions; empty for one that does not."""
        return self.gates.brakes.messages()

    def set_pause_file(self, text: str) -> None:
        """Take in what the pause file says; empty where there is none."""
        self.gates.brakes.set_pause_file(text)
        self.pause_reason()

    def _update_brakes(self, now: float) -> None:
        """Engage and release brakes, record that, and evaluate again what they held.

        The rates warm up again: all that a brake of the whole cluster held may be due at once.
        """
        brakes = self.gates.brakes
        released = brakes.update(now)
        for name, reason in ((MANUAL, brakes.pause.reason), (BRAKE, brakes.zones.stop_reason)):
            if reason:
                self.readiness.pause(name, reason)
            else:
                self.readiness.resume(name)
        self._record_brake_notices()
        if released:
            self.gates.rate_limiter.begin_warm_up(now)
            self.evaluator.apply_changes(released, now)
            self._work_available.notify()

    def _record_brake_notices(self) -> None:
        """Record what engaged and what was released; while nothing can be recorded it waits."""
        if not self._recorder.fault:
            for notice in self.gates.brakes.take_notices():
                self._recorder.record_brake(notice)
                self._observer.on_brake(notice)

    def reconfigure(self, config: Configuration) -> None:
        """Apply another configuration and evaluate every subject again.

        The cluster state stays, and so does what protects the cluster: evictions in flight, counted
        evictions, spent tokens, back-offs, reservations. Intents that were not sent yet are
        cancelled. `evictions.maxInFlight` stays as it was at the start.
        """
        now = self._clock()
        self._config = config
        self._superseded = set(self._evicting)
        self._backoff.reconfigure(config.settings.evictions.retry)
        changes = self.state.set_node_selector(config.policy.node_selector)
        self.gates.reconfigure(config, now)
        instances = plugin_instances(config, self.state, self.gates, self._wall_clock)
        self.evaluator.reconfigure(instances, self.gates.node_fit, now, flapping_config(config))
        if self.evaluator.started:
            changes = [Resynced(), *changes]
            self._observer.on_changes(changes)
            self.gates.apply_changes(changes)
        self._work_available.notify()

    def clear_futile(self, owner_uid: str) -> int:
        """Forget an owner's moves, or with an empty uid all, and evaluate everything again.

        Returns of how many owners there was a memory.
        """
        cleared = self.gates.memory.clear(owner_uid)
        if self.evaluator.started:
            self.evaluator.resync(self._clock())
        self._work_available.notify()
        return cleared

    def evicting(self, pod: PodKey) -> Evaluation | None:
        """Return the evaluation that decided to evict a pod, until the eviction has its outcome."""
        return self._evicting.get(pod)

    def pending(self, query: PendingQuery) -> PendingList:
        """List the findings that wait, and what each waits for."""
        return list_pending(
            self.evaluator.pending(),
            query,
            pause=self.pause_reason(),
            subjects=self.evaluator.queued,
            flapping=tuple(self.evaluator.flaps.flapping(self._clock())),
            now=self._clock(),
            wall_now=self._wall_clock(),
        )

    def pending_summary(self) -> PendingSummary:
        """Count the findings that wait, by what blocks them."""
        return summarize_pending(
            self.evaluator.pending(),
            subjects=self.evaluator.queued,
            flapping=tuple(self.evaluator.flaps.flapping(self._clock())),
            wall_offset=self._wall_clock() - self._clock(),
        )

    def collect(self) -> Iterator[Metric]:
        """Yield how many subjects and findings wait, and how many tokens are left."""
        yield from self.evaluator.collect()
        yield from self.gates.brakes.collect()
        yield from self.gates.moves.collect()
        yield from self.gates.memory.collect(self._clock())
        yield from self.gates.rate_limiter.collect(self._clock())
        yield from self.gates.schedules.collect()

    def describe_brakes(self) -> dict[str, str]:
        """Say each brake in force to a person, as it is for the cluster of now."""
        return self._config.settings.brakes.describe(len(self.state.pods))

    def limit_status(self) -> LimitStatus:
        """Return what every limit allows now."""
        return self.gates.limit_status(self._clock())

    def warm_up_ratio(self) -> float:
        """Return the share of the rates that counts now: 1 when warmed up."""
        return self.gates.rate_limiter.warm_up_ratio_at(self._clock())

    def describe_moves(self) -> dict[str, str]:
        """Say to a person how many pods may be moving, and how long they are left alone."""
        return self._config.settings.moves.describe()

    def describe_limits(self) -> dict[str, str]:
        """Say each limit in force to a person, as it is for the cluster of now."""
        limits, nodes = self._config.policy.limits, self.view.eligible_node_count
        return self._config.settings.budgets.describe(limits, nodes)

    def is_busy(self) -> bool:
        """Say whether subjects wait for their evaluation now."""
        due = self.next_due(now := self._clock())
        return due is not None and due <= now

    def count_findings(self) -> dict[str, int | dict[str, int]]:
        """Count the findings since the start: of pods that left, or are leaving, others by gate."""
        blocked = self.evaluator.blocked_by_gate
        evicting = len(self._evicting)
        return {
            "findings": self._evicted + evicting + sum(blocked.values()),
            "evicted": self._evicted,
            "evicting": evicting,
            "blocked": blocked,
        }

    def size(self) -> dict[str, int]:
        """Count the nodes that the policy selects, and all pods."""
        return {"nodes": self.state.nodes.eligible_count, "pods": len(self.state.pods)}


def _differs(pod: Pod, decided: Pod) -> bool:
    """Say whether a pod differs from the one decided on in what plugins and gates read of it."""
    return (
        pod.annotations != decided.annotations
        or pod.labels != decided.labels
        or pod.spec != decided.spec
        or pod.owners != decided.owners
    )


def flapping_config(config: Configuration) -> FlappingConfig:
    """Say when an object flaps, and how long its subjects wait then."""
    settings = config.settings.debounce.flapping
    if settings is None:
        return NEVER_FLAPPING
    wait = DebounceConfig(settings.quiet_s, settings.max_wait_s)
    return FlappingConfig(settings.changes, settings.per_s, wait)


def plugin_instances(
    config: Configuration,
    state: ClusterState,
    gates: GateFactory,
    wall_clock: Callable[[], float],
) -> list[PluginInstance]:
    """Build the plugins of each profile, and keep the indexes that they and the gates read."""
    instances: list[PluginInstance] = []
    indexes: list[IndexKey] = []
    ignored_taints = config.settings.guards.left_marks.keys()
    for profile in config.policy.profiles:
        evictor = gates.evictor(profile.evictor)
        gate = gates.gate(evictor)
        view = ProfileView(
            state, wall_clock, evictor, gates.node_fit, gates.in_flight, ignored_taints
        )
        indexes += ((kind, None) for kind in gate.indexes)
        indexes += gates.brakes.indexes
        for plugin in profile.plugins:
            indexes += plugin.required_indexes
            debounce = config.settings.debounce
            instances.append(
                PluginInstance(
                    profile.name,
                    plugin,
                    gate,
                    view,
                    debounce.for_plugin(plugin.name),
                    debounce.by_change(plugin.name),
                )
            )
    state.keep_indexes(indexes)
    return instances


def decision_context(evaluation: Evaluation, view: ClusterView) -> DecisionContext:
    """Gather what journal records say of a decision besides itself."""
    pod = evaluation.finding.pod
    return DecisionContext(
        evaluation.finding,
        evaluation.profile,
        evaluation.trigger.record,
        view.index(OwnerIndex).chain(pod),
        view.zone(pod.node),
    )
