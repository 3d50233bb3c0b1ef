"""The composition root of `run`: every asynchronous edge of the controller is opened here."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import anyio
from msgspec import Struct

from reactive_desched.app import edges
from reactive_desched.app.config_reload import ActiveConfig, ConfigReloader
from reactive_desched.app.gc import freeze_gc_after_sync
from reactive_desched.app.health import build_health
from reactive_desched.app.options import Dependencies, ReloadConfig
from reactive_desched.app.recording import Recording, log_transitions, start_recording
from reactive_desched.controller.controller import Controller
from reactive_desched.controller.pipeline import Pipeline, build_pipeline
from reactive_desched.controller.readiness import STARTUP, STOPPING, Readiness
from reactive_desched.controller.suspend import SuspendDetector
from reactive_desched.controller.worker import check_for_suspend
from reactive_desched.eviction.dry_run import DryRunEvictor
from reactive_desched.eviction.executor import effect_timeout
from reactive_desched.eviction.recorder import RecorderSlot
from reactive_desched.eviction.recovery import end_pending_intent, read_open_intents
from reactive_desched.journal.recorder import JournalRecorder
from reactive_desched.journal.recovery import OpenIntent
from reactive_desched.kube.client.clock import SystemClock
from reactive_desched.kube.client.evictor import ApiEvictor
from reactive_desched.kube.watch.resume import ServerProbe
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.telemetry.logs import Logger
from reactive_desched.web.health import EventLoopPulse
from reactive_desched.web.listen_socket import bound, bound_if_set
from reactive_desched.web.server import serve_at, serve_probes_at

SHUTDOWN_TIMEOUT_S: Final = 10.0
"""How long evictions under way may take to end at shutdown."""

LIVENESS_TIMEOUT_S: Final = 10.0
"""When the event loop has not turned for so long, /livez asks for a restart."""

STABLE_POLLS: Final = 4
"""A pause is logged once so many polls found it: then the line names every pause."""

BOOTTIME_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""The clock that also counts suspended time, where the system has one."""


class RunningController(Struct, frozen=True):
    """The parts of a running controller, and where its health and metrics are served."""

    pipeline: Pipeline
    url: str

    @property
    def controller(self) -> Controller:
        """The controller itself."""
        return self.pipeline.controller


@asynccontextmanager
async def open_controller(deps: Dependencies) -> AsyncIterator[RunningController]:
    """Run a controller while the block lasts; at its end let evictions under way finish."""
    work_available, recorder, interned = Wakeup(), RecorderSlot(), InternTables()
    active = ActiveConfig(deps.configuration)
    async with (
        bound(deps.listen) as address,
        bound_if_set(deps.configuration.settings.server.probe_listen) as probe_address,
        edges.background_task(deps.log.run),
        edges.open_api_session(deps) as session,
        edges.run_event_recorder(session, deps.log, edges.EVENT_FLUSH_TIMEOUT_S) as events,
    ):
        evictor = ApiEvictor(session)
        timeout_s = effect_timeout(deps.configuration.settings.client.total_timeout_s)
        pipeline = build_pipeline(
            deps.configuration,
            recorder=recorder,
            evictor=DryRunEvictor() if deps.dry_run else evictor,
            observer=deps.observer,
            work_available=work_available,
            suspend=SuspendDetector(partial(time.clock_gettime, BOOTTIME_CLOCK)),
            clock=time.monotonic,
            wall_clock=time.time,
        )
        controller, readiness = pipeline.controller, pipeline.controller.readiness
        probe = ServerProbe(session, SystemClock())
        reflectors = edges.build_reflectors(session, pipeline, interned, probe)
        health = build_health(controller, active)
        pulse = EventLoopPulse(health.add_heartbeat("event-loop", LIVENESS_TIMEOUT_S))
        deps.metrics.register(controller, *reflectors.values(), events, active, pulse)
        async with (
            start_recording(  #                               records -> journal.tail -> sinks
                deps, events, active, deps.log, work_available
            ) as recording
        ):
            stream = edges.build_event_stream(deps, recording.journal)
            metrics = deps.metrics if deps.serve_metrics else None
            async with (
                serve_probes_at(probe_address, health),
                serve_at(address, health, metrics, stream) as url,
                edges.last_records(recording.journal, stream),
                anyio.create_task_group() as tasks,
            ):
                with recorder.filled(recording.recorder):
                    await tasks.start(
                        pipeline.evictions.run
                    )  #     intents -> outcomes -> controller.settle
                    tasks.start_soon(pipeline.worker.run)  #         controller.work -> intents
                    tasks.start_soon(check_for_suspend, controller)  # clock -> readiness
                    tasks.start_soon(
                        probe.run
                    )  #                   API server is back -> reflectors
                    for reflector in reflectors.values():
                        tasks.start_soon(reflector.run)  #           API server -> controller.apply
                    tasks.start_soon(
                        _start_up, controller, recording.recorder, evictor, deps.log, timeout_s
                    )
                    tasks.start_soon(freeze_gc_after_sync, controller, interned, deps.log)
                    tasks.start_soon(_log_pauses, readiness, deps.log)
                    if deps.reload is not None:  #                   files -> controller.reconfigure
                        reloader = _config_reloader(
                            deps, deps.reload, active, controller, recording
                        )
                        tasks.start_soon(reloader.run)
                    tasks.start_soon(pulse.run)  #                    event loop -> /livez
                    try:
                        yield RunningController(pipeline, url)
                    finally:
                        readiness.pause(STOPPING, "the controller is stopping")
                        with anyio.move_on_after(SHUTDOWN_TIMEOUT_S, shield=True):
                            await pipeline.evictions.drained()
                        tasks.cancel_scope.cancel()


def _config_reloader(
    deps: Dependencies,
    reload: ReloadConfig,
    active: ActiveConfig,
    controller: Controller,
    recording: Recording,
) -> ConfigReloader:
    return ConfigReloader(
        reload.files,
        reload.initial_fingerprint,
        active,
        controller,
        recording.recorder,
        deps.log,
    )


async def _log_pauses(readiness: Readiness, log: Logger) -> None:
    messages = ("evictions paused", "evictions resumed")
    await log_transitions(readiness.message, log, *messages, stable_polls=STABLE_POLLS)


async def _start_up(
    controller: Controller,
    recorder: JournalRecorder,
    evictor: ApiEvictor,
    log: Logger,
    effect_timeout_s: float,
) -> None:
    """End the startup pause once each pod of the last run's open intents was read.

    A pod that still exists may be evicted by that run's request for `effect_timeout_s` from now;
    other pods are evaluated meanwhile.
    """
    deadline = anyio.current_time() + effect_timeout_s
    if recorder.open_intents():
        controller.readiness.pause(STARTUP, "resolving the evictions that the last run left open")
    inherited = await read_open_intents(recorder, evictor, log)
    for pod, outcome in inherited.outcomes.items():
        controller.end_inherited_eviction(pod, outcome)
    for intent in inherited.pending:
        controller.inherit_eviction(intent.who.uid)
    controller.readiness.resume(STARTUP)

    async def end(intent: OpenIntent) -> None:
        outcome = await end_pending_intent(intent, recorder, evictor, log, deadline)
        controller.end_inherited_eviction(intent.who.uid, outcome)

    if pending := inherited.pending:
        message = "waiting for eviction requests of an earlier process"
        log.info(message, pods=len(pending), duration_s=effect_timeout_s)
    async with anyio.create_task_group() as group:
        for intent in inherited.pending:
            group.start_soon(end, intent)
