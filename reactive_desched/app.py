"""The composition root: opens every edge, connects every part, starts every stage.

This is the one place that knows the whole configuration; parts get only what they need.
"""

import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import anyio
from msgspec import Struct

from reactive_desched import logs
from reactive_desched.act.rehearsal import Rehearsal
from reactive_desched.announcing import Announcer, own_pod
from reactive_desched.assembly import Core, Listener, Listeners, Plan
from reactive_desched.housekeeping import keep_house, settle_open_intents
from reactive_desched.journal.ids import Ids
from reactive_desched.journal.journal import Journal, open_journal
from reactive_desched.journal.ledger import Ledger
from reactive_desched.kube.codec import Codec
from reactive_desched.kube.decode import codecs
from reactive_desched.kube.events import Event, EventRecorder
from reactive_desched.kube.evictor import ApiEvictor
from reactive_desched.kube.kubeconfig import KubeConfig
from reactive_desched.kube.reflect import Reflector
from reactive_desched.kube.revival import Revival
from reactive_desched.kube.session import Session, Transport, open_session
from reactive_desched.kube.sharing import SharedParts
from reactive_desched.late_log import LateLog
from reactive_desched.metrics import Metrics, Sources
from reactive_desched.model.addresses import Listen, parse_listen
from reactive_desched.overrides import Overrides
from reactive_desched.planning import plan, read_runnable
from reactive_desched.policy.load import Configuration
from reactive_desched.preview.live import limits_of, rate_of
from reactive_desched.reloading import Files, InForce, Prepared, Reloader, Texts, fingerprint
from reactive_desched.reporting import Reporter
from reactive_desched.state import cluster
from reactive_desched.web.health import CheckResult, Health, pulse
from reactive_desched.web.server import serve

AnyCodec = Codec[Any]  # every resource has its own records
AnyReflector = Reflector[Any]  # as above

STOP_WITHIN_S = 10.0
"""How long evictions under way may take to end once we are asked to stop."""

TOLD_WITHIN_S = 2.0
"""How long Events of what we did may take to be written after that."""

WEDGED_AFTER_S = 10.0
"""When the event loop has not turned for so long, /livez asks for a restart."""


class Options(Struct, frozen=True):
    """What the command line said; `notices` are told at start.

    `lenient` asks for a policy read as the SIG descheduler reads it.
    """

    policy: str
    settings: str | None = None
    dry_run: bool = False
    kubeconfig: str | None = None
    context: str | None = None
    journal_dir: str | None = None
    listen: str | None = None
    log_format: str | None = None
    log_level: str | None = None
    lenient: bool = False
    serve_metrics: bool = True
    overrides: Overrides = Overrides()
    notices: tuple[str, ...] = ()


class Reload(Struct, frozen=True):
    """Where changes of the configuration come from, and what the files held at the start."""

    files: Files
    begun_with: Texts


class Parts(Struct, frozen=True):
    """What a controller is made of; `node_fit` is the strength a flag asked for."""

    configuration: Configuration
    kube: KubeConfig
    journal_dir: Path
    listen: Listen
    metrics: Metrics
    listener: Listener
    log: LateLog
    dry_run: bool = False
    serve_metrics: bool = True
    reload: Reload | None = None
    node_fit: str | None = None


class Controller(Struct, frozen=True):
    """A running controller: its core, and where its health and metrics are served."""

    core: Core
    url: str


def run(options: Options) -> int:
    """Run the controller until it is asked to stop; returns the exit status."""
    anyio.run(_until_stopped, make_parts(options))
    return 0


def make_parts(options: Options) -> Parts:
    """Read everything a person wrote, begin to log, and make the parts.

    Raises ConfigError where something that was written is wrong.
    """
    paths = (options.policy, *([options.settings] if options.settings else []))
    prepare = partial(_prepare, options, paths)
    reload = Reload(Files(paths, prepare), fingerprint(paths))
    configuration = prepare().configuration
    logging = configuration.settings.logging
    style = options.log_format or logging.format
    level = options.log_level or logging.level
    logs.configure(level=level, style=style, stream=sys.stderr)
    for notice in options.notices:
        logs.logger("flags").warning(notice)
    for warning in configuration.warnings:
        logs.logger("policy").warning(str(warning))
    return _parts(options, configuration, reload)


def _prepare(options: Options, paths: tuple[str, ...]) -> Prepared:
    """Read and check files and flags, and plan; the same at the start and at every reload."""
    read = read_runnable(paths, lenient=options.lenient)
    configuration = options.overrides.applied_to(read)
    return Prepared(configuration, make_plan(configuration, dry_run=options.dry_run))


def make_plan(configuration: Configuration, *, dry_run: bool) -> Plan:
    """Turn a configuration into a plan."""
    return plan(configuration.policy, configuration.settings, dry_run=dry_run)


def _parts(options: Options, configuration: Configuration, reload: Reload) -> Parts:
    settings, metrics = configuration.settings, Metrics()
    log = LateLog(logs.logger("controller"))
    directory = options.journal_dir or settings.journal.directory
    return Parts(
        configuration,
        KubeConfig(options.kubeconfig, options.context),
        Path(directory) if directory else default_journal_dir(os.environ),
        parse_listen(options.listen or settings.server.listen),
        metrics,
        Reporter(metrics, log, dry_run=options.dry_run),
        log,
        options.dry_run,
        options.serve_metrics,
        reload,
        options.overrides.node_fit,
    )


async def _until_stopped(parts: Parts) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with open_controller(parts) as controller:
            parts.log.info("serving", url=controller.url, dry_run=parts.dry_run)
            async for number in signals:
                parts.log.info("stopping", signal=signal.Signals(number).name)
                return


@asynccontextmanager
async def open_controller(parts: Parts) -> AsyncIterator[Controller]:
    """Run everything while the block lasts; on leaving, let what is under way end first."""
    async with open_cluster(parts) as session, open_records(parts) as journal:
        ledger, in_force = make_ledger(journal), InForce(parts.configuration)
        events = make_events(parts, session)
        announcer = make_announcer(parts, events, in_force)
        core = _core(parts, session, journal, ledger, announcer)
        shared = SharedParts()
        reflectors = make_reflectors(session, core, shared)
        health = _health(core, journal, in_force)
        _measure(parts, core, journal, reflectors, events)
        async with (
            serve(parts.listen, health, parts.metrics if parts.serve_metrics else None) as url,
            anyio.create_task_group() as stages,
        ):
            await stages.start(core.evictions.run)  #          decisions -> outcomes
            stages.start_soon(core.stage.run)  #               subjects  -> decisions
            for reflector in reflectors.values():
                stages.start_soon(reflector.run)  #            cluster   -> changes
            asker = ApiEvictor(session)
            stages.start_soon(settle_open_intents, core.hold_back, ledger, asker, parts.log)
            stages.start_soon(keep_house, core, shared, parts.log)
            stages.start_soon(parts.log.run)
            stages.start_soon(events.run)
            if parts.reload is not None:
                stages.start_soon(_reloader(parts, parts.reload, in_force, core, announcer).run)
            stages.start_soon(_pulse, health, parts.metrics)
            try:
                yield Controller(core, url)
            finally:
                await _let_end(core, events)
                stages.cancel_scope.cancel()


def make_ledger(journal: Journal) -> Ledger:
    """Make what writes intents and outcomes down."""
    return Ledger(journal, Ids(_utc_now, Random()), _utc_now)  # noqa: S311 -- no secrets


def open_cluster(parts: Parts) -> AbstractAsyncContextManager[Session]:
    """Open the session with the API server."""
    client = parts.configuration.settings.client
    return open_session(parts.kube, limits=limits_of(client), rate=rate_of(client))


def open_records(parts: Parts) -> AbstractAsyncContextManager[Journal]:
    """Open the journal."""
    return open_journal(
        parts.journal_dir,
        max_segment_bytes=parts.configuration.settings.journal.max_segment_bytes,
        clock=_utc_now,
        committed=parts.metrics.journal_written,
    )


def make_reflectors(
    session: Transport, core: Core, shared: SharedParts
) -> Mapping[str, AnyReflector]:
    """Make the list-watch loop of every resource, feeding the core."""
    codec = codecs(shared)
    by_resource: Mapping[str, AnyCodec] = {
        cluster.NAMESPACES: codec.namespaces,
        cluster.PRIORITY_CLASSES: codec.priority_classes,
        cluster.DISRUPTION_BUDGETS: codec.disruption_budgets,
        cluster.CLAIMS: codec.claims,
        cluster.VOLUMES: codec.volumes,
        cluster.CSI_NODES: codec.csi_nodes,
        cluster.NODES: codec.nodes,
        cluster.PODS: codec.pods,
    }
    revival = Revival()
    return {
        resource: Reflector(session, codec, core.feed(resource), revival=revival)
        for resource, codec in by_resource.items()
    }


def default_journal_dir(environ: Mapping[str, str]) -> Path:
    """Return where records go when nobody says: the service's state folder, or the user's."""
    if state := environ.get("STATE_DIRECTORY"):
        return Path(state) / "journal"
    home = environ.get("XDG_STATE_HOME") or Path(environ.get("HOME", "/var/lib")) / ".local/state"
    return Path(home) / "reactive-desched" / "journal"


def make_events(parts: Parts, session: Session) -> EventRecorder:
    """Make what writes Kubernetes Events."""
    return EventRecorder(session, socket.gethostname(), parts.log.debug)


def make_announcer(parts: Parts, events: EventRecorder, in_force: InForce) -> Announcer:
    """Make what turns news into Events; a dry run, which changes nothing, has none."""
    record = _leave if parts.dry_run else events.record
    return Announcer(record, lambda: in_force.configuration, own_pod(os.environ))


def _leave(_: Event) -> None:
    pass


def _reloader(
    parts: Parts, reload: Reload, in_force: InForce, core: Core, announcer: Announcer
) -> Reloader:
    return Reloader(
        reload.files,
        reload.begun_with,
        in_force,
        core.adopt,
        announcer,
        parts.metrics,
        parts.log,
    )


def _core(
    parts: Parts, session: Session, journal: Journal, ledger: Ledger, announcer: Announcer
) -> Core:
    return Core(
        make_plan(parts.configuration, dry_run=parts.dry_run),
        ledger=ledger,
        evictor=Rehearsal() if parts.dry_run else ApiEvictor(session),
        listener=Listeners(parts.listener, announcer),
        clock=time.monotonic,
        wall_clock=time.time,
        may_write=lambda: journal.reason or None,
    )


def _health(core: Core, journal: Journal, in_force: InForce) -> Health:
    health = Health(time.monotonic)
    for resource in cluster.RESOURCES:
        health.ready_when(f"sync-{resource}", partial(_synced, core, resource))
    health.ready_when("journal", lambda: _check(journal.reason))
    health.ready_when("started", lambda: _check(core.held_back or ""))
    health.note("policy", lambda: CheckResult(not in_force.refused, in_force.note()))
    return health


def _synced(core: Core, resource: str) -> CheckResult:
    return _check(core.synced.lacks()[resource])


def _check(reason: str) -> CheckResult:
    return CheckResult(not reason, reason)


async def _pulse(health: Health, metrics: Metrics) -> None:
    await pulse(health.heartbeat("event-loop", WEDGED_AFTER_S), metrics.loop_lagged)


def _measure(
    parts: Parts,
    core: Core,
    journal: Journal,
    reflectors: Mapping[str, AnyReflector],
    events: EventRecorder,
) -> None:
    """Tell the metrics what is in force, and where to read what is so at the moment of a scrape."""
    policy = parts.configuration.policy
    parts.metrics.policy_loaded(policy.source, policy.revision)
    core.stage.took = parts.metrics.upstream.cycle_took
    core.synced.went_without = partial(_went_without, parts.log)
    parts.metrics.sources = Sources(
        dirty_subjects=lambda: core.engine.dirty,
        parked=lambda: core.engine.parked,
        tokens=lambda: core.budgets.lowest(time.monotonic()),
        events=events.numbers,
        journal=journal,
        reflectors={name: reflector.status for name, reflector in reflectors.items()},
    )


def _went_without(log: LateLog, resource: str, reason: str) -> None:
    log.warning("going without: node fit leaves this out", resource=resource, because=reason)


async def _let_end(core: Core, events: EventRecorder) -> None:
    """Begin nothing new, and give evictions under way and their Events a little time to end."""
    core.hold_back("stopping")
    with anyio.move_on_after(STOP_WITHIN_S, shield=True):
        await core.evictions.ended()
    with anyio.move_on_after(TOLD_WITHIN_S, shield=True):
        await events.ended()


def _utc_now() -> datetime:
    return datetime.now(UTC)
