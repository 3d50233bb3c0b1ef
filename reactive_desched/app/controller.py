"""The composition root: opens every edge, connects every part, starts every stage.

This is the one place that knows the whole configuration; parts get only what they need.
"""

import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Final

import anyio
from anyio.abc import TaskStatus
from msgspec import Struct

from reactive_desched.app.config_reload import ActiveConfig, ConfigReloader
from reactive_desched.app.gc import freeze_gc_after_sync, resolve_open_intents
from reactive_desched.app.options import (
    Dependencies,
    Options,
    ReloadConfig,
    load_dependencies,
)
from reactive_desched.app.recording import Recording, log_transitions, open_recording, utc_now
from reactive_desched.controller.controller import Controller
from reactive_desched.controller.suspend import SuspendDetector
from reactive_desched.eviction.dry_run import DryRunEvictor
from reactive_desched.eviction.executor import effect_timeout
from reactive_desched.journal.journal import Journal
from reactive_desched.journal.recorder import JournalRecorder
from reactive_desched.kube.client.clock import SystemClock
from reactive_desched.kube.client.config import limits_of, rate_of
from reactive_desched.kube.client.events import EventRecorder
from reactive_desched.kube.client.evictor import ApiEvictor
from reactive_desched.kube.client.session import Session, Transport, open_session
from reactive_desched.kube.codec import make_codecs
from reactive_desched.kube.watch.reflector import Reflector
from reactive_desched.kube.watch.resume import ServerProbe
from reactive_desched.sinks.kube_events import KubeEventsSink, own_pod
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.state.resources import RESOURCES, WATCHED_KINDS
from reactive_desched.telemetry.deferred_log import DeferredLogger
from reactive_desched.telemetry.logs import DebugLogger
from reactive_desched.web.event_stream import EventStream, StreamLimits
from reactive_desched.web.health import CheckResult, EventLoopPulse, Health
from reactive_desched.web.listen_socket import bound, bound_if_set
from reactive_desched.web.server import serve_at, serve_probes_at

AnyReflector = Reflector[Any]  # every kind has records of its own

SHUTDOWN_TIMEOUT_S = 10.0
"""How long evictions under way may take to end once we are asked to stop."""

EVENT_FLUSH_TIMEOUT_S = 2.0
"""How long Events of what we did may take to be written after that."""

STABLE_POLLS = 4
"""A reason not to be ready is logged once so many polls found it: then it names every resource."""

LIVENESS_TIMEOUT_S = 10.0
"""When the event loop has not turned for so long, /livez asks for a restart."""


BOOTTIME_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""The clock that goes on while the machine sleeps, where there is one."""


class RunningController(Struct, frozen=True):
    """A running controller: its core, and where its health and metrics are served."""

    controller: Controller
    url: str


def run(options: Options) -> int:
    """Run the controller until it is asked to stop; returns the exit status."""
    anyio.run(_until_stopped, load_dependencies(options))
    return 0


async def _until_stopped(deps: Dependencies) -> None:
    """Serve until a signal comes; one that comes before that breaks off the start."""
    is_serving, stop_requested = anyio.Event(), anyio.Event()

    async def listen(*, task_status: TaskStatus[None]) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            task_status.started()
            async for number in signals:
                deps.log.info("stopping", signal=signal.Signals(number).name)
                stop_requested.set()
                if not is_serving.is_set():
                    tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        await tasks.start(listen)
        async with open_controller(deps) as running_controller:
            is_serving.set()
            deps.log.info("serving", url=running_controller.url, dry_run=deps.dry_run)
            await stop_requested.wait()
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def open_controller(deps: Dependencies) -> AsyncIterator[RunningController]:
    """Run everything while the block lasts; on leaving, let what is under way end first."""
    active = ActiveConfig(deps.configuration)
    async with (
        bound(deps.listen) as address,
        bound_if_set(deps.configuration.settings.server.probe_listen) as probe_address,
        background_task(deps.log.run),
        open_api_session(deps) as session,
        run_event_recorder(session, deps.log, EVENT_FLUSH_TIMEOUT_S) as events,
        start_recording(deps, events, active, deps.log) as recording,
    ):
        journal, recorder = recording.journal, recording.recorder
        controller = _build_controller(deps, session, journal, recorder)
        interned = InternTables()
        probe = ServerProbe(session, SystemClock())
        reflectors = make_reflectors(session, controller, interned, probe)
        health = _health(controller, journal, active)
        stream = _event_stream(deps, journal)
        controller.suspend_detector.on_resume = partial(_reopen_watches, reflectors, deps.log)
        pulse = EventLoopPulse(health.add_heartbeat("event-loop", LIVENESS_TIMEOUT_S))
        deps.metrics.register(controller, *reflectors.values(), events, active, pulse)
        controller.worker.on_idle = deps.metrics.upstream.observe_cycle
        controller.sync_status.resource_missing = partial(_log_missing_resource, deps.log)
        async with (
            serve_probes_at(probe_address, health),
            serve_at(address, health, deps.metrics if deps.serve_metrics else None, stream) as url,
            _last_records(journal, stream),
            anyio.create_task_group() as tasks,
        ):
            await tasks.start(controller.evictions.run)  #          decisions -> outcomes
            tasks.start_soon(controller.suspend_detector.run)
            tasks.start_soon(controller.worker.run)  #               subjects  -> decisions
            tasks.start_soon(probe.run)  #                      ends back-offs after an outage
            for reflector in reflectors.values():
                tasks.start_soon(reflector.run)  #            cluster   -> changes
            evictor = ApiEvictor(session)
            tasks.start_soon(
                partial(
                    resolve_open_intents,
                    on_inherited=controller.inherit_eviction,
                    on_outcome=controller.end_inherited_eviction,
                ),
                controller.set_paused,
                recorder,
                evictor,
                deps.log,
                effect_timeout(deps.configuration.settings.client.total_timeout_s),
            )
            tasks.start_soon(freeze_gc_after_sync, controller, interned, deps.log)
            tasks.start_soon(
                partial(log_transitions, stable_polls=STABLE_POLLS),
                controller.all_not_ready_reasons,
                deps.log,
                "holding back",
                "judging again",
            )
            if deps.reload is not None:
                tasks.start_soon(
                    _config_reloader(deps, deps.reload, active, controller, recorder).run
                )
            tasks.start_soon(pulse.run)
            try:
                yield RunningController(controller, url)
            finally:
                await _drain(controller)
                tasks.cancel_scope.cancel()


def open_api_session(deps: Dependencies) -> AbstractAsyncContextManager[Session]:
    """Open the session with the API server."""
    client = deps.configuration.settings.client
    return open_session(deps.kube, limits=limits_of(client), rate_limit=rate_of(client))


@asynccontextmanager
async def start_recording(
    deps: Dependencies, events: EventRecorder, active: ActiveConfig, log: DebugLogger
) -> AsyncIterator[Recording]:
    """Open the journal, write down the policy in force, and let everyone follow."""
    async with open_recording(
        deps.journal_dir,
        deps.configuration.settings,
        deps.metrics,
        log,
        [_kube_events_sink(deps, events, active)],
        dry_run=deps.dry_run,
    ) as recording:
        _log_recovery(recording.journal, log)
        policy = deps.configuration.policy
        recording.recorder.policy_loaded(policy.source, policy.revision)
        yield recording


def _kube_events_sink(
    deps: Dependencies, events: EventRecorder, active: ActiveConfig
) -> KubeEventsSink:
    """Make what turns records into Events; a dry run, which changes nothing, has none."""
    controller_pod = None if deps.dry_run else own_pod(os.environ)
    return KubeEventsSink(events.record, lambda: active.configuration, controller_pod, time.time)


def _log_recovery(journal: Journal, log: DebugLogger) -> None:
    """Say what the journal's last writer left behind that is out of order."""
    found = journal.recovery
    if found.torn_file is not None:
        log.warning(
            "repaired the journal's torn last line",
            bytes=found.torn_bytes,
            kept_in=str(found.torn_file),
        )
    if found.truncated_from:
        log.warning(
            "the end of the journal is missing: another epoch begins",
            first_missing=found.next_seq,
            last_missing=found.truncated_from,
        )
    if found.has_new_key:
        log.warning(
            "checkpoints have another signer from now on; see checkpoint.pub for the earlier ones"
        )
    if found.damaged_lines:
        log.warning(
            "the journal has damaged lines; see `audit verify`",
            lines=found.damaged_lines,
            first=found.damage_locations[0],
        )


def make_reflectors(
    session: Transport, controller: Controller, interned: InternTables, probe: ServerProbe
) -> Mapping[str, AnyReflector]:
    """Make the list-watch loop of every watched kind; each feeds the controller."""
    return {
        resource: Reflector(session, codec, controller.event_handler(resource), probe=probe)
        for resource, codec in make_codecs(interned).items()
    }


@asynccontextmanager
async def run_event_recorder(
    session: Session, log: DebugLogger, flush_timeout_s: float
) -> AsyncIterator[EventRecorder]:
    """Write Kubernetes Events while the block lasts, and so long at most after it."""
    events = EventRecorder(session, socket.gethostname(), log.debug)
    async with background_task(events.run):
        try:
            yield events
        finally:
            with anyio.move_on_after(flush_timeout_s, shield=True):
                await events.drained()


@asynccontextmanager
async def background_task(task: Callable[[], Coroutine[Any, Any, object]]) -> AsyncIterator[None]:
    """Run a stage beside the block."""
    async with anyio.create_task_group() as group:
        group.start_soon(task)
        try:
            yield
        finally:
            group.cancel_scope.cancel()


def _event_stream(deps: Dependencies, journal: Journal) -> EventStream | None:
    config = deps.configuration.settings.sinks.stream
    if config is None:
        return None
    limits = StreamLimits(config.max_clients, config.heartbeat_s, config.stalled_after_s)
    return EventStream(journal.tail, limits, utc_now, deps.log)


@asynccontextmanager
async def _last_records(journal: Journal, stream: EventStream | None) -> AsyncIterator[None]:
    """Write the last checkpoint after the block, and send it to the open streams."""
    try:
        yield
    finally:
        await journal.finish()
        if stream is not None:
            await stream.finish()


def _config_reloader(
    deps: Dependencies,
    reload: ReloadConfig,
    active: ActiveConfig,
    controller: Controller,
    recorder: JournalRecorder,
) -> ConfigReloader:
    return ConfigReloader(
        reload.files,
        reload.initial_fingerprint,
        active,
        controller.reconfigure,
        recorder,
        deps.log,
    )


def _build_controller(
    deps: Dependencies, session: Session, journal: Journal, recorder: JournalRecorder
) -> Controller:
    controller = Controller(
        deps.configuration,
        recorder=recorder,
        evictor=DryRunEvictor() if deps.dry_run else ApiEvictor(session),
        observer=deps.observer,
        clock=time.monotonic,
        wall_clock=time.time,
        write_block_reason=lambda: journal.reason or None,
        suspend_detector=SuspendDetector(partial(time.clock_gettime, BOOTTIME_CLOCK)),
    )
    journal.on_recovered = controller.wake
    return controller


def _health(controller: Controller, journal: Journal, active: ActiveConfig) -> Health:
    health = Health(time.monotonic)
    for resource in RESOURCES:
        health.add_readiness_check(f"sync-{resource}", partial(_sync_check, controller, resource))
    health.add_readiness_check("journal", lambda: _check(journal.reason))
    health.add_readiness_check("started", lambda: _check(controller.paused_reason or ""))
    health.add_info_check(
        "policy", lambda: CheckResult(not active.problems, active.status_message())
    )
    return health


def _sync_check(controller: Controller, resource: str) -> CheckResult:
    refusal = controller.sync_status.missing().get(resource)
    if refusal is not None:
        message = f"going without: {WATCHED_KINDS[resource].if_forbidden} ({refusal})"
        return CheckResult(ok=True, message=message)
    return _check(controller.sync_status.reasons()[resource])


def _check(reason: str) -> CheckResult:
    return CheckResult(not reason, reason)


def _reopen_watches(
    reflectors: Mapping[str, AnyReflector], log: DeferredLogger, suspended_s: float
) -> None:
    """Distrust the whole picture after standing still."""
    log.warning(
        "this process stood still: every watch is opened anew", seconds=round(suspended_s, 1)
    )
    for reflector in reflectors.values():
        reflector.reopen(f"this process stood still for {suspended_s:.0f} s")


def _log_missing_resource(log: DeferredLogger, resource: str, reason: str) -> None:
    effect = WATCHED_KINDS[resource].if_forbidden
    log.warning(
        "an optional resource cannot be read", resource=resource, effect=effect, reason=reason
    )


async def _drain(controller: Controller) -> None:
    """Begin nothing new, and give evictions under way a little time to end."""
    controller.set_paused("stopping")
    with anyio.move_on_after(SHUTDOWN_TIMEOUT_S, shield=True):
        await controller.evictions.drained()
