"""Runs the controller over a snapshot, on a clock of its own: a preview of what `run` would do.

It is the controller's own code, not a model of it: only the API server, the watches and the clock
are replaced (docs/adr/0040-a-preview-runs-the-controller.md).
"""

from collections import deque
from collections.abc import Iterator, Sequence
from heapq import heapreplace
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from reactive_desched.controller.controller import Controller
from reactive_desched.controller.observing import modes_of
from reactive_desched.controller.pauses import SuspendDetector
from reactive_desched.controller.pending import PendingFinding
from reactive_desched.controller.readiness import STARTUP, Readiness
from reactive_desched.eviction.recorder import NullRecorder
from reactive_desched.model.decisions import Decision, Evict
from reactive_desched.model.disruptions import RememberedEnd
from reactive_desched.model.evaluation import DecisionContext, EvictionResult, Intent
from reactive_desched.model.history import PastEviction
from reactive_desched.model.migration_jobs import Mode
from reactive_desched.model.modes import ACT
from reactive_desched.model.moves import MovedPods
from reactive_desched.model.observer import Observer
from reactive_desched.model.outcomes import EVICTED
from reactive_desched.model.plugin_faults import PluginFault
from reactive_desched.model.wakes import WakeOnPod, awaited
from reactive_desched.plan.assumed_cluster import AssumedCluster, PreviewClock, SameTime
from reactive_desched.plan.assumed_sets import AssumedSets
from reactive_desched.plan.assumed_use import AssumedUse
from reactive_desched.plan.evaluation import DecisionFormatter, PlanResult
from reactive_desched.plan.mode import RunBounds
from reactive_desched.plan.progress import Progress
from reactive_desched.plan.report import GateRejection, PlannedDecision, RunPreview
from reactive_desched.plan.snapshot import Snapshot
from reactive_desched.policy.configuration import Configuration
from reactive_desched.primitives.timers import earliest
from reactive_desched.primitives.wakeup import Wakeup

if TYPE_CHECKING:
    from reactive_desched.plan.assumed_jobs import AssumedJobs

__all__ = ["run_controller"]

MAX_EVALUATIONS: Final = 100_000
"""So many subjects are evaluated beyond one for each pod and node; then a preview ends."""

REQUEST_S: Final = 0.01
"""How long an eviction request is taken to last, its record included."""

TIMER_DELAY_S: Final = 0.001
"""How late timers ring: never on the very instant, at which rounding would decide."""

MAX_DELAYS: Final = 5
"""So many reasons are kept for which an eviction came later than it could have."""


def run_controller(
    configuration: Configuration,
    snapshot: Snapshot,
    now_s: float,
    bounds: RunBounds,
    progress: Progress,
    past: Sequence[PastEviction] = (),
) -> PlanResult:
    """Let a controller start now on this cluster; return what it evicts, and what waits at the end.

    Its limits and its memory of moves count the `past` evictions.
    """
    run = _ControllerRun(configuration, snapshot, now_s, bounds, progress)
    return run.run(past)


def decide_now(
    configuration: Configuration,
    snapshot: Snapshot,
    now_s: float,
    past: Sequence[PastEviction] = (),
    ends: Sequence[RememberedEnd] = (),
) -> tuple[Controller, PreviewClock]:
    """Let a controller start now on this cluster, and decide what is due; nothing is evicted.

    It remembers the `ends` of pods by something else. Returns it with the clock that it goes by.
    """
    run = _ControllerRun(configuration, snapshot, now_s, RunBounds(), Progress())
    return run.decide(past, ends)


class _DelayRecorder(NullRecorder):
    """Takes the controller's records, and keeps why each finding was not acted on at first."""

    def __init__(self, clock: PreviewClock) -> None:
        self.delays: dict[tuple[str, str, str], dict[tuple[str, str], GateRejection]] = {}
        self._clock = clock

    def record_decision(self, context: DecisionContext, decision: Decision) -> None:
        """Keep a decision that is no eviction."""
        if isinstance(decision, Evict):
            return
        kept = self.delays.setdefault(_finding_key(context), {})
        if len(kept) < MAX_DELAYS:
            rejection = GateRejection(
                decision.gate, decision.reason, decision.record(self._clock.moment())
            )
            kept.setdefault((decision.gate, decision.reason), rejection)


class FaultObserver(Observer):
    """Keeps the first fault of each plugin, by its profile and name."""

    def __init__(self, faults: dict[tuple[str, str], PluginFault]) -> None:
        self.faults = faults

    def on_plugin_fault(self, fault: PluginFault) -> None:
        """Keep a fault."""
        self.faults.setdefault((fault.profile, fault.plugin), fault)


def keeps_places(configuration: Configuration) -> bool:
    """Say whether jobs first keep a place for the replacement."""
    migration = configuration.controller.migration
    return migration is not None and migration.default_job_mode is Mode.RESERVATION_FIRST


def as_previewed(configuration: Configuration) -> Configuration:
    """Return a configuration that a preview can go by: no server is asked, and jobs keep no place.

    Where a server would say how the service is, it is taken to be well.
    """
    checks = configuration.controller.brakes.health
    if asked := tuple(check for check in checks if check.moves is None):
        settings = configuration.settings
        judged = tuple(check for check in checks if check not in asked)
        brakes = settings.brakes.model_copy(update={"health": judged})
        written = settings.model_copy(update={"brakes": brakes})
        configuration = replace(configuration, written=written)
    return _with_jobs_that_evict_at_once(configuration)


def _with_jobs_that_evict_at_once(configuration: Configuration) -> Configuration:
    """Return a configuration whose jobs keep no place: `AssumedJobs` asks whether there is one."""
    if not keeps_places(configuration):
        return configuration
    settings = configuration.settings
    migration = settings.migration
    assert migration is not None, "places are kept"
    at_once = migration.model_copy(update={"default_job_mode": Mode.EVICT_DIRECTLY})
    return replace(configuration, written=settings.model_copy(update={"migration": at_once}))


def _finding_key(context: DecisionContext) -> tuple[str, str, str]:
    finding = context.finding
    return context.profile, finding.plugin, finding.pod.uid


class _ControllerRun:
    """One preview, from its beginning to its end."""

    def __init__(
        self,
        configuration: Configuration,
        snapshot: Snapshot,
        now_s: float,
        bounds: RunBounds,
        progress: Progress,
    ) -> None:
        self._bounds = bounds
        self._progress = progress
        self._clock = PreviewClock(now_s)
        self._recorder = _DelayRecorder(self._clock)
        self._observer = FaultObserver({})
        observer, work_available = self._observer, Wakeup()
        readiness = Readiness((), observer, work_available)
        readiness.resume(STARTUP)
        self._controller = Controller(
            as_previewed(configuration),
            readiness=readiness,
            recorder=self._recorder,
            observer=observer,
            work_available=work_available,
            suspend=SuspendDetector(lambda: 0.0),
            clock=self._clock.monotonic,
            wall_clock=self._clock.wall,
        )
        snapshot.load_into(self._controller.state)
        subjects = len(snapshot.pods) + len(snapshot.nodes)
        self._max_evaluations = MAX_EVALUATIONS + len(configuration.policy.profiles) * subjects
        self._cluster = AssumedCluster(
            self._controller,
            self._clock,
            SameTime(bounds.ready_after_s),
            AssumedUse(self._controller.state, now_s),
        )
        self._sets = AssumedSets(self._controller, self._clock.monotonic, self._cluster.try_to_bind)
        self._jobs = self._assumed_jobs(needs_place=keeps_places(configuration))
        self._formatter = DecisionFormatter(
            configuration.policy.profiles,
            self._controller.view,
            self._controller.evictor_rules,
        )
        self._requests: deque[tuple[float, Intent]] = deque()
        self._evictions: list[PlannedDecision] = []
        self._replacements: list[str] = []
        self._sender_free_at = [0.0] * configuration.controller.evictions.max_in_flight

    def _assumed_jobs(self, *, needs_place: bool) -> "AssumedJobs | None":
        """Build what carries out migration jobs, which is loaded where the settings have them."""
        controller = self._controller
        if controller.migrations is None:
            return None
        from reactive_desched.plan.assumed_jobs import AssumedJobs

        return AssumedJobs(controller, controller.migrations, self._clock, needs_place=needs_place)

    def run(self, past: Sequence[PastEviction]) -> PlanResult:
        """Let time pass until nothing is due any more, or a bound is reached."""
        self._controller.restore(past)
        moved_before = tuple(self._controller.state.store(MovedPods))
        ended = self._run_to_end()
        preview = RunPreview(
            horizon_seconds=self._bounds.horizon_s,
            max_evictions=self._bounds.max_evictions,
            ready_after_seconds=self._bounds.ready_after_s,
            past_evictions=len(past),
            packed_resources=self._cluster.packed_resources,
            ended_after_seconds=round(self._clock.now, 3),
            ended=ended,
            modes=tuple(
                f"{profile}/{plugin} ({mode})"
                for profile, plugin, mode in modes_of(self._controller.config)
                if mode != ACT
            ),
            emptied_nodes=self._sets.nodes,
            made_rooms=self._sets.rooms,
        )
        evictions = (
            replace(eviction, replacement_node=self._cluster.node_of(replacement) or None)
            for eviction, replacement in zip(self._evictions, self._replacements, strict=True)
        )
        decisions = (*evictions, *self._waiting())
        instances = self._controller.evaluator.instances
        views = {instance.profile: instance.view for instance in instances}
        faults = tuple(self._observer.faults.values())
        return PlanResult(
            decisions, None, self._controller.view, views, preview, moved_before, faults
        )

    def decide(
        self, past: Sequence[PastEviction], ends: Sequence[RememberedEnd]
    ) -> tuple[Controller, PreviewClock]:
        """Evaluate everything once, at the beginning; no request is sent."""
        self._controller.restore(past, ends)
        for _ in self._controller.work(lambda: False):
            pass
        return self._controller, self._clock

    def _run_to_end(self) -> str:
        controller, clock, bounds = self._controller, self._clock, self._bounds
        while True:
            self._cluster.advance()
            self._sets.advance()
            if self._jobs is not None:
                self._jobs.advance()
            while self._requests and self._requests[0][0] <= clock.now:
                self._execute(*self._requests.popleft())
            due = controller.next_due(clock.now)
            if due is not None and due <= clock.now:
                self._work()
                if controller.evaluator.evaluations >= self._max_evaluations:
                    return f"after {controller.evaluator.evaluations} evaluations"
                continue
            request_due = self._requests[0][0] if self._requests else None
            jobs_due = None if self._jobs is None else self._jobs.next_due()
            following = earliest(
                due, self._cluster.next_due(), self._sets.next_due(), jobs_due, request_due
            )
            if len(self._evictions) >= bounds.max_evictions:
                return f"after {bounds.max_evictions} evictions"
            if following is None:
                return "nothing waits for time to pass"
            if following > bounds.horizon_s:
                clock.advance_to(bounds.horizon_s)
                return "the horizon is reached"
            clock.advance_to(following + TIMER_DELAY_S)

    def _work(self) -> None:
        """Evaluate what is due; requests take a moment, and so many at once as a run sends."""
        for intent in self._controller.work(lambda: False):
            answered_at = max(self._clock.now, self._sender_free_at[0]) + REQUEST_S
            heapreplace(self._sender_free_at, answered_at)
            self._requests.append((answered_at, intent))
        self._progress.update("evictions", len(self._evictions))

    def _execute(self, answered_at: float, intent: Intent) -> None:
        if len(self._evictions) >= self._bounds.max_evictions:
            return
        if (outcome := self._controller.cancelled(intent)) is None:
            assumed = self._cluster.evict(intent)
            outcome = assumed.outcome
            if outcome.result == EVICTED:
                self._evictions.append(self._eviction(answered_at, intent))
                self._replacements.append(assumed.replacement)
        self._controller.settle(EvictionResult(intent, outcome, self._clock.now))

    def _eviction(self, answered_at: float, intent: Intent) -> PlannedDecision:
        context = intent.context
        delays = self._recorder.delays.get(_finding_key(context), {})
        return replace(
            self._formatter.format(context.profile, Evict(context.finding)),
            in_seconds=round(answered_at - REQUEST_S, 3),
            delayed_by=tuple(delays.values()),
        )

    def _waiting(self) -> Iterator[PlannedDecision]:
        """Yield the findings that wait at the end, and what each waits for."""
        pending = list(self._controller.evaluator.queue.pending())
        for finding in sorted(pending, key=_by_pod):
            decision = finding.decision
            formatted = self._formatter.format(finding.profile, decision)
            until, pod = finding.until, decision.finding.pod.uid
            yield replace(
                formatted,
                waits_for=awaited(finding.waits_for, pod),
                may_go_later=until is not None
                or any(wake != WakeOnPod(pod) for wake in finding.waits_for),
                retry_in_seconds=None if until is None else round(until, 3),
            )


def _by_pod(finding: PendingFinding) -> tuple[str, ...]:
    decision = finding.decision
    pod = decision.finding.pod
    return pod.namespace, pod.name, finding.profile, decision.finding.plugin
