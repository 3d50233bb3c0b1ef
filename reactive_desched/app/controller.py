"""The composition root of `run`: every asynchronous edge of the controller is opened here."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint
from msgspec import Struct

from reactive_desched.app import openings
from reactive_desched.app.approving import Approving
from reactive_desched.app.cluster import wait_for_cluster
from reactive_desched.app.components import Components, build_components
from reactive_desched.app.config_reload import ActiveConfig, ConfigReloader
from reactive_desched.app.evaluating import Evaluating
from reactive_desched.app.futile import FutileMoves
from reactive_desched.app.gc import freeze_gc_after_sync, keep_young_objects_few
from reactive_desched.app.health import add_credential_check, add_recording_check, add_sink_check
from reactive_desched.app.input_notes import NotedConfigurable
from reactive_desched.app.operator import build_operator
from reactive_desched.app.options import Dependencies
from reactive_desched.app.past_pages import PastPages
from reactive_desched.app.pausing import Pausing
from reactive_desched.app.recording import Recording, start_recording
from reactive_desched.app.serving import bound_addresses, log_serving, open_server
from reactive_desched.app.start_up import (
    adopt_disruptions,
    end_startup_pause,
    log_api_server,
    log_cluster,
    log_identity,
    log_start,
    stop_for_another_cluster,
)
from reactive_desched.app.status import StatusPage, log_states
from reactive_desched.app.telemetry import Telemetry, open_telemetry
from reactive_desched.app.usage import watch_while_followed
from reactive_desched.controller.controller import Controller
from reactive_desched.controller.pipeline import Pipeline
from reactive_desched.controller.readiness import STOPPING
from reactive_desched.controller.worker import check_for_suspend
from reactive_desched.election.leadership import NO_LEADER_YET
from reactive_desched.eviction.recorder import RecorderSlot
from reactive_desched.journal.clocks import Moment
from reactive_desched.journal.history import History, read_history
from reactive_desched.kube.client.clock import SystemClock
from reactive_desched.kube.client.events import EventRecorder
from reactive_desched.kube.client.session import Session
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.state.indexes.gangs import asks_for_gangs
from reactive_desched.state.resources import GANG_RESOURCES, USAGE_RESOURCES, WATCHED_KINDS
from reactive_desched.web.event_stream import EventStream
from reactive_desched.web.server import Served

if TYPE_CHECKING:
    from reactive_desched.app.election import OpenTerm
    from reactive_desched.recording.recorder import ClusterRecorder

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
    """Run a controller while the block lasts; at its end let evictions under way finish.

    With leader election it stands by until it leads, and raises LeadershipLost after it led.
    """
    log_identity(deps.configuration, deps.log, dry_run=deps.dry_run)
    if deps.dry_run and deps.configuration.settings.leader_election.leader_elect:
        deps.log.info("a dry run evicts nothing: it takes no part in leader election")
    work_available, recorder = Wakeup(), RecorderSlot()
    active = ActiveConfig(deps.configuration)
    async with (
        open_telemetry(deps) as telemetry,
        bound_addresses(deps) as addresses,
        openings.background_task(deps.log.run),
        openings.open_api_session(deps) as session,
        openings.run_event_recorder(session, deps.log, openings.EVENT_FLUSH_TIMEOUT_S) as events,
    ):
        log_api_server(session, deps.log)
        parts = await build_components(deps, session, active, recorder, work_available, events)
        controller = parts.pipeline.controller
        if deps.elects_leader:
            controller.pauses.leadership.stand_by(NO_LEADER_YET)
        _register_metrics(deps, session, events, parts)
        pages = _build_pages(deps, session, parts, recorder, telemetry)
        await checkpoint()  # to build all this and to serve it take milliseconds
        async with (
            open_server(deps, session, addresses, pages.served) as urls,
            anyio.create_task_group() as tasks,
        ):
            log_serving(deps, urls)
            # address leads to another cluster -> readiness
            other_cluster = session.cluster, controller.readiness, deps.log
            tasks.start_soon(stop_for_another_cluster, *other_cluster)
            _start_tasks(tasks, deps, parts, recorder)
            name = deps.configuration.settings.events.cluster
            cluster = await wait_for_cluster(session, name, session.description, deps.log)
            pages.status.set_cluster(cluster)
            telemetry.set_cluster(cluster)
            log_cluster(cluster, deps.log)
            # records -> journal.tail -> sinks
            server_time = session.server_clock.now
            start = partial(
                start_recording,
                deps,
                events,
                active,
                deps.log,
                cluster,
                server_time,
                work_available,
                controller.clocks,
            )
            open_term = partial(_open_term, deps, parts, recorder, pages, start)
            async with _acting(deps, session, parts, open_term):
                yield RunningController(parts.pipeline, urls.main)
            tasks.cancel_scope.cancel()


def _register_metrics(
    deps: Dependencies, session: Session, events: EventRecorder, parts: Components
) -> None:
    """Serve the metrics of the parts that are there on a standby, too."""
    register, pipeline = deps.metrics.register, parts.pipeline
    register(pipeline.description, pipeline.controller.pauses.leadership)
    register(*parts.reflectors.values(), parts.late_watches)
    register(session, events, parts.active, parts.pulse, parts.usage, parts.interned.long_texts)
    register(parts.health_checks, parts.calendars)
    register(pipeline.evictions, parts.draining, parts.consolidation, parts.rooms)


class _Pages(Struct, frozen=True):
    """The pages that are served; `stream`, `status` and `pausing` follow the journal of a term."""

    served: Served
    stream: EventStream | None
    status: StatusPage
    pausing: Pausing


def _build_pages(
    deps: Dependencies,
    session: Session,
    parts: Components,
    recorder: RecorderSlot,
    telemetry: Telemetry,
) -> _Pages:
    """Build what answers people and programs, and the checks of health that go by it."""
    pipeline, settings = parts.pipeline, deps.configuration.settings
    pausing = Pausing(pipeline.controller, recorder, settings.brakes.pause_file, deps.log)
    credential_error = session.credentials.error
    status = StatusPage(
        deps,
        pipeline,
        parts.active,
        credential_error,
        parts.calendars.states,
        parts.usage.states,
        parts.interned.long_texts.message,
    )
    add_credential_check(parts.health, credential_error)
    add_sink_check(parts.health, lambda: {**status.sink_errors(), **dict(telemetry.errors())})
    add_recording_check(parts.health, status.recording_fault)
    stream = openings.build_event_stream(deps)
    operator = build_operator(
        pipeline,
        pausing,
        FutileMoves(pipeline.controller, recorder),
        (
            Evaluating(pipeline, recorder, parts.notes),
            Approving(pipeline, recorder, parts.notes, pausing.keep),
        ),
        parts.draining,
        status,
        parts.notes,
        PastPages(status.recorded_places),
    )
    metrics = deps.metrics if deps.serve_metrics else None
    served = Served(parts.health, metrics, stream, operator, settings.server.ui)
    return _Pages(served, stream, status, pausing)


def _acting(
    deps: Dependencies, session: Session, parts: Components, open_term: "OpenTerm"
) -> AbstractAsyncContextManager[object]:
    """Act for the whole block; with leader election, while this process leads."""
    if not deps.elects_leader:
        return open_term(lambda: SHUTDOWN_TIMEOUT_S)
    from reactive_desched.app.election import stand_for_leader

    return stand_for_leader(deps, session, parts, open_term, SHUTDOWN_TIMEOUT_S)


async def _write_nodes(parts: Components) -> None:
    """Follow the nodes that are drained, and those that are consolidated."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(parts.draining.run)
        tasks.start_soon(parts.consolidation.run)
        tasks.start_soon(parts.rooms.run)
        tasks.start_soon(parts.deletion_costs.run)


@asynccontextmanager
async def _open_term(
    deps: Dependencies,
    parts: Components,
    slot: RecorderSlot,
    pages: _Pages,
    start: Callable[[], AbstractAsyncContextManager[Recording]],
    drain_limit_s: Callable[[], float],
) -> AsyncIterator[Recording]:
    """Open the journal, and evict while the block lasts; at its end let evictions finish."""
    pipeline, pausing, log = parts.pipeline, pages.pausing, deps.log
    async with (
        start() as recording,
        openings.streamed(recording.journal, pages.stream),
        anyio.create_task_group() as tasks,
    ):
        await pausing.restore(recording.directory)
        recorder = _recorder_of(deps, parts, recording)
        with slot.filled(recording.recorder), pages.status.recording_open(recording, recorder):
            # intents -> outcomes -> controller.settle
            await tasks.start(pipeline.evictions.run)
            # cluster state -> recording, before anything is evaluated
            if recorder is not None:
                from reactive_desched.app.recorder import run_recorder

                await tasks.start(run_recorder, recorder, pipeline, parts.notes)
            # past evictions -> controller.restore; open intents -> outcomes -> readiness
            read_at = recording.now()
            history = _history_reader(pipeline.controller, recording.directory, read_at)
            startup = recording.recorder, parts.evictor, log, history, read_at, parts.notes
            tasks.start_soon(end_startup_pause, pipeline.controller, *startup)
            # pods -> disruptions
            tasks.start_soon(adopt_disruptions, pipeline.controller)
            # jobs -> steps -> API server
            if parts.migration is not None and not deps.dry_run:
                tasks.start_soon(parts.migration.run)
            # pause file -> controller.set_pause_file; brakes -> brakes.json
            tasks.start_soon(pausing.run)
            # calendars -> calendars.json
            tasks.start_soon(parts.calendars.keep_in, recording.directory)
            # empty nodes -> their annotations and taints
            tasks.start_soon(_write_nodes, parts)
            # proposals -> chat
            _start_chat(tasks, deps, pipeline, recording)
            try:
                yield recording
            finally:
                await _drain(pipeline, drain_limit_s())
                pipeline.controller.disruptions.flush()
                tasks.cancel_scope.cancel()


def _start_chat(
    tasks: TaskGroup, deps: Dependencies, pipeline: Pipeline, recording: Recording
) -> None:
    """Start what writes to a chat, where the settings have one."""
    if (settings := deps.configuration.settings.chat) is not None:
        from reactive_desched.app.proposal_messages import open_chat

        messages = open_chat(settings, pipeline, recording.cluster, deps.log)
        deps.metrics.register(messages)
        tasks.start_soon(messages.run)


def _history_reader(
    controller: Controller, directory: Path, read_at: Moment
) -> Callable[[], Awaitable[History]]:
    """Return a reader of past evictions, as far back as limits count them."""
    counts_for_s = controller.config.controller.budgets.counts_for_s
    read = partial(read_history, directory, read_at, counts_for_s=counts_for_s)
    return partial(anyio.to_thread.run_sync, read, abandon_on_cancel=True)


def _recorder_of(
    deps: Dependencies, parts: Components, recording: Recording
) -> "ClusterRecorder | None":
    """Build what records the cluster state, where the settings have it recorded."""
    settings = deps.configuration.settings.recording
    if not settings.enabled:
        return None
    from reactive_desched.app.recorder import build_recorder  # zstd, only where it is needed

    recorder = build_recorder(
        settings,
        parts.pipeline.controller,
        parts.active,
        recording.directory,
        recording.cluster,
        parts.notes,
        deps.log,
        dry_run=deps.dry_run,
    )
    deps.metrics.register(recorder)
    return recorder


def _start_tasks(
    tasks: TaskGroup, deps: Dependencies, parts: Components, recorder: RecorderSlot
) -> None:
    """Start the tasks that run on a standby, too; comments name what flows through each."""
    pipeline, controller, log = parts.pipeline, parts.pipeline.controller, deps.log
    # controller.work -> intents
    tasks.start_soon(pipeline.worker.run)
    # clock -> readiness
    tasks.start_soon(check_for_suspend, controller)
    # API server is back -> reflectors
    tasks.start_soon(parts.probe.run)
    # API server -> controller.apply
    for resource, reflector in parts.reflectors.items():
        record = WATCHED_KINDS[resource].record
        if resource in USAGE_RESOURCES:
            followed = partial(controller.state.has_followers, record)
        elif resource in GANG_RESOURCES:
            followed = partial(asks_for_gangs, controller.state, record)
        else:
            tasks.start_soon(reflector.run)
            continue
        tasks.start_soon(watch_while_followed, reflector, followed, SystemClock())
    # metrics-server, Prometheus -> samples -> controller.apply
    tasks.start_soon(parts.usage.run)
    # Prometheus, Alertmanager -> answers -> controller.pauses.take_answer
    tasks.start_soon(parts.health_checks.run)
    # calendars -> controller.reconfigure
    tasks.start_soon(parts.calendars.run)
    # files -> controller.reconfigure
    if deps.reload is not None:
        files, initial = deps.reload.files, deps.reload.initial_fingerprint
        noted = NotedConfigurable(controller, parts.notes, dry_run=deps.dry_run)
        reloader = ConfigReloader(files, initial, parts.active, noted, recorder, log)
        tasks.start_soon(reloader.run)
    # ConfigMaps of schedulers -> files
    if parts.scheduler_config_maps is not None:
        tasks.start_soon(parts.scheduler_config_maps.run)
    # state -> log
    tasks.start_soon(log_states, pipeline, log)
    # what was synced, limits, findings -> log
    tasks.start_soon(log_start, pipeline, deps.configuration, log)
    # event loop -> /livez
    tasks.start_soon(parts.pulse.run)
    tasks.start_soon(freeze_gc_after_sync, controller, parts.interned)
    tasks.start_soon(keep_young_objects_few, pipeline.worker)


async def _drain(pipeline: Pipeline, limit_s: float) -> None:
    """Begin no more evictions, and wait a bounded time for those under way."""
    pipeline.controller.readiness.pause(STOPPING, "the controller is stopping")
    with anyio.move_on_after(limit_s, shield=True):
        await pipeline.evictions.drained()
