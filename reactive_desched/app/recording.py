"""Opens the journal, its retention and its sinks."""

import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random

import anyio
import anyio.to_thread
from msgspec import Struct

from reactive_desched.api.sink import Sink, SinkHost, SinkSection
from reactive_desched.app.config_reload import ActiveConfig, policy_files
from reactive_desched.app.options import Dependencies
from reactive_desched.audit.index_sink import IndexSink
from reactive_desched.controller.turn_clocks import TurnClocks
from reactive_desched.journal.clocks import (
    Moment,
    ReadServerTime,
    ReadUptime,
    machine_uptime,
    no_server_time,
    utc_now,
)
from reactive_desched.journal.cluster import (
    UNKNOWN_CLUSTER,
    UNNAMED,
    ClusterIdentity,
    check_cluster,
    mark_cluster,
)
from reactive_desched.journal.cursors import Cursors
from reactive_desched.journal.journal import Journal, open_journal
from reactive_desched.journal.log import Rotation
from reactive_desched.journal.opened import JournalConfig, os_error_text
from reactive_desched.journal.paths import CURSORS_DIR, DEAD_LETTERS_DIR
from reactive_desched.journal.recorder import JournalRecorder
from reactive_desched.journal.upkeep.retention_worker import (
    RetentionConfig,
    RetentionInputs,
    RetentionWorker,
)
from reactive_desched.kube.client.events import EventRecorder
from reactive_desched.policy.settings.installed_sections import (
    configured_sinks,
    load_sink,
    sink_offers,
)
from reactive_desched.policy.settings.reactive_settings import ReactiveSettings
from reactive_desched.policy.settings.recording import DisruptionSettings, SinkSettings
from reactive_desched.primitives.token_bucket import TokenRate
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.sinks.dead_letters import DeadLetterFiles
from reactive_desched.sinks.installed import InstalledSink
from reactive_desched.sinks.kube_events import KubeEventsSink, own_pod
from reactive_desched.sinks.sink_runner import SinkRunner
from reactive_desched.telemetry.logs import DebugLogger, Logger
from reactive_desched.telemetry.registry import MetricsRegistry

SINK_DRAIN_TIMEOUT_S = 3.0
"""At the end sinks have this long to get what is written; the rest follows in the next life."""

POLL_INTERVAL_S = 0.25
"""How often the journal's health is checked: a stuck disk raises no error."""

JOURNAL_HEALTH_MESSAGES = (
    "the journal cannot be written: nothing is evicted",
    "the journal can be written again",
)
"""What is logged of that, and of its end."""


class Recording(Struct, frozen=True):
    """An open journal, its directory, its recorder, its sinks, and the clocks of its records."""

    directory: Path
    journal: Journal
    recorder: JournalRecorder
    sink_runners: Mapping[str, SinkRunner]
    retention: RetentionWorker
    uptime: ReadUptime
    server_time: ReadServerTime
    cluster: ClusterIdentity = UNKNOWN_CLUSTER

    def now(self) -> Moment:
        """Return this moment by every clock that records have."""
        return Moment(time.time(), self.uptime(), self.server_time())


@asynccontextmanager
async def open_recording(  # noqa: PLR0913 -- parts that a controller, a sweep and tests have
    directory: Path,
    settings: ReactiveSettings,
    metrics: MetricsRegistry,
    log: DebugLogger,
    best_effort_sinks: Sequence[Sink],
    *,
    dry_run: bool,
    cluster: ClusterIdentity = UNKNOWN_CLUSTER,
    work_available: Wakeup | None = None,
    server_time: ReadServerTime = no_server_time,
    disruptions: Callable[[], DisruptionSettings] | None = None,
    clocks: TurnClocks | None = None,
) -> AsyncIterator[Recording]:
    """Open the journal and run its sinks while the block lasts.

    Besides the sinks of the settings, `best_effort_sinks` follow: they may miss records,
    and no record is kept for them. `disruptions` returns which ends of pods are recorded, by the
    settings in force; `clocks` are those of the controller whose decisions are recorded.
    Raises JournalError where the directory cannot be used or holds the records of another
    cluster, and ConfigError for a key that cannot sign.
    """
    check = partial(check_cluster, directory, cluster)
    if rebuilt := await anyio.to_thread.run_sync(check, abandon_on_cancel=True):
        log.warning("another cluster has the name of the one before", message=rebuilt)
    config = journal_config(settings, cluster.name or UNNAMED)
    async with open_journal(directory, config, clock=utc_now, recovered=work_available) as journal:
        mark = partial(_mark_cluster, directory, cluster, log)
        await anyio.to_thread.run_sync(mark, abandon_on_cancel=True)
        recording = _build_recording(
            directory,
            settings,
            journal,
            log,
            best_effort_sinks,
            dry_run=dry_run,
            cluster=cluster,
            server_time=server_time,
            disruptions=disruptions or (lambda: settings.events.disruptions),
            clocks=clocks,
        )
        metrics.register(journal, recording.retention, *recording.sink_runners.values())
        async with _run_recording(recording, log):
            yield recording


def _build_recording(  # noqa: PLR0913 -- as above
    directory: Path,
    settings: ReactiveSettings,
    journal: Journal,
    log: DebugLogger,
    best_effort_sinks: Sequence[Sink],
    *,
    dry_run: bool,
    cluster: ClusterIdentity,
    server_time: ReadServerTime,
    disruptions: Callable[[], DisruptionSettings],
    clocks: TurnClocks | None,
) -> Recording:
    """Construct the parts of a recording; records of decisions have the controller's moment."""
    limits = settings.journal.verdicts
    decision_rate = TokenRate(limits.per_second, limits.burst)
    uptime = machine_uptime()
    recorder = JournalRecorder(
        journal,
        utc_now if clocks is None else lambda: datetime.fromtimestamp(clocks.wall(), UTC),
        decision_rate=decision_rate,
        now=None if clocks is None else clocks.monotonic,
        disruptions=disruptions,
        dry_run=dry_run,
        cluster=cluster,
        uptime=uptime,
        server_time=server_time,
    )
    sinks = tuple(_open_sinks(settings.sinks, log))
    all_sinks = (*sinks, IndexSink(directory), *best_effort_sinks)
    runners = {sink.name: _sink_runner(sink, journal, directory, log) for sink in all_sinks}
    retention = _retention_worker(
        directory, settings, journal, recorder, [runners[sink.name] for sink in sinks], log
    )
    return Recording(directory, journal, recorder, runners, retention, uptime, server_time, cluster)


def _mark_cluster(directory: Path, cluster: ClusterIdentity, log: Logger) -> None:
    try:
        mark_cluster(directory, cluster)
    except OSError as error:
        text = "cannot keep which cluster the journal is of"
        log.warning(text, directory=str(directory), message=os_error_text(error))


@asynccontextmanager
async def _run_recording(recording: Recording, log: Logger) -> AsyncIterator[None]:
    """Run the sinks and the retention; at the end deliver the last records to the sinks."""
    journal, runners = recording.journal, recording.sink_runners.values()
    async with (
        anyio.create_task_group() as runner_tasks,
        anyio.create_task_group() as retention_tasks,
    ):
        for runner in runners:
            runner_tasks.start_soon(runner.run)
        retention_tasks.start_soon(recording.retention.run)
        retention_tasks.start_soon(
            log_transitions, lambda: journal.fault, log, *JOURNAL_HEALTH_MESSAGES
        )
        try:
            yield
        finally:
            retention_tasks.cancel_scope.cancel()
            await journal.finish()
            await _drain_sinks(runners)
            runner_tasks.cancel_scope.cancel()


@asynccontextmanager
async def start_recording(
    deps: Dependencies,
    events: EventRecorder,
    active: ActiveConfig,
    log: DebugLogger,
    cluster: ClusterIdentity,
    server_time: ReadServerTime,
    work_available: Wakeup | None = None,
    clocks: TurnClocks | None = None,
) -> AsyncIterator[Recording]:
    """Open the cluster's journal, record the policy in force, and have the sinks follow.

    `server_time` stands in the records of evictions; `work_available` is notified when a fault of
    the journal ends; `clocks` are those of the controller.
    """
    directory = deps.journal_directory(cluster)
    log.info(
        "the cluster is identified",
        name=cluster.title,
        uid=cluster.uid or None,
        journal=str(directory),
    )
    async with open_recording(
        directory,
        deps.configuration.settings,
        deps.metrics,
        log,
        [_kube_events_sink(deps, events, active)],
        dry_run=deps.dry_run,
        cluster=cluster,
        work_available=work_available,
        server_time=server_time,
        disruptions=lambda: active.configuration.settings.events.disruptions,
        clocks=clocks,
    ) as recording:
        _log_recovery(recording.journal, log)
        policy = active.policy
        files = policy_files(active.configuration)
        recording.recorder.policy_loaded(policy.source, policy.revision, files)
        yield recording


def _kube_events_sink(
    deps: Dependencies, events: EventRecorder, active: ActiveConfig
) -> KubeEventsSink:
    """Build the sink that writes Kubernetes Events; in a dry run it writes none."""
    controller_pod = None if deps.dry_run else own_pod(os.environ)
    return KubeEventsSink(events.record, lambda: active.configuration, controller_pod, time.time)


def _log_recovery(journal: Journal, log: DebugLogger) -> None:
    """Log what opening the journal found and repaired."""
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


async def log_transitions(
    get_reason: Callable[[], str], log: Logger, fault_message: str, recovery_message: str
) -> None:
    """Log each reason for a fault, and its end; one that lasts for less than a poll may be missed.

    `get_reason` returns the reason, and an empty text while there is no fault.
    """
    last_reason = ""
    while True:
        await anyio.sleep(POLL_INTERVAL_S)
        reason = get_reason()
        if reason and reason != last_reason:
            log.warning(fault_message, message=reason)
        elif last_reason and not reason:
            log.info(recovery_message, after=last_reason)
        last_reason = reason


def journal_config(settings: ReactiveSettings, cluster: str = UNNAMED) -> JournalConfig:
    """Return how the journal is kept; the source of a new one has the cluster's name."""
    journal = settings.journal
    return JournalConfig(
        Rotation(journal.max_segment_bytes, journal.max_segment_age_s),
        cluster,
        socket.gethostname(),
        journal.checkpoints.every_records,
        journal.checkpoints.every_s,
        journal.checkpoints.key_file,
    )


def _open_sinks(settings: SinkSettings, log: Logger) -> Iterator[Sink]:
    """Open the sinks that the settings name; only their packages are imported.

    Raises PluginError for one that is not installed any more.
    """
    configured = list(configured_sinks(settings))
    offers = sink_offers() if configured else None
    for one in configured:
        assert offers is not None, "there are offers where something is configured"
        host = SinkHost(name=one.name, log=log, clock=time.monotonic, wall=time.time)
        kind = load_sink(one.kind, offers)
        if isinstance(one.section, SinkSection):
            yield InstalledSink(kind, one.section, host, offers.describe(one.kind))
        else:
            yield kind.open(one.section, host)


def _sink_runner(sink: Sink, journal: Journal, directory: Path, log: DebugLogger) -> SinkRunner:
    return SinkRunner(
        sink,
        journal.tail,
        Cursors(directory / CURSORS_DIR),
        DeadLetterFiles(directory / DEAD_LETTERS_DIR),
        clock=time.monotonic,
        wall=utc_now,
        rng=Random(),  # noqa: S311 -- pauses, no secrets
        log=log,
    )


def _retention_worker(
    directory: Path,
    settings: ReactiveSettings,
    journal: Journal,
    recorder: JournalRecorder,
    sink_runners: Sequence[SinkRunner],
    log: DebugLogger,
) -> RetentionWorker:
    followed = RetentionInputs(
        active_first_seq=lambda: journal.active_first_seq,
        oldest_open_seq=lambda: journal.oldest_open_seq,
        acked_seqs=lambda: {relay.name: relay.saved_cursor for relay in sink_runners},
    )
    bounds = RetentionConfig(
        retention=settings.journal.retention, compress=settings.journal.compress == "gzip"
    )
    return RetentionWorker(
        directory,
        followed,
        bounds,
        recorder.record_loss,
        segments=journal.segments,
        on_remove=journal.tail.set_oldest,
        log=log,
        clock=time.time,
    )


async def _drain_sinks(sink_runners: Iterable[SinkRunner]) -> None:
    with anyio.CancelScope(shield=True):
        async with anyio.create_task_group() as group:
            for relay in sink_runners:
                group.start_soon(relay.drained, SINK_DRAIN_TIMEOUT_S)
