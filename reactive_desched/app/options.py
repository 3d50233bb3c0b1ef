"""Reads the command line and files into the configuration and dependencies of a controller."""

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from msgspec import Struct

from reactive_desched.api.event import MODE_DRY_RUN, MODE_LIVE
from reactive_desched.app.config_reload import ConfigFiles, Fingerprint
from reactive_desched.app.otel_environment import OtelEnvironment, read_otel_environment
from reactive_desched.app.overrides import FlagOverrides
from reactive_desched.errors import ConfigError
from reactive_desched.journal.cluster import ClusterIdentity
from reactive_desched.journal.paths import journal_directory_of
from reactive_desched.kube.auth.kubeconfig import KubeConfigOptions
from reactive_desched.model.observer import Observer
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.load import load_runnable
from reactive_desched.policy.scheduler_texts import SchedulerTexts
from reactive_desched.policy.settings.server import UNENCRYPTED_HINT
from reactive_desched.primitives.listen_address import ListenAddress, parse_listen_address
from reactive_desched.telemetry import logs
from reactive_desched.telemetry.deferred_log import DeferredLogger
from reactive_desched.telemetry.line_queue import LineQueue
from reactive_desched.telemetry.logs import Logger
from reactive_desched.telemetry.observer import TelemetryObserver
from reactive_desched.telemetry.recent_evictions import RecentEvictions
from reactive_desched.telemetry.registry import MetricsRegistry


class Options(Struct, frozen=True):
    """The options of the command line; `warnings` are logged at start.

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
    overrides: FlagOverrides = FlagOverrides()
    warnings: tuple[str, ...] = ()


class ReloadConfig(Struct, frozen=True):
    """The files of the configuration, and the fingerprint that they had at the start."""

    files: ConfigFiles
    initial_fingerprint: Fingerprint


EndProcessAt = Callable[[float], None]
"""Sets when this process must have ended, in seconds of the clock that counts suspended time."""


def _no_kill_timer(_: Logger) -> EndProcessAt:
    return lambda _: None


class Dependencies(Struct, frozen=True):
    """Everything that a controller takes from outside: configuration, journal folder, metrics, log.

    Without `journal_dir` the journal is in the default directory of the cluster. `lines` are the
    log lines that wait for a collector, None where the settings name none.
    """

    configuration: Configuration
    kube: KubeConfigOptions
    journal_dir: Path | None
    listen: ListenAddress
    metrics: MetricsRegistry
    observer: Observer
    log: DeferredLogger
    recent: RecentEvictions
    dry_run: bool = False
    serve_metrics: bool = True
    reload: ReloadConfig | None = None
    open_kill_timer: Callable[[Logger], EndProcessAt] = _no_kill_timer
    lines: LineQueue | None = None

    def journal_directory(self, cluster: ClusterIdentity) -> Path:
        """Return the directory of the records of this cluster: as was written, or the default."""
        return self.journal_dir or journal_directory_of(os.environ, cluster)

    @property
    def mode(self) -> str:
        """The mode, as records call it: live, or dry_run."""
        return MODE_DRY_RUN if self.dry_run else MODE_LIVE

    @property
    def elects_leader(self) -> bool:
        """Say whether the controller acts only while it holds the Lease; a dry run takes none."""
        return self.configuration.settings.leader_election.leader_elect and not self.dry_run


def load_dependencies(options: Options) -> Dependencies:
    """Read policy and settings, configure logging, and build the dependencies.

    Raises ConfigError where something that was written is wrong.
    """
    paths = (options.policy, *([options.settings] if options.settings else []))
    environment = read_otel_environment(os.environ)
    prepare = partial(_load_config, options, paths, environment)
    files = ConfigFiles(paths, prepare)
    configuration, initial = files.read_at_start()
    reload = ReloadConfig(files, initial)
    logging = configuration.settings.logging
    style = options.log_format or logging.format
    level = options.log_level or logging.level
    mode = MODE_DRY_RUN if options.dry_run else None
    lines = None if configuration.settings.telemetry.logs is None else LineQueue()
    also = None if lines is None else lines.put
    logs.configure(level=level, style=style, stream=sys.stderr, mode=mode, also=also)
    for notice in options.warnings:
        logs.logger("flags").warning(notice)
    for notice in environment.notices:
        logs.logger("environment").warning(notice)
    for warning in configuration.warnings:
        logs.logger("policy").warning(str(warning))
    return _build_dependencies(options, configuration, reload, lines)


def _load_config(
    options: Options,
    paths: tuple[str, ...],
    environment: OtelEnvironment,
    schedulers: SchedulerTexts,
) -> Configuration:
    """Read and check files and flags; the same at the start and at every reload."""
    registry = plugin_registry()
    read = load_runnable(paths, registry, lenient=options.lenient, schedulers=schedulers)
    return environment.apply_to(options.overrides.apply_to(read))


def _build_dependencies(
    options: Options, configuration: Configuration, reload: ReloadConfig, lines: LineQueue | None
) -> Dependencies:
    settings = configuration.settings
    metrics = MetricsRegistry(dry_run=options.dry_run, old_names=settings.server.old_metric_names)
    log = DeferredLogger(logs.logger("controller"), time.time)
    observer = TelemetryObserver(metrics, log, time.time)
    directory = options.journal_dir or settings.journal.directory
    listen = parse_listen_address(options.listen or settings.server.listen)
    if exposed := settings.server.exposed_tokens(listen):
        raise ConfigError(
            f"server.requireToken: tokens would be sent unencrypted to {exposed};"
            f" {UNENCRYPTED_HINT}"
        )
    return Dependencies(
        configuration,
        KubeConfigOptions(options.kubeconfig, options.context),
        Path(directory) if directory else None,
        listen,
        metrics,
        observer,
        log,
        observer.recent,
        options.dry_run,
        options.serve_metrics,
        reload,
        open_kill_timer,
        lines,
    )


def open_kill_timer(log: Logger) -> EndProcessAt:
    """Return how to have the kernel end this process; where it cannot, a warning says so."""
    from reactive_desched.election.kill_timer import KillTimer

    try:
        return KillTimer().set
    except OSError as error:
        text = "no timer of the kernel can end this process when its Lease runs out"
        log.warning(text, message=str(error))
        return _no_kill_timer(log)
