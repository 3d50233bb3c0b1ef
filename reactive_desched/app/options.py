"""From what a person wrote, on the command line and in files, to what a controller is made of."""

import os
import sys
import time
from functools import partial
from pathlib import Path

from msgspec import Struct

from reactive_desched.app.config_reload import Files, Prepared, Texts, fingerprint
from reactive_desched.app.overrides import Overrides
from reactive_desched.app.telemetry_observer import Reporter
from reactive_desched.controller.config import plan, read_runnable
from reactive_desched.controller.controller import Listener, Plan
from reactive_desched.journal.paths import default_directory
from reactive_desched.kube.auth.kubeconfig import KubeConfig
from reactive_desched.policy.load import Configuration
from reactive_desched.primitives.listen_address import Listen, parse_listen
from reactive_desched.telemetry import logs
from reactive_desched.telemetry.deferred_log import LateLog
from reactive_desched.telemetry.metrics import Metrics


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
    return Prepared(configuration, make_plan(configuration))


def make_plan(configuration: Configuration) -> Plan:
    """Turn a configuration into a plan."""
    return plan(configuration.policy, configuration.settings)


def _parts(options: Options, configuration: Configuration, reload: Reload) -> Parts:
    settings, metrics = configuration.settings, Metrics()
    log = LateLog(logs.logger("controller"), time.time)
    directory = options.journal_dir or settings.journal.directory
    return Parts(
        configuration,
        KubeConfig(options.kubeconfig, options.context),
        Path(directory) if directory else default_directory(os.environ),
        parse_listen(options.listen or settings.server.listen),
        metrics,
        Reporter(metrics, log),
        log,
        options.dry_run,
        options.serve_metrics,
        reload,
        options.overrides.node_fit,
    )
