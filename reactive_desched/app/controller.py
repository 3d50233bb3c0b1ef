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

from reactive_desched.app.config_reload import InForce, Reloader
from reactive_desched.app.gc import keep_house, settle_open_intents
from reactive_desched.app.options import Options, Parts, Reload, make_parts, make_plan
from reactive_desched.app.recording import Books, open_books, tell, utc_now
from reactive_desched.controller.controller import Core
from reactive_desched.controller.suspend import Vigil
from reactive_desched.eviction.dry_run import Rehearsal
from reactive_desched.journal.journal import Journal
from reactive_desched.journal.recorder import Ledger
from reactive_desched.journal.stats import Numbers
from reactive_desched.kube.client.config import limits_of, rate_of
from reactive_desched.kube.client.events import EventRecorder
from reactive_desched.kube.client.evictor import ApiEvictor
from reactive_desched.kube.client.session import Session, Transport, open_session
from reactive_desched.kube.decode.codec import Codec
from reactive_desched.kube.decode.codecs import codecs
from reactive_desched.kube.decode.interning import SharedParts
from reactive_desched.kube.watch.reconnect import Revival
from reactive_desched.kube.watch.reflector import Reflector
from reactive_desched.sinks.kube_events import Announcer, own_pod
from reactive_desched.state import cluster
from reactive_desched.telemetry.deferred_log import LateLog
from reactive_desched.telemetry.logs import VerboseLog
from reactive_desched.telemetry.metrics import Metrics, Sources
from reactive_desched.web.event_stream import EventStream, StreamLimits
from reactive_desched.web.health import CheckResult, Health, pulse
from reactive_desched.web.listen_socket import taken
from reactive_desched.web.server import serve_at

AnyCodec = Codec[Any]  # every resource has its own records
AnyReflector = Reflector[Any]  # as above

STOP_WITHIN_S = 10.0
"""How long evictions under way may take to end once we are asked to stop."""

TOLD_WITHIN_S = 2.0
"""How long Events of what we did may take to be written after that."""

WEDGED_AFTER_S = 10.0
"""When the event loop has not turned for so long, /livez asks for a restart."""


ASLEEP_TOO: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""The clock that goes on while the machine sleeps, where there is one."""


class Controller(Struct, frozen=True):
    """A running controller: its core, and where its health and metrics are served."""

    core: Core
    url: str


def run(options: Options) -> int:
    """Run the controller until it is asked to stop; returns the exit status."""
    anyio.run(_until_stopped, make_parts(options))
    return 0


async def _until_stopped(parts: Parts) -> None:
    """Serve until a signal comes; one that comes before that breaks off the start."""
    serving, asked = anyio.Event(), anyio.Event()

    async def listen(*, task_status: TaskStatus[None]) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            task_status.started()
            async for number in signals:
                parts.log.info("stopping", signal=signal.Signals(number).name)
                asked.set()
                if not serving.is_set():
                    life.cancel_scope.cancel()

    async with anyio.create_task_group() as life:
        await life.start(listen)
        async with open_controller(parts) as controller:
            serving.set()
            parts.log.info("serving", url=controller.url, dry_run=parts.dry_run)
            await asked.wait()
        life.cancel_scope.cancel()


@asynccontextmanager
async def open_controller(parts: Parts) -> AsyncIterator[Controller]:
    """Run everything while the block lasts; on leaving, let what is under way end first."""
    in_force = InForce(parts.configuration)
    async with (
        taken(parts.listen) as address,
        running(parts.log.run),
        open_cluster(parts) as session,
        run_events(session, parts.log, TOLD_WITHIN_S) as events,
        open_records(parts, events, in_force, parts.log) as books,
    ):
        journal, ledger = books.journal, books.ledger
        core = _core(parts, session, journal, ledger)
        shared = SharedParts()
        reflectors = make_reflectors(session, core, shared)
        health = _health(core, journal, in_force)
        stream = _stream(parts, journal)
        core.vigil.woke = partial(_woke, reflectors, parts.log)
        _measure(parts, core, books, reflectors, events, stream)
        async with (
            serve_at(
                address, health, parts.metrics if parts.serve_metrics else None, stream
            ) as url,
            anyio.create_task_group() as stages,
        ):
            await stages.start(core.evictions.run)  #          decisions -> outcomes
            stages.start_soon(core.vigil.keep)
            stages.start_soon(core.stage.run)  #               subjects  -> decisions
            for reflector in reflectors.values():
                stages.start_soon(reflector.run)  #            cluster   -> changes
            asker = ApiEvictor(session)
            stages.start_soon(settle_open_intents, core.hold_back, ledger, asker, parts.log)
            stages.start_soon(keep_house, core, shared, parts.log)
            stages.start_soon(tell, core.held_because, parts.log, "holding back", "judging again")
            if parts.reload is not None:
                stages.start_soon(_reloader(parts, parts.reload, in_force, core, ledger).run)
            stages.start_soon(_pulse, health, parts.metrics)
            try:
                yield Controller(core, url)
            finally:
                await _let_end(core)
                stages.cancel_scope.cancel()


def open_cluster(parts: Parts) -> AbstractAsyncContextManager[Session]:
    """Open the session with the API server."""
    client = parts.configuration.settings.client
    return open_session(parts.kube, limits=limits_of(client), rate=rate_of(client))


@asynccontextmanager
async def open_records(
    parts: Parts, events: EventRecorder, in_force: InForce, log: VerboseLog
) -> AsyncIterator[Books]:
    """Open the journal, write down the policy in force, and let everyone follow."""
    async with open_books(
        parts.journal_dir,
        parts.configuration.settings,
        parts.metrics,
        log,
        [_announcer(parts, events, in_force)],
        dry_run=parts.dry_run,
    ) as books:
        _tell_of_recovery(books.journal, log)
        policy = parts.configuration.policy
        books.ledger.policy_loaded(policy.source, policy.revision)
        yield books


def _announcer(parts: Parts, events: EventRecorder, in_force: InForce) -> Announcer:
    """Make what turns records into Events; a dry run, which changes nothing, has none."""
    ourselves = None if parts.dry_run else own_pod(os.environ)
    return Announcer(events.record, lambda: in_force.configuration, ourselves, time.time)


def _tell_of_recovery(journal: Journal, log: VerboseLog) -> None:
    """Say what the journal's last writer left behind that is out of order."""
    found = journal.recovery
    if found.torn is not None:
        log.warning(
            "repaired the journal's torn last line", bytes=found.torn_bytes, kept_in=str(found.torn)
        )
    if found.cut_to:
        log.warning(
            "the end of the journal is missing: another epoch begins",
            first_missing=found.next_seq,
            last_missing=found.cut_to,
        )
    if found.has_new_key:
        log.warning(
            "checkpoints have another signer from now on; see checkpoint.pub for the earlier ones"
        )
    if found.damaged_lines:
        log.warning(
            "the journal has damaged lines; see `audit verify`",
            lines=found.damaged_lines,
            first=found.damaged[0],
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
        cluster.REPLICA_SETS: codec.replica_sets,
        cluster.JOBS: codec.jobs,
        cluster.NODES: codec.nodes,
        cluster.PODS: codec.pods,
    }
    revival = Revival()
    return {
        resource: Reflector(session, codec, core.feed(resource), revival=revival)
        for resource, codec in by_resource.items()
    }


@asynccontextmanager
async def run_events(
    session: Session, log: VerboseLog, within_s: float
) -> AsyncIterator[EventRecorder]:
    """Write Kubernetes Events while the block lasts, and so long at most after it."""
    events = EventRecorder(session, socket.gethostname(), log.debug)
    async with running(events.run):
        try:
            yield events
        finally:
            with anyio.move_on_after(within_s, shield=True):
                await events.ended()


@asynccontextmanager
async def running(stage: Callable[[], Coroutine[Any, Any, object]]) -> AsyncIterator[None]:
    """Run a stage beside the block."""
    async with anyio.create_task_group() as group:
        group.start_soon(stage)
        try:
            yield
        finally:
            group.cancel_scope.cancel()


def _stream(parts: Parts, journal: Journal) -> EventStream | None:
    said = parts.configuration.settings.sinks.stream
    if said is None:
        return None
    limits = StreamLimits(said.max_clients, said.heartbeat_s, said.stalled_after_s)
    return EventStream(journal.tail, limits, utc_now, parts.log)


def _reloader(
    parts: Parts, reload: Reload, in_force: InForce, core: Core, ledger: Ledger
) -> Reloader:
    return Reloader(
        reload.files,
        reload.begun_with,
        in_force,
        core.adopt,
        ledger,
        parts.metrics,
        parts.log,
    )


def _core(parts: Parts, session: Session, journal: Journal, ledger: Ledger) -> Core:
    core = Core(
        make_plan(parts.configuration),
        ledger=ledger,
        evictor=Rehearsal() if parts.dry_run else ApiEvictor(session),
        listener=parts.listener,
        clock=time.monotonic,
        wall_clock=time.time,
        may_write=lambda: journal.reason or None,
        vigil=Vigil(partial(time.clock_gettime, ASLEEP_TOO)),
    )
    journal.when_better = core.poke
    return core


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
    books: Books,
    reflectors: Mapping[str, AnyReflector],
    events: EventRecorder,
    stream: EventStream | None,
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
        journal=Numbers(books.journal),
        folder=books.keeper.numbers,
        stream=None if stream is None else stream.clients.numbers,
        sinks=books.relays,
        reflectors={name: reflector.status for name, reflector in reflectors.items()},
    )


def _woke(reflectors: Mapping[str, AnyReflector], log: LateLog, stood_s: float) -> None:
    """Distrust the whole picture after standing still."""
    log.warning("this process stood still: every watch is opened anew", seconds=round(stood_s, 1))
    for reflector in reflectors.values():
        reflector.renew(f"this process stood still for {stood_s:.0f} s")


def _went_without(log: LateLog, resource: str, reason: str) -> None:
    log.warning(cluster.going_without(resource), resource=resource, because=reason)


async def _let_end(core: Core) -> None:
    """Begin nothing new, and give evictions under way a little time to end."""
    core.hold_back("stopping")
    with anyio.move_on_after(STOP_WITHIN_S, shield=True):
        await core.evictions.ended()
