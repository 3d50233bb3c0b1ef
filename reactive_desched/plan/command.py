"""`plan`: what would be evicted, and why not, without touching anything."""

import gc
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

import anyio
import msgspec
from msgspec import Struct

from reactive_desched.controller.config import plan, read_runnable
from reactive_desched.controller.controller import Plan
from reactive_desched.errors import ConfigError
from reactive_desched.fit.upstream import UPSTREAM
from reactive_desched.kube.auth.kubeconfig import KubeConfig
from reactive_desched.plan.evaluation import Judged, judge
from reactive_desched.plan.missing_inputs import missing_nodes, unmet_needs
from reactive_desched.plan.output import write
from reactive_desched.plan.progress import Bar, Progress
from reactive_desched.plan.reading import read_files
from reactive_desched.plan.report import LookedAt, NodeCounts, PolicyName, Report
from reactive_desched.plan.snapshot import Picture
from reactive_desched.plan.timestamps import parse_moment, written_moment
from reactive_desched.plan.totals import summary
from reactive_desched.plan.unaffected_pods import bystanders
from reactive_desched.policy.load import Configuration
from reactive_desched.policy.settings import Client
from reactive_desched.state.cluster import NODES, OWNERS, PODS, RESOURCES, STORAGE

__all__ = ["PlanOptions", "preview", "run"]

_FETCH: Final = (
    "kubectl get nodes,pods,namespaces,priorityclasses,poddisruptionbudgets,"
    "persistentvolumeclaims -A -o json"
)


class PlanOptions(Struct, frozen=True, kw_only=True):
    """What the command line said; no `files` means a live cluster, no `now` the present moment.

    `profile` names the only one to run, `others` asks for the pods nothing was decided about.
    """

    policy: str
    settings: str | None = None
    lenient: bool = False
    files: tuple[str, ...] = ()
    kubeconfig: str | None = None
    context: str | None = None
    now: str | None = None
    passes: int = 1
    profile: str | None = None
    node_fit: str = UPSTREAM
    others: bool = False
    output: str = "table"


class Seen(Struct, frozen=True):
    """A picture; of a live cluster with the address of its server."""

    picture: Picture
    server: str | None = None


def run(options: PlanOptions) -> int:
    """Print what would be evicted; the exit status does not depend on it."""
    progress = Bar(sys.stderr, time.monotonic) if sys.stderr.isatty() else Progress()
    with _no_collections():
        try:
            report = preview(options, progress)
        finally:
            progress.end()
        for warning in report.warnings:
            sys.stderr.write(f"warning: {warning}\n")
        try:
            write(report, options.output, sys.stdout)
            sys.stdout.flush()
        except BrokenPipeError:  # as in `plan | head`: nobody reads on, and that is fine
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def preview(options: PlanOptions, progress: Progress) -> Report:
    """Look and judge, and change nothing.

    Raises ConfigError where something a person wrote is wrong, CannotLook where a whole picture is
    not to be had.
    """
    moment = None if options.now is None else parse_moment(options.now)
    configuration = _configuration(options)
    ours = _plan(configuration, options)
    seen = _seen(options, configuration.settings.client, progress)
    moment = moment or datetime.now(UTC)
    judged = judge(ours, seen.picture, moment.timestamp(), options.node_fit, options.passes)
    others = bystanders(ours, seen.picture, judged) if options.others else None
    return Report(
        looked_at=_looked_at(options, configuration, seen, judged, written_moment(moment)),
        warnings=tuple(_warnings(configuration, ours, seen)),
        skipped=judged.skipped,
        decisions=judged.verdicts,
        others=None if others is None else tuple(others),
        summary=summary(judged.verdicts),
    )


def _configuration(options: PlanOptions) -> Configuration:
    files = [options.policy, *([options.settings] if options.settings else [])]
    return read_runnable(files, lenient=options.lenient)


def _plan(configuration: Configuration, options: PlanOptions) -> Plan:
    """Make the plan, of one profile only if one is named."""
    ours = plan(configuration.policy, configuration.settings)
    if options.profile is None:
        return ours
    profiles = tuple(each for each in ours.profiles if each.name == options.profile)
    if not profiles:
        names = ", ".join(each.name for each in ours.profiles) or "none at all"
        raise ConfigError(
            f'--profile: the policy has no profile "{options.profile}"; its profiles are: {names}'
        )
    return msgspec.structs.replace(ours, profiles=profiles)


def _seen(options: PlanOptions, client: Client, progress: Progress) -> Seen:
    if not options.files:
        return _live(options, client, progress)
    if options.kubeconfig is not None or options.context is not None:
        raise ConfigError("--kubeconfig and --context mean nothing with -f; leave one of them out")
    picture = read_files(options.files, progress)
    for resource in (NODES, PODS):
        if not picture.things[resource]:
            raise ConfigError(
                f"{', '.join(options.files)}: there are no {resource} in here, so nothing can be"
                f" said; write the file with {_FETCH}"
            )
    return Seen(picture)


def _live(options: PlanOptions, client: Client, progress: Progress) -> Seen:
    """Look at a live cluster; what no decision asks about is not listed."""
    from reactive_desched.plan.live import read_cluster

    spared = OWNERS | STORAGE if options.node_fit == UPSTREAM else OWNERS
    resources = [resource for resource in RESOURCES if resource not in spared]
    kube = KubeConfig(options.kubeconfig, options.context)
    try:
        return Seen(*anyio.run(read_cluster, kube, client, resources, progress))
    except ConfigError as error:
        raise ConfigError(f"{error}; or pass -f FILE with what {_FETCH} wrote") from error


def _warnings(configuration: Configuration, ours: Plan, seen: Seen) -> Iterator[str]:
    """Say what is worth knowing about the policy and the picture."""
    yield from map(str, configuration.warnings)
    picture = seen.picture
    for each in picture.unread:
        yield f"{each.kind} {each.name} cannot be read and was left out: {each.reason}"
    if (more := picture.unread_count - len(picture.unread)) > 0:
        yield f"{more} more objects cannot be read and were left out"
    yield from picture.pages
    yield from missing_nodes(picture)
    if seen.server is None:
        yield from unmet_needs(ours, picture)


def _looked_at(
    options: PlanOptions, configuration: Configuration, seen: Seen, judged: Judged, now: str
) -> LookedAt:
    picture, policy = seen.picture, configuration.policy
    counts = {resource: len(things) for resource, things in sorted(picture.things.items())}
    return LookedAt(
        now=now,
        files=options.files,
        server=seen.server,
        policy=PolicyName(policy.source, policy.revision),
        node_fit=options.node_fit,
        passes=options.passes,
        whole=picture.is_whole,
        nodes=NodeCounts(counts.pop(NODES), judged.view.counting_nodes),
        pods=counts.pop(PODS),
        objects=counts,
        ignored=picture.ignored,
        repeated=picture.repeated,
        unread_count=picture.unread_count,
        unread=picture.unread,
    )


@contextmanager
def _no_collections() -> Iterator[None]:
    """Spare the collector: the picture is large, holds no cycles, and is gone with the command."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
