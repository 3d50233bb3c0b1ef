"""Puts the parts together, without the edges: from a policy to something that can be fed.

Everything that touches the world comes in as an argument, so the demo, the benchmark and the
tests drive the very same assembly that `run` does.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import anyio

from reactive_desched.api.index import Index
from reactive_desched.controller.backoff import PodBackoff
from reactive_desched.controller.evaluator import Evaluator
from reactive_desched.controller.event_handler import ResourceEventHandler
from reactive_desched.controller.subscriptions import PluginInstance
from reactive_desched.controller.suspend import SuspendDetector
from reactive_desched.controller.sync import SyncStatus
from reactive_desched.controller.worker import MonotonicClock, Worker
from reactive_desched.errors import Malformed
from reactive_desched.eviction.executor import EvictionPool, Evictor, effect_timeout
from reactive_desched.eviction.executor import IntentStore as IntentLedger
from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.fit.upstream import UPSTREAM, NodeFit, UpstreamNodeFit
from reactive_desched.gate.conflict_partners import ConflictPartnersLeaving
from reactive_desched.gate.disruption import PdbFilter
from reactive_desched.gate.evictor import DefaultEvictor, MinReadyNodes
from reactive_desched.gate.gate import Gate
from reactive_desched.gate.in_flight import InFlightEvictions
from reactive_desched.gate.profile_view import ProfileView
from reactive_desched.gate.rate_limits import TOKENS, EvictionRateLimiter
from reactive_desched.gate.windows import SlidingWindowLimits
from reactive_desched.model.accounts import DecisionContext
from reactive_desched.model.changes import Change, Resynced
from reactive_desched.model.decisions import CapacityHint, Decision, Evict
from reactive_desched.model.evaluation import Evaluation
from reactive_desched.model.intents import Intent
from reactive_desched.model.objects import PodKey
from reactive_desched.model.outcomes import POD_LEAVES, Outcome
from reactive_desched.policy.policy import Configuration
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.indexes.owners import OwnerIndex
from reactive_desched.state.resources import OPTIONAL_RESOURCES, RESOURCES
from reactive_desched.state.view import ClusterView
from reactive_desched.telemetry.metrics import Metric


class Observer(Protocol):
    """Hears what happens, to count, log or print it; must be quick and must not raise."""

    def on_changes(self, changes: Iterable[Change]) -> None:
        """These changes came in."""
        ...

    def on_decision(self, evaluation: Evaluation) -> None:
        """A finding was decided on."""
        ...

    def on_outcome(self, evaluation: Evaluation, outcome: Outcome, sent_at: float, /) -> None:
        """An eviction has its outcome; the server was asked at `asked_at`, in monotonic seconds."""
        ...

    def on_pause(self, reason: str | None) -> None:
        """Nothing is judged or evicted from now on, for this reason; None means it is again."""
        ...

    def on_malformed(self, resource: str, error: Malformed, /) -> None:
        """An object could not be read and was skipped."""
        ...


class DecisionRecorder(IntentLedger, Protocol):
    """The durable record of verdicts, of intents and of their ends."""

    def record_decision(self, context: DecisionContext, decision: Decision) -> None:
        """Write down a verdict that is news, soon; nobody waits for it."""
        ...


class Controller:
    """The descheduler between its edges: feeds in, evictions out.

    `clock` is the loop's monotonic clock, `wall_clock` the time of day, both in seconds. Nothing
    is judged or evicted before `vigil` had its look.
    """

    def __init__(
        self,
        config: Configuration,
        *,
        recorder: DecisionRecorder,
        evictor: Evictor,
        observer: Observer,
        clock: MonotonicClock,
        wall_clock: Callable[[], float],
        write_block_reason: Callable[[], str | None] = lambda: None,
        suspend_detector: SuspendDetector | None = None,
    ) -> None:
        policy, settings = config.policy, config.settings
        self.state = ClusterState(policy.node_selector)
        self.view = ClusterView(self.state, wall_clock)
        self.sync_status = SyncStatus(RESOURCES, self._sync_changed, optional=OPTIONAL_RESOURCES)
        self.rate_limiter = EvictionRateLimiter(settings.budgets.by_scope())
        self._window_limits = SlidingWindowLimits(policy.limits.by_scope())
        self.in_flight = InFlightEvictions(clock)
        self.suspend_detector = suspend_detector or SuspendDetector(clock)
        self._config = config
        self._clock = clock
        self._wall_clock = wall_clock
        self._observer = observer
        self._recorder = recorder
        self._node_fits: dict[str, NodeFit] = {}
        self._node_fit = self._node_fit_for(settings.node_fit)
        self._pdb_filter = PdbFilter(self.view, clock)
        self._evicting: dict[PodKey, Evaluation] = {}
        self.initial_sync_done = anyio.Event()
        self._write_block_reason = write_block_reason
        self.paused_reason: str | None = "still starting"
        self._reported_pause: str | None = self.paused_reason
        self._backoff = PodBackoff(settings.evictions.retry)
        self.evaluator = Evaluator(
            self._instances(),
            self._on_decision,
            backoff=self._backoff,
            on_capacity_increase=self._capacity_increased,
            capacity_hints=self._capacity_hints,
        )
        self.worker = Worker(self.evaluator, self._may_evaluate, clock)
        self.evictions = EvictionPool(
            recorder,
            evictor,
            self.idle_reason,
            self._on_outcome,
            clock,
            max_concurrent=settings.evictions.max_in_flight,
            effect_timeout_s=effect_timeout(settings.client.total_timeout_s),
        )

    def reconfigure(self, config: Configuration) -> None:
        """Use another policy and other settings, and evaluate everything again.

        The picture stays, and so does every memory that protects: evictions under way, what was
        counted and spent, rests after failures, bookings. What was decided and not yet asked for
        is withheld. How many evictions may be under way at once, and how long an eviction of
        unknown effect is waited for, stay as they were at the start.
        """
        now = self._clock()
        self._config, policy, settings = config, config.policy, config.settings
        self.evictions.cancel_pending("the policy changed")
        self.rate_limiter.reconfigure(settings.budgets.by_scope(), self.in_flight.pods(), now)
        self._window_limits.reconfigure(policy.limits.by_scope(), self.in_flight.pods())
        self._backoff.reconfigure(settings.evictions.retry)
        changes = self.state.set_node_selector(policy.node_selector)
        self._node_fit = self._node_fit_for(settings.node_fit)
        self._node_fit.clear_unschedulable()
        self.evaluator.reconfigure(self._instances(), now)
        if self.evaluator.started:
            self._notify([Resynced(), *changes])
            self.worker.wake(now)

    def event_handler(self, resource: str) -> ResourceEventHandler:
        """Make the way in for one resource."""
        malformed = self._observer.on_malformed
        return ResourceEventHandler(
            resource, self.state, self.sync_status, self.apply_changes, malformed
        )

    def idle_reason(self) -> str | None:
        """Say why nothing may be judged or evicted now, or None."""
        self.suspend_detector.check()
        return self.not_ready_reason() or self._write_block_reason()

    def not_ready_reason(self) -> str:
        """Say what we were told to wait for, or what our picture lacks; empty for nothing."""
        return self.paused_reason or self.sync_status.first_reason() or ""

    def all_not_ready_reasons(self) -> str:
        """Return the pause's reason, or every resource that is not synced and why."""
        return self.paused_reason or self.sync_status.all_reasons()

    def _may_evaluate(self) -> bool:
        self.suspend_detector.check()
        return self._reported_pause is None and self._write_block_reason() is None

    def wake(self) -> None:
        """What kept us from judging may be over."""
        self.worker.wake(self._clock())

    def set_paused(self, reason: str | None) -> None:
        """Judge and evict nothing, for this reason, until told None."""
        self.paused_reason = reason
        self._sync_changed()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of what waits here."""
        yield from self.evaluator.collect()
        yield TOKENS.by_label(self.rate_limiter.min_available(self._clock()))

    def inherit_eviction(self, pod: PodKey) -> None:
        """Do not evict this pod: the request of an earlier process may still evict it."""
        self.in_flight.inherit(pod)

    def end_inherited_eviction(self, pod: PodKey, outcome: Outcome) -> None:
        """Evaluate the pod again: an earlier process's eviction of it has its outcome."""
        now = self._clock()
        self.in_flight.end_inherited(pod, evicted=outcome.result in POD_LEAVES)
        self.evaluator.eviction_ended(pod, now)
        self.worker.wake(now)

    def size(self) -> dict[str, int]:
        """Count what we know of the cluster."""
        return {"nodes": self.state.nodes.eligible_count, "pods": len(self.state.pods)}

    def apply_changes(self, changes: list[Change], version: int = 0) -> None:
        """Take in changes of the state and act on what is due at once.

        `version` is the resourceVersion of the object they came from. Until the engine has
        started they are the first picture being drawn, and no news.
        """
        if not self.evaluator.started:
            return
        self._notify(changes)
        now = self._clock()
        self.evaluator.apply_changes(changes, now, version)
        self.worker.wake(now)

    def _notify(self, changes: list[Change]) -> None:
        self._observer.on_changes(changes)
        self._pdb_filter.apply_changes(changes)
        self._node_fit.apply_changes(changes)

    def _sync_changed(self) -> None:
        """Begin once the first whole picture is there; go on when it is live again."""
        reason = self.not_ready_reason() or None
        if reason != self._reported_pause:
            self._reported_pause = reason
            self._observer.on_pause(reason)
        if reason is not None:
            return
        now = self._clock()
        if not self.evaluator.started:
            self.evaluator.resync(now)
            self.initial_sync_done.set()
        self.worker.wake(now)

    def _on_decision(self, evaluation: Evaluation) -> None:
        """Start an eviction first and tell about it then: words can wait, the request need not."""
        if evaluation.changed:
            context = decision_context(evaluation, self.view)
            if isinstance(evaluation.decision, Evict):
                self._evicting[evaluation.finding.pod.uid] = evaluation
                self.evictions.submit(Intent(context, self._config.policy.grace_period_s))
            self._recorder.record_decision(context, evaluation.decision)
        self._observer.on_decision(evaluation)

    def _on_outcome(self, intent: Intent, outcome: Outcome, sent_at: float) -> None:
        evaluation = self._evicting.pop(intent.pod.uid)
        now = self._clock()
        self.evaluator.on_outcome(evaluation, outcome, now)
        self._observer.on_outcome(evaluation, outcome, sent_at)
        self.worker.wake(now)

    def _instances(self) -> list[PluginInstance]:
        """Set up the plugins of each profile, and keep the indexes that they and the gates read."""
        instances: list[PluginInstance] = []
        indexes: list[type[Index]] = []
        debounce = self._config.settings.debounce
        for profile in self._config.policy.profiles:
            evictor = DefaultEvictor(profile.evictor, self.view, self._node_fit)
            gate = self._gate(evictor)
            view = ProfileView(
                self.state, self._wall_clock, evictor, self._node_fit, self.in_flight
            )
            indexes += gate.indexes
            for plugin in profile.plugins:
                indexes += plugin.indexes
                quiet = debounce.for_plugin(plugin.name)
                instances.append(PluginInstance(profile.name, plugin, gate, view, quiet))
        self.state.keep_indexes((kind, None) for kind in indexes)
        return instances

    def _node_fit_for(self, mode: str) -> NodeFit:
        """Return the node fit of this strength; out of use it keeps what it booked."""
        if mode not in self._node_fits:
            upstream = mode == UPSTREAM
            self._node_fits[mode] = (
                UpstreamNodeFit(self.view) if upstream else SchedulerNodeFit(self.view, self._clock)
            )
        return self._node_fits[mode]

    def _capacity_increased(self) -> None:
        self._node_fit.capacity_increased()

    def _capacity_hints(self) -> Iterable[CapacityHint]:
        return self._node_fit.take_capacity_hints()

    def _gate(self, evictor: DefaultEvictor) -> Gate:
        """Put a profile's filters in order: final and cheap ones first, tokens last."""
        filters = (
            self.in_flight,
            evictor.filters,
            MinReadyNodes(self.view),
            ConflictPartnersLeaving(self.view, self.in_flight),
            *evictor.namespace_filters,
            evictor.node_fit_filter,
            self._pdb_filter,
        )
        trackers = (self.in_flight, self._pdb_filter, self._node_fit)
        return Gate(filters, self._window_limits, self.rate_limiter, trackers)


def decision_context(evaluation: Evaluation, view: ClusterView) -> DecisionContext:
    """Gather what the record tells of a judgement."""
    pod = evaluation.finding.pod
    return DecisionContext(
        evaluation.finding,
        evaluation.profile,
        evaluation.trigger.record,
        view.index(OwnerIndex).chain(pod),
        view.zone(pod.node),
    )
