"""`run --once`: one sweep over a live cluster by upstream's rules of a cycle.

The exit status is 0 when the sweep was completed, whatever it decided and whatever disruption
budgets refused, and when a person's pause held it; 1 when it was stopped otherwise, or an eviction
failed for another reason.
"""

import math
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from types import FrameType

import anyio
import msgspec
from msgspec.structs import replace

from reactive_desched.app.cluster import identify_within
from reactive_desched.app.config_reload import ActiveConfig
from reactive_desched.app.openings import open_api_session, run_event_recorder
from reactive_desched.app.options import (
    Dependencies,
    Options,
    load_dependencies,
)
from reactive_desched.app.recording import Recording, start_recording
from reactive_desched.app.serving import bound_addresses, open_server
from reactive_desched.app.start_up import log_api_server, log_identity
from reactive_desched.app.sweep_pause import SweepPause
from reactive_desched.app.telemetry import open_telemetry
from reactive_desched.controller.asked_kinds import effect_without, unasked_in_sweep
from reactive_desched.controller.controller import decision_context
from reactive_desched.controller.observing import modes_of, with_modes
from reactive_desched.errors import (
    ClusterError,
    ConfigError,
    RequestRejected,
    SnapshotUnavailable,
)
from reactive_desched.eviction.client import IntentOwner
from reactive_desched.eviction.dry_run import StillClusterEvictor
from reactive_desched.eviction.executor import (
    EvictionExecutor,
)
from reactive_desched.eviction.recorder import Recorder
from reactive_desched.eviction.recovery import resolve_open_intents
from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.fit.upstream import SCHEDULER, UPSTREAM
from reactive_desched.journal.journal import Journal
from reactive_desched.kube.client.clock import SystemClock
from reactive_desched.kube.client.cluster_guard import ClusterGuard
from reactive_desched.kube.client.config_maps import read_keys
from reactive_desched.kube.client.events import EventRecorder
from reactive_desched.kube.client.evictor import ApiEvictor
from reactive_desched.kube.client.patience import Patience
from reactive_desched.kube.client.session import Session
from reactive_desched.model.changes import Resynced
from reactive_desched.model.decisions import Evict
from reactive_desched.model.evaluation import SWEEP, ChangeTrigger, Evaluation, Intent
from reactive_desched.model.modes import ACT, OBSERVE, PROPOSE
from reactive_desched.model.observer import Observer
from reactive_desched.model.outcomes import (
    CANCELLED,
    CONFLICT,
    DRY_RUN,
    EVICTIONS_PAUSED,
    JOURNAL_UNAVAILABLE,
    PDB_REFUSED,
    POD_LEAVES,
    SHUTTING_DOWN,
    Outcome,
)
from reactive_desched.model.scheduler_profile import DEFAULT_PROFILES, SchedulerProfiles
from reactive_desched.model.subjects import PodSubject
from reactive_desched.plan.live_snapshot import list_snapshot
from reactive_desched.plan.measured_use import with_measured_use
from reactive_desched.plan.missing_inputs import missing_measurements, stale_measurements
from reactive_desched.plan.needed_resources import needed_resources
from reactive_desched.plan.progress import Progress
from reactive_desched.plan.snapshot import Snapshot
from reactive_desched.policy.policy import AnyPlugin, Policy
from reactive_desched.primitives.foreign_code import interrupts_received
from reactive_desched.primitives.hung_calls import hung_calls_ended
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.state.resources import (
    OWNER_RESOURCES,
    USAGE_RESOURCES,
)
from reactive_desched.sweep.cycle import Cycle, CycleDecision
from reactive_desched.sweep.thresholds import check_thresholds
from reactive_desched.telemetry import logs
from reactive_desched.telemetry.logs import DebugLogger, Logger
from reactive_desched.telemetry.observer import TelemetryObserver
from reactive_desched.telemetry.sig_compat import UpstreamMetrics
from reactive_desched.web.health import Health
from reactive_desched.web.server import Served

COMPLETED, NOT_COMPLETED = 0, 1
JOURNAL_TIMEOUT_S = 10.0
"""How long a disk that takes no records may hold the sweep before it is stopped."""

STOP_SIGNALS = signal.SIGTERM, signal.SIGINT

SAME_SIGNAL_S = 1.0
"""What comes sooner after the first signal is that one, sent to the process and to its group."""

EVENT_FLUSH_TIMEOUT_S = 10.0
"""How long the Events of what was done may take to be written at the end."""

_BENIGN_OUTCOMES = POD_LEAVES | {PDB_REFUSED, CONFLICT}
"""Outcomes that are no failure: the pod left, may not leave yet, or was another pod by then."""

_SUMMARY_NAMES = {DRY_RUN: "would_evict"}
"""What the last line calls them, if not by their own name."""


def run(options: Options) -> int:
    """Sweep once and return the exit status.

    Raises ConfigError for a wrong policy, setting or flag, and SnapshotUnavailable when the cluster
    cannot be looked at whole; then nothing was evicted.
    """
    deps = load_dependencies(options)
    if deps.configuration.settings.leader_election.leader_elect:
        raise ConfigError(
            "leader election is for a controller that keeps running: take --once away, or"
            " --leader-elect (leaderElection.leaderElect of the settings)"
        )
    with hung_calls_ended():
        return anyio.run(_until_done, deps)


async def _until_done(deps: Dependencies) -> int:
    log, stop = logs.logger("sweep"), _StopSignal()
    log_identity(deps.configuration, log, dry_run=deps.dry_run)
    async with open_telemetry(deps) as telemetry, open_api_session(deps) as session:
        deps = await _with_config_maps(deps, session)
        async with (
            _serve_health(deps, session, log),
            run_event_recorder(session, log, EVENT_FLUSH_TIMEOUT_S) as events,
            _recording(deps, session, events, log) as recording,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(stop.wait)
            telemetry.set_cluster(recording.cluster)
            status = await _sweep_all(deps, session, recording, log, stop)
            tasks.cancel_scope.cancel()
        return status


async def _with_config_maps(deps: Dependencies, session: Session) -> Dependencies:
    """Return the configuration with what ConfigMaps say of schedulers, where it names some.

    Raises ConfigError where one cannot be read, or what it says is refused.
    """
    if deps.reload is None or not deps.reload.files.wanted:
        return deps
    files = deps.reload.files
    for key, text in (await read_keys(session, files.wanted)).items():
        files.put(key, text)
    return replace(deps, configuration=await files.read())


async def _sweep_all(
    deps: Dependencies,
    session: Session,
    recording: Recording,
    log: DebugLogger,
    stop: "_StopSignal",
) -> int:
    journal, recorder, evictor = recording.journal, recording.recorder, ApiEvictor(session)
    pause = SweepPause(deps.configuration.settings.brakes.pause_file)
    await pause.restore(recording.directory, log)
    with stop.cancellable:
        await resolve_open_intents(recorder, evictor, log)
    node_fit = deps.configuration.sweep_node_fit
    snapshot = await _read_cluster(session, deps, log)
    _log_snapshot(snapshot, deps, log)
    observer, status = TelemetryObserver(deps.metrics, log, time.time), COMPLETED
    for policy, is_observed in _sweeps(deps):
        shows = is_observed or deps.dry_run
        if shows and pause.message:
            log.warning("evictions are paused: this says what they would be", message=pause.message)
        state = snapshot.build_state(policy.node_selector)
        view = ClusterView(state, time.time)
        still = StillClusterEvictor(state, view)
        one_shot = OneShotRun(
            policy,
            EvictionExecutor(recorder, still if deps.dry_run else evictor, time.monotonic, still),
            recorder,
            observer,
            partial(_stopped, stop, journal, session.cluster, None if shows else pause),
            partial(_look_again, journal, pause),
            deps.metrics.upstream,
            node_fit,
            schedulers=deps.configuration.scheduler_profiles,
            is_observed=is_observed,
        )
        if is_observed:
            log.info("what is only observed is swept now: no request is sent for it")
        status = max(status, await one_shot.run(state, view, log))
    return status


class _LoggedProgress(Progress):
    """Logs why the sweep does not begin yet."""

    def __init__(self, log: Logger) -> None:
        self._log = log

    def note(self, text: str) -> None:
        """Log what is waited for."""
        self._log.warning("the API server is waited for", message=text)


async def _read_cluster(session: Session, deps: Dependencies, log: Logger) -> Snapshot:
    """Return the cluster as it is now, with what the nodes use."""
    configuration = deps.configuration
    unasked = unasked_in_sweep(
        configuration.policy, fits_as_scheduler=configuration.sweep_node_fit == SCHEDULER
    )
    snapshot = await list_snapshot(
        session,
        needed_resources(configuration.policy, configuration.sweep_node_fit),
        _LoggedProgress(log),
        optional_resources=OWNER_RESOURCES | USAGE_RESOURCES | unasked,
    )
    snapshot = await with_measured_use(snapshot, configuration, session, SystemClock())
    return snapshot.with_fresh_samples(configuration.settings.usage, time.time())


def _sweeps(deps: Dependencies) -> Iterator[tuple[Policy, bool]]:
    """Yield the policy of each sweep, and whether it only shows what it would evict.

    What acts comes first, and what does not sees the cluster as it was before: neither takes the
    other's limits. What proposes is only shown: a sweep asks no person. In a dry run there is one
    for all.
    """
    configuration = deps.configuration
    if deps.dry_run or all(mode == ACT for _, _, mode in modes_of(configuration)):
        yield configuration.policy, False
        return
    if (acting := with_modes(configuration, {ACT})).profiles:
        yield acting, False
    yield with_modes(configuration, {OBSERVE, PROPOSE}), True


class OneShotRun(IntentOwner):
    """Drives a cycle: logs its decisions, and executes its evictions one after the other.

    Each decision waits for `look_again`, which renews what `stopped` goes by. Nothing more is
    begun once that returns an outcome for what was not done. With `is_observed` no request is sent.
    """

    def __init__(  # noqa: PLR0913 -- each is one edge of the sweep, or how it is made
        self,
        policy: Policy,
        executor: EvictionExecutor,
        recorder: Recorder,
        observer: Observer,
        stopped: Callable[[], Outcome | None],
        look_again: Callable[[], Awaitable[None]],
        timings: UpstreamMetrics,
        node_fit: str = UPSTREAM,
        *,
        schedulers: SchedulerProfiles = DEFAULT_PROFILES,
        is_observed: bool = False,
    ) -> None:
        self._is_observed = is_observed
        self._node_fit, self._schedulers = node_fit, schedulers
        self._policy = policy
        self._executor = executor
        self._recorder = recorder
        self._observer = observer
        self._stopped = stopped
        self._look_again = look_again
        self._timings = timings
        self._results: Counter[str] = Counter()

    async def run(self, state: ClusterState, view: ClusterView, log: Logger) -> int:
        """Sweep the state of a cluster once and return the exit status; evicted pods leave it.

        Raises ConfigError when the policy names a PriorityClass that the cluster does not have.
        """
        started_at = time.monotonic()
        check_thresholds(self._policy.profiles, view)
        fit = None
        if self._node_fit == SCHEDULER:
            fit = SchedulerNodeFit(view, time.monotonic, self._schedulers)
        cycle = Cycle(self._policy, state, view, fit, plugin_context=self._timed)
        if (skipped := cycle.skip_reason()) is not None:
            log.warning("there is nothing to do", message=skipped)
        stopped = await self._run_cycle(cycle, view)
        for fault in cycle.faults:
            self._observer.on_plugin_fault(fault)
        self._timings.observe_cycle(time.monotonic() - started_at)
        counts = {
            _SUMMARY_NAMES.get(result, result): n for result, n in sorted(self._results.items())
        }
        if stopped is None:
            log.info("the sweep is complete", **counts)
        elif stopped.reason == EVICTIONS_PAUSED.code:
            log.warning("evictions are paused", message=stopped.message, **counts)
        else:
            log.warning("the sweep was stopped", message=stopped.message, **counts)
        is_held = stopped is not None and stopped.reason == EVICTIONS_PAUSED.code
        benign = _BENIGN_OUTCOMES | {"refused"} | ({CANCELLED} if is_held else set())
        failed = bool(cycle.faults or self._results.keys() - benign)
        return NOT_COMPLETED if failed or not (stopped is None or is_held) else COMPLETED

    async def _run_cycle(self, cycle: Cycle, view: ClusterView) -> Outcome | None:
        """Carry out each decision, and return why it was stopped; pods that left leave the cycle.

        A reason that has passed by the end, such as a disk that took no records, has stopped it all
        the same.
        """
        for decided in cycle.run():
            await self._look_again()
            if (stopped := self._stopped()) is not None:
                return stopped
            if await self._execute(decided, view):
                cycle.confirm(decided)
        return self._stopped()

    def cancelled(self, intent: Intent) -> Outcome | None:
        """Return the outcome of what is not requested any more."""
        del intent
        return self._stopped()

    def effect_unknown(self, intent: Intent, error: str, within_s: float) -> None:
        """Log that the request may have evicted the pod."""
        self._observer.on_effect_unknown(intent, error, within_s)

    async def _execute(self, decided: CycleDecision, view: ClusterView) -> bool:
        """Write down and carry out one decision; returns whether its pod left."""
        evaluation = self._evaluation(decided)
        context = msgspec.structs.replace(decision_context(evaluation, view), trigger=SWEEP)
        self._recorder.record_decision(context, decided.decision)
        self._observer.on_decision(evaluation)
        if not isinstance(decided.decision, Evict):
            self._results["refused"] += 1
            return False
        intent = Intent(context, self._policy.grace_period_s)
        result = await self._executor.execute(intent, self)
        self._observer.on_outcome(evaluation, result.outcome, result.sent_at)
        self._results[result.outcome.result] += 1
        return result.outcome.result in POD_LEAVES

    def _evaluation(self, decided: CycleDecision) -> Evaluation:
        now, pod = time.monotonic(), decided.finding.pod
        trigger = ChangeTrigger(Resynced(), now)
        return Evaluation(
            decided.profile,
            PodSubject(pod.uid),
            decided.decision,
            trigger,
            now,
            mode=OBSERVE if self._is_observed else ACT,
        )

    @contextmanager
    def _timed(self, profile: str, plugin: AnyPlugin) -> Iterator[None]:
        started_at = time.monotonic()
        try:
            yield
        finally:
            self._timings.observe_plugin(profile, plugin.name, time.monotonic() - started_at)


class _StopSignal:
    """Stops the sweep when a signal comes: it cancels what runs in `cancellable`.

    While a plugin does not return, the event loop gets no signal: the second one ends the process.
    """

    def __init__(self) -> None:
        self.reason = ""
        self._first_signal_at = math.inf
        self.cancellable = anyio.CancelScope()

    async def wait(self) -> None:
        """Wait for a signal and remember it."""
        with interrupts_received(), anyio.open_signal_receiver(*STOP_SIGNALS) as signals:
            for each in STOP_SIGNALS:  # beside the receiver, which the event loop wakes
                signal.signal(each, self._on_signal)
            async for number in signals:
                self.reason = f"asked to stop by {signal.Signals(number).name}"
                self.cancellable.cancel()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        """End the process at once if the event loop has not seen an earlier signal."""
        del frame
        now = time.monotonic()
        self._first_signal_at = min(self._first_signal_at, now)
        if now - self._first_signal_at > SAME_SIGNAL_S and not self.reason:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)


def _stopped(
    stop: _StopSignal, journal: Journal, cluster: ClusterGuard, pause: SweepPause | None
) -> Outcome | None:
    """Return the outcome of evictions that are not begun any more, with the reason."""
    if reason := stop.reason or cluster.fault:
        return SHUTTING_DOWN.outcome(reason)
    if pause is not None and pause.message:
        return EVICTIONS_PAUSED.outcome(pause.message)
    return JOURNAL_UNAVAILABLE.outcome(journal.reason) if journal.reason else None


async def _look_again(journal: Journal, pause: SweepPause) -> None:
    """Read the pause file; wait while the disk takes no records, for a moment: it may be busy."""
    await pause.refresh()
    with anyio.move_on_after(JOURNAL_TIMEOUT_S):
        await journal.wait_recovered()


def _log_snapshot(snapshot: Snapshot, deps: Dependencies, log: Logger) -> None:
    """Log what the snapshot contains and what it lacks."""
    for unread in snapshot.unreadable:
        log.warning("skipped an object", kind=unread.kind, name=unread.name, message=unread.message)
    for resource, reason in snapshot.forbidden.items():
        effect = effect_without(resource)
        log.warning(
            "an optional resource cannot be read", resource=resource, effect=effect, message=reason
        )
    for problem in dict.fromkeys(snapshot.usage_problems.values()):
        log.warning(problem)
    configuration = deps.configuration
    for problem in (
        *stale_measurements(snapshot, configuration.settings.usage),
        *missing_measurements(configuration.policy, snapshot),
    ):
        log.warning(problem)
    log.info("the cluster is synced", nodes=len(snapshot.nodes), pods=len(snapshot.pods))


@asynccontextmanager
async def _recording(
    deps: Dependencies, session: Session, events: EventRecorder, log: DebugLogger
) -> AsyncIterator[Recording]:
    """Open the cluster's journal; raises SnapshotUnavailable where no API server answers."""
    log_api_server(session, log)
    try:
        name = deps.configuration.settings.events.cluster
        patience = Patience(SystemClock(), _LoggedProgress(log).note)
        cluster = await identify_within(patience, session, name, session.description)
    except ClusterError as error:
        is_refused = isinstance(error, RequestRejected) and error.is_unauthorized
        remedy = "; have the credentials renewed, and run it again" if is_refused else ""
        raise SnapshotUnavailable(
            f"the cluster cannot be read, so nothing was evicted: {error}{remedy}"
        ) from error
    active = ActiveConfig(deps.configuration)
    server_time = session.server_clock.now
    async with start_recording(deps, events, active, log, cluster, server_time) as recording:
        yield recording


@asynccontextmanager
async def _serve_health(deps: Dependencies, session: Session, log: Logger) -> AsyncIterator[None]:
    """Serve probes and metrics during the sweep; a taken address is logged and skipped."""
    served = Served(Health(time.monotonic), deps.metrics if deps.serve_metrics else None)
    async with AsyncExitStack() as stack:
        try:
            addresses = await stack.enter_async_context(bound_addresses(deps))
            await stack.enter_async_context(open_server(deps, session, addresses, served))
        except ConfigError as error:
            log.warning("health and metrics are not served", message=str(error))
        yield
