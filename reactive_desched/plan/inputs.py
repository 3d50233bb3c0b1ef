"""Reads what `plan`, `nodes` and `why` look at: a policy, a cluster, and a moment.

The cluster is that of files, of an API server, or of a moment of a recording.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.controller.asked_kinds import (
    effect_without,
    unasked_in_sweep,
    unasked_kinds,
)
from reactive_desched.errors import ConfigError
from reactive_desched.fit.upstream import SCHEDULER
from reactive_desched.model.disruptions import RememberedEnd
from reactive_desched.model.history import PastEviction
from reactive_desched.model.node_drains import DRAIN_NODES
from reactive_desched.plan.file_snapshot import read_files
from reactive_desched.plan.missing_inputs import (
    missing_inputs,
    missing_measurements,
    missing_nodes,
    missing_owners,
    stale_measurements,
    unclear_annotations,
)
from reactive_desched.plan.mode import PlanMode, RunBounds
from reactive_desched.plan.progress import Progress
from reactive_desched.plan.snapshot import SWEEP_RESOURCES, Snapshot
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.load import load_runnable, load_what_if
from reactive_desched.policy.policy import Policy
from reactive_desched.policy.scheduler_texts import SchedulerTexts
from reactive_desched.primitives.hints import quote
from reactive_desched.primitives.timestamps import parse_flag_moment
from reactive_desched.state.resources import (
    DEVICE_RESOURCES,
    GANG_RESOURCES,
    MIGRATION_RESOURCES,
    NODES,
    OPTIONAL_RESOURCES,
    OWNER_RESOURCES,
    PLAN_RESOURCES,
    PODS,
    RESERVATION_RESOURCES,
    RESOURCES,
    USAGE_RESOURCES,
)

if TYPE_CHECKING:
    from reactive_desched.journal.history import History
    from reactive_desched.plan.recorded_moment import RecordedMoment

__all__ = [
    "PREVIEW",
    "LoadedSnapshot",
    "LookedAt",
    "PlanOptions",
    "PreviewFlags",
    "input_warnings",
    "look",
    "parse_timestamp",
    "read_history_of",
    "read_inputs",
    "reads_jobs",
    "selected_profiles",
]

_RFC3339: Final = re.compile(
    r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_FETCH: Final = f"kubectl get {','.join(sorted(PLAN_RESOURCES))} -A -o json"


def parse_timestamp(text: str) -> datetime:
    """Read an RFC 3339 time; raises ConfigError for anything else."""
    try:
        if _RFC3339.fullmatch(text):
            return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        pass  # said below: there is no such day or hour
    raise ConfigError(
        f"--now: {quote(text)} is no RFC 3339 time; write for example 2026-05-01T12:00:00Z"
    )


class PlanOptions(Struct, frozen=True, kw_only=True):
    """The arguments of `plan`; no `files` means a live cluster, no `now` the present moment.

    With `at` it is the cluster of that moment, which the `recording` has, and without a `policy`
    the one in force then. `mode` is whose decisions to preview; a dry run of upstream may make
    several `passes`.
    `profile` names the only one to run, `journal` a journal whose evictions count. `only` has the
    words that choose among pods and plugins, as `PodSelection` takes them, and `drain` names nodes
    that are taken to be drained. `show_unaffected` asks for the pods nothing was decided about,
    `show_nodes` for how nodes stand beside thresholds.
    """

    policy: str | None = None
    mode: PlanMode = PlanMode.RUN
    settings: str | None = None
    lenient: bool = False
    files: tuple[str, ...] = ()
    kubeconfig: str | None = None
    context: str | None = None
    now: str | None = None
    at: str | None = None
    recording: str | None = None
    passes: int = 1
    bounds: RunBounds = RunBounds()
    profile: str | None = None
    journal: str | None = None
    only: Mapping[str, tuple[str, ...]] = {}
    drain: tuple[str, ...] = ()
    show_unaffected: bool = False
    show_nodes: bool = False
    output: str = "table"


PREVIEW: Final = "preview"
"""The key of a query that has them, in JSON."""


class PreviewFlags(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of a preview that a running controller takes which reads its own recording."""

    mode: PlanMode = PlanMode.RUN
    passes: int = 1
    bounds: RunBounds = RunBounds()
    profile: str | None = None
    only: Mapping[str, tuple[str, ...]] = {}
    drain: tuple[str, ...] = ()
    show_unaffected: bool = False
    show_nodes: bool = False

    @classmethod
    def of(cls, options: PlanOptions) -> "PreviewFlags":
        """Return what these options have of them."""
        return cls(**{name: getattr(options, name) for name in cls.__struct_fields__})

    def options(self, recording: Path, at: str) -> PlanOptions:
        """Return the options of a preview of a moment of a recording."""
        flags = {name: getattr(self, name) for name in self.__struct_fields__}
        return PlanOptions(recording=str(recording), at=at, **flags)


class LoadedSnapshot(Struct, frozen=True):
    """A snapshot; of a live cluster with the address of its server.

    `recorded` is the moment that it shows, where it comes from a recording. `calendar_problems`
    are warnings about calendars of the schedules that were not read beside it.
    """

    snapshot: Snapshot
    server: str | None = None
    recorded: "RecordedMoment | None" = None
    calendar_problems: tuple[str, ...] = ()


class LookedAt(Struct, frozen=True):
    """A cluster as it was read, the configuration, and what a journal has of earlier evictions.

    `ends` are the ends of pods by something else that it has. `heading` says which moment of a
    recording it is, and is empty for a cluster of now.
    """

    configuration: Configuration
    snapshot: Snapshot
    moment: datetime
    past: Sequence[PastEviction]
    ends: Sequence[RememberedEnd]
    warnings: tuple[str, ...]
    heading: str = ""


def look(options: PlanOptions, progress: Progress) -> LookedAt:
    """Read the configuration and the cluster for a preview of the controller; decide nothing.

    Raises as `read_inputs`.
    """
    configuration, loaded, moment = read_inputs(options, progress)
    policy = configuration.policy
    history = read_history_of(
        replace(options, journal=options.journal or _journal_beside(options, loaded)),
        configuration,
        moment.timestamp(),
    )
    return LookedAt(
        configuration,
        loaded.snapshot.measured_by(policy.metrics_sources),
        moment,
        () if history is None else history.evictions,
        () if history is None else history.ends,
        tuple(input_warnings(configuration, policy, loaded, options.mode)),
        "" if loaded.recorded is None else loaded.recorded.heading,
    )


def _journal_beside(options: PlanOptions, loaded: LoadedSnapshot) -> str | None:
    """Return the journal of the controller that recorded, where its own policy is looked at."""
    if loaded.recorded is None or options.policy is not None:
        return None
    from reactive_desched.plan.recorded_moment import journal_beside

    found = journal_beside(loaded.recorded.path)
    return None if found is None else str(found)


def read_inputs(
    options: PlanOptions, progress: Progress
) -> tuple[Configuration, LoadedSnapshot, datetime]:
    """Return the policy, the cluster and the moment as of which it is judged.

    What is wrong with the policy, or with what was asked of it, is said before a cluster is read.
    Raises ConfigError for an error in the policy, the settings or the flags, SnapshotUnavailable
    where the objects cannot be read completely.
    """
    moment = None if options.now is None else parse_timestamp(options.now)
    recorded = None if options.at is None else _read_recorded(options)
    configuration = _configuration(options, recorded)
    policy = selected_profiles(configuration.policy, options)
    if options.drain:
        _check_drains(policy)
    if options.only:
        from reactive_desched.plan.pod_selection import check_plugins

        check_plugins(options.only, policy)
    if recorded is not None:
        snapshot = recorded.snapshot(_cluster_resources(options, configuration))
        loaded = LoadedSnapshot(snapshot, recorded=recorded)
        moment = datetime.fromtimestamp(recorded.at_s, UTC)
    else:
        loaded = _load_snapshot(options, configuration, progress)
        moment = moment or datetime.now(UTC)
        if options.mode is PlanMode.RUN and _has_calendars(configuration):
            from reactive_desched.plan.calendars import with_calendars  # most settings have none

            configuration, problems = with_calendars(configuration, moment.timestamp())
            loaded = replace(loaded, calendar_problems=problems)
    if options.drain:
        drained = loaded.snapshot.with_drains(options.drain, "this preview")
        loaded = replace(loaded, snapshot=drained)
    return configuration, _without_stale_samples(options, configuration, loaded, moment), moment


def _has_calendars(configuration: Configuration) -> bool:
    written = configuration.written
    return written is not None and any(each.calendar for each in written.budgets.schedules)


def _check_drains(policy: Policy) -> None:
    if DRAIN_NODES not in policy.plugin_names:
        raise ConfigError(
            f"the policy has no plugin {DRAIN_NODES}, so no node would be drained: add "
            "it to plugins.deschedule.enabled of a profile"
        )


def _read_recorded(options: PlanOptions) -> "RecordedMoment":
    """Read the cluster at the moment of --at; raises ConfigError, and NotRecorded."""
    from reactive_desched.plan.recorded_moment import find_recording, read_moment

    assert options.at is not None, "a moment is asked for"
    assert options.recording is not None, "where it is not named, a default is"
    others = {
        "-f": options.files,
        "--now": options.now,
    }
    if flags := [flag for flag, value in others.items() if value]:
        raise ConfigError(f"{flags[0]} means nothing with --at; leave one of them out")
    at = parse_flag_moment("--at", options.at, datetime.now(UTC))
    return read_moment(find_recording(Path(options.recording)), at.timestamp())


def read_history_of(
    options: PlanOptions, configuration: Configuration, now_s: float
) -> "History | None":
    """Return what a controller would know of earlier ones, from the journal that was named."""
    if options.journal is None:
        return None
    from reactive_desched.journal.clocks import Moment
    from reactive_desched.journal.history import read_history

    counts_for_s = configuration.controller.budgets.counts_for_s
    directory, now = Path(options.journal), Moment(now_s)
    read = partial(read_history, directory, now, counts_for_s=counts_for_s)
    if options.at is not None:
        read = partial(read, until_s=now_s)
    try:
        return read()
    except OSError as error:
        raise ConfigError(
            f"--journal: {options.journal} cannot be read: {error.strerror}"
        ) from error


def _configuration(options: PlanOptions, recorded: "RecordedMoment | None" = None) -> Configuration:
    if options.policy is None:
        assert recorded is not None, "only a recording has a policy of its own"
        if options.settings is not None:
            raise ConfigError("--settings needs --policy: the recorded policy has its own settings")
        from reactive_desched.plan.recorded_moment import configuration_of

        return configuration_of(recorded, plugin_registry())
    texts = SchedulerTexts()
    configuration = _read_configuration(options, texts)
    if not texts.config_maps or options.files or recorded is not None:
        return configuration
    import anyio

    from reactive_desched.kube.auth.kubeconfig import KubeConfigOptions
    from reactive_desched.plan.live_snapshot import read_config_maps

    kube = KubeConfigOptions(options.kubeconfig, options.context)
    read = anyio.run(read_config_maps, kube, configuration, texts.config_maps)
    return _read_configuration(options, SchedulerTexts(read))


def _read_configuration(options: PlanOptions, texts: SchedulerTexts) -> Configuration:
    registry, lenient, policy = plugin_registry(), options.lenient, options.policy
    assert policy is not None, "without a policy a recorded one is meant"
    if options.settings is None:
        return load_runnable([policy], registry, lenient=lenient, schedulers=texts)
    return load_what_if(policy, options.settings, registry, lenient=lenient, schedulers=texts)


def selected_profiles(policy: Policy, options: PlanOptions) -> Policy:
    """Return the policy, with the profile that --profile names alone."""
    if options.profile is None:
        return policy
    profiles = tuple(each for each in policy.profiles if each.name == options.profile)
    if not profiles:
        names = ", ".join(each.name for each in policy.profiles) or "none at all"
        raise ConfigError(
            f'--profile: the policy has no profile "{options.profile}"; its profiles are: {names}'
        )
    return replace(policy, profiles=profiles)


def _load_snapshot(
    options: PlanOptions, configuration: Configuration, progress: Progress
) -> LoadedSnapshot:
    if not options.files:
        return _load_live_snapshot(options, configuration, progress)
    if options.kubeconfig is not None or options.context is not None:
        raise ConfigError("--kubeconfig and --context mean nothing with -f; leave one of them out")
    resources = RESOURCES if _needs_owners(options, configuration) else SWEEP_RESOURCES
    more = _read_where_asked(options, configuration)
    reads_all = options.mode is not PlanMode.RUN
    picture = read_files(options.files, progress, {*resources, *more}, reads_all=reads_all)
    for resource in (NODES, PODS):
        if not picture.objects[resource]:
            raise ConfigError(
                f"{', '.join(options.files)}: there are no {resource} in here, so nothing can be"
                f" said; write the file with {_FETCH}"
            )
    return LoadedSnapshot(picture)


def _without_stale_samples(
    options: PlanOptions, configuration: Configuration, loaded: LoadedSnapshot, moment: datetime
) -> LoadedSnapshot:
    """Drop measurements that are too old, as `run` does; the SIG descheduler counts any."""
    if options.mode is PlanMode.UPSTREAM or not loaded.snapshot.samples:
        return loaded
    usage = configuration.controller.usage
    fresh = loaded.snapshot.with_fresh_samples(usage, moment.timestamp())
    return replace(loaded, snapshot=fresh)


def _load_live_snapshot(
    options: PlanOptions, configuration: Configuration, progress: Progress
) -> LoadedSnapshot:
    """Look at a live cluster; what no decision asks about is not listed."""
    import anyio

    from reactive_desched.kube.auth.kubeconfig import KubeConfigOptions
    from reactive_desched.plan.live_snapshot import read_live_snapshot

    resources = _cluster_resources(options, configuration)
    kube = KubeConfigOptions(options.kubeconfig, options.context)
    read = partial(
        read_live_snapshot,
        kube,
        configuration,
        resources,
        progress,
        optional_resources=_optional(options.mode, configuration),
        show_nodes=options.show_nodes,
        reads_all=options.mode is not PlanMode.RUN,
    )
    try:
        return LoadedSnapshot(*anyio.run(read))
    except ConfigError as error:
        raise ConfigError(f"{error}; or pass -f FILE with what {_FETCH} wrote") from error


def _cluster_resources(options: PlanOptions, configuration: Configuration) -> list[str]:
    """Return what is read of a whole cluster: what no decision asks about is left out."""
    from reactive_desched.plan.needed_resources import needed_resources

    node_fit = options.mode.node_fit(configuration)
    spared = frozenset[str]() if _needs_owners(options, configuration) else OWNER_RESOURCES
    resources = needed_resources(configuration.policy, node_fit, spared)
    resources += sorted(_read_where_asked(options, configuration))
    if options.show_nodes:
        resources = list(dict.fromkeys((*resources, *sorted(USAGE_RESOURCES))))
    return resources


def _needs_owners(options: PlanOptions, configuration: Configuration) -> bool:
    """Say whether the owners of pods' owners are read.

    Guards read them, arbitration, and what chooses pods by them.
    """
    is_asked = options.mode is PlanMode.RUN or "owners" in options.only
    return is_asked or reads_jobs(options, configuration)


def _read_where_asked(options: PlanOptions, configuration: Configuration) -> frozenset[str]:
    """Return the kinds that only the controller goes by, where its settings have it."""
    found: frozenset[str] = frozenset()
    if reads_jobs(options, configuration):
        found |= MIGRATION_RESOURCES
        found |= RESERVATION_RESOURCES if _counts_reservations(options, configuration) else set()
    if options.mode is PlanMode.RUN and configuration.controller_schedulers.watches_devices:
        found |= DEVICE_RESOURCES
    if options.mode is PlanMode.RUN:
        found |= GANG_RESOURCES
    return found


def reads_jobs(options: PlanOptions, configuration: Configuration) -> bool:
    """Say whether migration jobs are read: `run --once` carries none out."""
    if options.mode is PlanMode.ONCE or configuration.written is None:
        return False
    return configuration.written.migration is not None


def _counts_reservations(options: PlanOptions, configuration: Configuration) -> bool:
    """Say whether node fit counts the room that Reservations keep, as the controller's does."""
    migration = configuration.controller.migration
    if options.mode is not PlanMode.RUN or migration is None:
        return False
    return bool(migration.scheduler_names)


def _optional(mode: PlanMode, configuration: Configuration) -> frozenset[str]:
    """Return what a preview does without where it may not be listed, as its actor does."""
    if mode is PlanMode.RUN:
        asked = MIGRATION_RESOURCES | RESERVATION_RESOURCES | DEVICE_RESOURCES | GANG_RESOURCES
        return OPTIONAL_RESOURCES | asked | unasked_kinds(configuration)
    unasked = unasked_in_sweep(
        configuration.policy, fits_as_scheduler=mode.node_fit(configuration) == SCHEDULER
    )
    return OWNER_RESOURCES | USAGE_RESOURCES | MIGRATION_RESOURCES | unasked


def input_warnings(
    configuration: Configuration, policy: Policy, loaded: LoadedSnapshot, mode: PlanMode
) -> Iterator[str]:
    """Print warnings about the policy and the snapshot."""
    yield from map(str, configuration.warnings)
    yield from loaded.calendar_problems
    if unread := configuration.scheduler_profiles.unread:
        yield f"{unread} was not read: no node fits the pods of schedulers that have no profile"
    snapshot = loaded.snapshot
    for each in snapshot.unreadable:
        yield f"{each.kind} {each.name} cannot be read and was left out: {each.message}"
    if (more := snapshot.unreadable_count - len(snapshot.unreadable)) > 0:
        yield f"{more} more objects cannot be read and were left out"
    yield from snapshot.partial_lists
    for resource in snapshot.forbidden:
        yield f"{resource} cannot be listed: {effect_without(resource)}"
    yield from dict.fromkeys(snapshot.usage_problems.values())
    yield from missing_nodes(snapshot)
    if loaded.recorded is not None:
        yield from loaded.recorded.notes()
    elif loaded.server is None:
        yield from missing_inputs(policy, snapshot)
        if mode is PlanMode.RUN:
            yield from missing_owners(snapshot)
    if mode is PlanMode.RUN:
        yield from unclear_annotations(snapshot)
    if snapshot.stale_samples:
        yield from stale_measurements(snapshot, configuration.controller.usage)
    yield from missing_measurements(policy, snapshot)
