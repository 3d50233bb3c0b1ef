"""Builds the parts of a controller, before any task starts."""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

from anyio.lowlevel import checkpoint
from msgspec import Struct

from reactive_desched.app import openings
from reactive_desched.app.calendars import CalendarPolling
from reactive_desched.app.config_reload import ActiveConfig
from reactive_desched.app.consolidation import Consolidation
from reactive_desched.app.deletion_costs import DeletionCosts
from reactive_desched.app.health import build_health
from reactive_desched.app.health_checks import HealthChecks
from reactive_desched.app.input_notes import InputNotes, NotedConfigurable, NotedEvictionClient
from reactive_desched.app.node_drains import Draining, NodeWrites
from reactive_desched.app.options import Dependencies
from reactive_desched.app.rooms import Rooms
from reactive_desched.app.scheduler_config_maps import SchedulerConfigMaps
from reactive_desched.app.usage import UsagePolling
from reactive_desched.controller.pauses import SuspendDetector
from reactive_desched.controller.pipeline import Pipeline, build_pipeline
from reactive_desched.eviction.dry_run import DryRunEvictor
from reactive_desched.eviction.recorder import RecorderSlot
from reactive_desched.kube.client.clock import SystemClock
from reactive_desched.kube.client.config_maps import read_key
from reactive_desched.kube.client.deletion_costs import write_deletion_cost
from reactive_desched.kube.client.events import EventRecorder
from reactive_desched.kube.client.evictor import ApiEvictor
from reactive_desched.kube.client.nodes import mark_drained, request_drain, write_taint
from reactive_desched.kube.client.nominations import nominate
from reactive_desched.kube.client.session import Session
from reactive_desched.kube.watch.late_watches import DeliveryCheck, LateWatches
from reactive_desched.kube.watch.resume import ServerProbe
from reactive_desched.policy.settings.drains import DrainRule
from reactive_desched.primitives.boottime import boottime
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.state.kinds.long_texts import LongTexts
from reactive_desched.usage.calendars import read_calendar
from reactive_desched.web.health import CheckResult, EventLoopPulse, Health

if TYPE_CHECKING:  # loaded where the settings have migration jobs
    from reactive_desched.app.migration import MigrationRunner

LIVENESS_TIMEOUT_S: Final = 10.0
"""When the event loop has not turned for so long, /livez asks for a restart."""


class Components(Struct, frozen=True):
    """The parts of a controller that run in tasks, built before any of them starts."""

    pipeline: Pipeline
    reflectors: Mapping[str, openings.AnyReflector]
    late_watches: LateWatches
    probe: ServerProbe
    usage: UsagePolling
    health_checks: HealthChecks
    calendars: CalendarPolling
    scheduler_config_maps: SchedulerConfigMaps | None
    migration: "MigrationRunner | None"
    draining: Draining
    consolidation: Consolidation
    rooms: Rooms
    deletion_costs: DeletionCosts
    evictor: ApiEvictor
    active: ActiveConfig
    interned: InternTables
    health: Health
    pulse: EventLoopPulse
    notes: InputNotes


async def build_components(
    deps: Dependencies,
    session: Session,
    active: ActiveConfig,
    recorder: RecorderSlot,
    work_available: Wakeup,
    events: EventRecorder,
) -> Components:
    """Build the parts, in several turns of the loop; `recorder` is filled with the journal open."""
    evictor, probe = ApiEvictor(session), ServerProbe(session, SystemClock())
    interned, notes = InternTables(reads_all=False), InputNotes()
    await checkpoint()  # a millisecond each
    late_watches = LateWatches(SystemClock())
    client = _noted_client(deps, session, evictor, notes, late_watches)
    pipeline = _build_pipeline(deps, recorder, client, work_available)
    await checkpoint()
    reflectors = openings.build_reflectors(
        session, pipeline, interned, probe, late_watches, deps.observer
    )
    health = build_health(pipeline, active, dry_run=deps.dry_run)
    pulse = EventLoopPulse(health.add_heartbeat("event-loop", LIVENESS_TIMEOUT_S))
    usage = UsagePolling(active, pipeline, session, SystemClock(), Random(), deps.log)  # noqa: S311 -- jitter is no secret
    checks = HealthChecks(active, pipeline.controller, notes, SystemClock(), Random(), deps.log)  # noqa: S311 -- as above
    calendars = _build_calendars(deps, active, pipeline, notes, health)
    migration = _build_migration(deps, session, pipeline, interned, events, recorder, notes)
    health.add_info_check("measured-use", usage.check)
    health.add_info_check("health-checks", checks.check)
    health.add_info_check("watches", partial(_watches_check, late_watches))
    health.add_info_check("large-pods", partial(_large_pods_check, interned.long_texts))
    return Components(
        pipeline,
        reflectors,
        late_watches,
        probe,
        usage,
        checks,
        calendars,
        _build_scheduler_config_maps(deps, session, health),
        migration,
        _build_draining(deps, session, pipeline, active, recorder),
        _build_consolidation(deps, session, pipeline, recorder, notes),
        _build_rooms(deps, session, pipeline, recorder),
        _build_deletion_costs(deps, session, pipeline, recorder),
        evictor,
        active,
        interned,
        health,
        pulse,
        notes,
    )


def _build_rooms(
    deps: Dependencies, session: Session, pipeline: Pipeline, recorder: RecorderSlot
) -> Rooms:
    nomination = None if deps.dry_run else partial(nominate, session)
    return Rooms(pipeline, recorder, nomination, partial(write_taint, session), deps.log)


def _build_deletion_costs(
    deps: Dependencies, session: Session, pipeline: Pipeline, recorder: RecorderSlot
) -> DeletionCosts:
    write = None if deps.dry_run else partial(write_deletion_cost, session)
    return DeletionCosts(pipeline, recorder, write, deps.log)


def _noted_client(
    deps: Dependencies,
    session: Session,
    evictor: ApiEvictor,
    notes: InputNotes,
    late_watches: LateWatches,
) -> NotedEvictionClient:
    client = DryRunEvictor() if deps.dry_run else evictor
    delivery = DeliveryCheck(session, SystemClock(), late_watches)
    return NotedEvictionClient(client, notes, caught_up=delivery.caught_up)


def _build_pipeline(
    deps: Dependencies,
    recorder: RecorderSlot,
    evictor: NotedEvictionClient,
    work_available: Wakeup,
) -> Pipeline:
    return build_pipeline(
        deps.configuration,
        recorder=recorder,
        evictor=evictor,
        observer=deps.observer,
        work_available=work_available,
        suspend=SuspendDetector(boottime),
        clock=time.monotonic,
        wall_clock=time.time,
        dry_run=deps.dry_run,
    )


def _build_draining(
    deps: Dependencies,
    session: Session,
    pipeline: Pipeline,
    active: ActiveConfig,
    recorder: RecorderSlot,
) -> Draining:
    writes = NodeWrites(partial(request_drain, session), partial(mark_drained, session))
    return Draining(
        pipeline,
        recorder,
        None if deps.dry_run else writes,
        partial(_drain_rules, active),
        time.time,
        deps.log,
    )


def _build_consolidation(
    deps: Dependencies,
    session: Session,
    pipeline: Pipeline,
    recorder: RecorderSlot,
    notes: InputNotes,
) -> Consolidation:
    write = None if deps.dry_run else partial(write_taint, session)
    return Consolidation(pipeline, recorder, write, deps.log, notes)


def _drain_rules(active: ActiveConfig) -> Sequence[DrainRule]:
    return active.configuration.settings.drains


def _build_calendars(
    deps: Dependencies, active: ActiveConfig, pipeline: Pipeline, notes: InputNotes, health: Health
) -> CalendarPolling:
    """Build what reads the calendars of schedules, and puts them in force."""
    controller = pipeline.controller
    noted = NotedConfigurable(controller, notes, dry_run=deps.dry_run)
    calendars = CalendarPolling(active, noted, SystemClock(), deps.log, read_calendar)
    health.add_info_check("calendars", calendars.check)
    return calendars


def _build_scheduler_config_maps(
    deps: Dependencies, session: Session, health: Health
) -> SchedulerConfigMaps | None:
    """Build what reads the ConfigMaps of schedulers, where files are read again at all."""
    if deps.reload is None:
        return None
    read = partial(read_key, session)
    found = SchedulerConfigMaps(deps.reload.files, read, SystemClock(), deps.log)
    health.add_info_check("scheduler-config", found.check)
    return found


def _build_migration(
    deps: Dependencies,
    session: Session,
    pipeline: Pipeline,
    interned: InternTables,
    events: EventRecorder,
    recorder: RecorderSlot,
    notes: InputNotes,
) -> "MigrationRunner | None":
    """Build what writes migration jobs, which is loaded where the settings have them."""
    if (migrations := pipeline.controller.migrations) is None:
        return None
    from reactive_desched.app.migration import build_migration

    return build_migration(deps, session, pipeline, interned, events, recorder, migrations, notes)


def _large_pods_check(long_texts: LongTexts) -> CheckResult:
    message = long_texts.message()
    return CheckResult(not message, message or "there is room for their long parts")


def _watches_check(late_watches: LateWatches) -> CheckResult:
    message = late_watches.message()
    return CheckResult(not message, message or "none was found late")
