"""The composition root of `run`: every asynchronous edge of the controller is opened here."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from reactive_desched.app import edges
from reactive_desched.app.config_reload import ActiveConfig, ConfigReloader
from reactive_desched.app.gc import freeze_gc_after_sync
from reactive_desched.app.operator import build_operator
from reactive_desched.app.options import Dependencies
from reactive_desched.app.parts import Parts, build_parts
from reactive_desched.app.pausing import Pausing
from reactive_desched.app.recording import log_pauses, start_recording
from reactive_desched.app.start_up import end_startup_pause, log_limits
from reactive_desched.controller.controller import Controller
from reactive_desched.controller.pipeline import Pipeline
from reactive_desched.controller.readiness import STOPPING
from reactive_desched.controller.worker import check_for_suspend
from reactive_desched.eviction.executor import effect_timeout
from reactive_desched.eviction.recorder import RecorderSlot
from reactive_desched.journal.history import read_history
from reactive_desched.journal.recorder import JournalRecorder
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.web.listen_socket import bound, bound_if_set
from reactive_desched.web.server import serve_at, serve_probes_at

SHUTDOWN_TIMEOUT_S: Final = 10.0
"""How long evictions under way may take to end at shutdown."""


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
    work_available, recorder = Wakeup(), RecorderSlot()
    active = ActiveConfig(deps.configuration)
    async with (
        bound(deps.listen) as address,
        bound_if_set(deps.configuration.settings.server.probe_listen) as probe_address,
        edges.background_task(deps.log.run),
        edges.open_api_session(deps) as session,
        edges.run_event_recorder(session, deps.log, edges.EVENT_FLUSH_TIMEOUT_S) as events,
    ):
        parts = build_parts(deps, session, active, recorder, work_available)
        deps.metrics.register(parts.pipeline.controller, *parts.reflectors.values())
        deps.metrics.register(events, active, parts.pulse, parts.usage)
        metrics = deps.metrics if deps.serve_metrics else None
        # records -> journal.tail -> sinks
        async with start_recording(deps, events, active, deps.log, work_available) as recording:
            pausing = _build_pausing(deps, parts)
            await pausing.restore()
            stream = edges.build_event_stream(deps, recording.journal)
            async with (
                serve_probes_at(probe_address, parts.health),
                serve_at(
                    address,
                    parts.health,
                    metrics,
                    stream,
                    build_operator(parts.pipeline.controller, pausing),
                ) as url,
                edges.last_records(recording.journal, stream),
                anyio.create_task_group() as tasks,
            ):
                with recorder.filled(recording.recorder):
                    await _start_tasks(tasks, deps, parts, recording.recorder)
                    # pause file -> controller.set_pause_file; brakes -> brakes.json
                    tasks.start_soon(pausing.run)
                    try:
                        yield RunningController(parts.pipeline, url)
                    finally:
                        await _drain(parts.pipeline)
                        tasks.cancel_scope.cancel()


def _build_pausing(deps: Dependencies, parts: Parts) -> Pausing:
    pause_file = deps.configuration.settings.brakes.pause_file
    return Pausing(parts.pipeline.controller, deps.journal_dir, pause_file, deps.log)


async def _start_tasks(
    tasks: TaskGroup, deps: Dependencies, parts: Parts, recorder: JournalRecorder
) -> None:
    """Start every task of the controller; what flows through each stands beside it."""
    pipeline, controller, log = parts.pipeline, parts.pipeline.controller, deps.log
    timeout_s = effect_timeout(deps.configuration.settings.client.total_timeout_s)
    # intents -> outcomes -> controller.settle
    await tasks.start(pipeline.evictions.run)
    # controller.work -> intents
    tasks.start_soon(pipeline.worker.run)
    # clock -> readiness
    tasks.start_soon(check_for_suspend, controller)
    # API server is back -> reflectors
    tasks.start_soon(parts.probe.run)
    # API server -> controller.apply
    for reflector in parts.reflectors.values():
        tasks.start_soon(reflector.run)
    # metrics-server, Prometheus -> samples -> controller.apply
    tasks.start_soon(parts.usage.run)
    # past evictions -> controller.restore; open intents of the last run -> outcomes -> readiness
    reading = partial(read_history, deps.journal_dir, time.time())
    history = partial(anyio.to_thread.run_sync, reading, abandon_on_cancel=True)
    startup = controller, recorder, parts.evictor, log, timeout_s, history
    tasks.start_soon(end_startup_pause, *startup)
    # files -> controller.reconfigure
    if deps.reload is not None:
        files, initial = deps.reload.files, deps.reload.initial_fingerprint
        reloader = ConfigReloader(files, initial, parts.active, controller, recorder, log)
        tasks.start_soon(reloader.run)
    # readiness -> log
    tasks.start_soon(log_pauses, controller.readiness, log)
    # limits -> log
    tasks.start_soon(log_limits, controller, log)
    # event loop -> /livez
    tasks.start_soon(parts.pulse.run)
    tasks.start_soon(freeze_gc_after_sync, controller, parts.interned, log)


async def _drain(pipeline: Pipeline) -> None:
    """Begin no more evictions, and wait a bounded time for those under way."""
    pipeline.controller.readiness.pause(STOPPING, "the controller is stopping")
    with anyio.move_on_after(SHUTDOWN_TIMEOUT_S, shield=True):
        await pipeline.evictions.drained()
