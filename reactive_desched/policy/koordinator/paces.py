"""Turns koordinator's limits and rates into our settings; where it has none, ours stay."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from reactive_desched.api.args import Path
from reactive_desched.model.eviction_options import EVICTION
from reactive_desched.model.migration_jobs import Mode, SkipGate
from reactive_desched.policy.detect_kind import DocumentKind
from reactive_desched.policy.koordinator.migration_controller import (
    DEFAULT_SCHEDULER,
    NAMESPACE,
    WORKLOAD,
    MigrationControllerArgs,
    ObjectLimiter,
)
from reactive_desched.policy.koordinator.profiles import DEFAULT_PROFILE, KoordinatorsProfile
from reactive_desched.policy.settings.limits import EvictionRateLimits
from reactive_desched.policy.settings.migration import (
    DEFAULT_PER_NODE,
    MAX_AT_ONCE,
    MAX_LIMIT,
    MAX_LIMITER_S,
    MAX_QPS,
    MIN_QPS,
    MigrationSettings,
)
from reactive_desched.policy.yaml.decode import fields_by_key
from reactive_desched.policy.yaml.derived_tree import NULL, TargetValue
from reactive_desched.policy.yaml.source_location import SourceLocation
from reactive_desched.policy.yaml.tree import MappingNode

_ALL: Final = 100
_DEFAULT_LIMITER_TIME: Final = "5m"
_JOB_LIMITS: Final = {
    "maxMigratingGlobally": "max_migrating_globally",
    "maxMigratingPerNode": "max_migrating_per_node",
    "maxMigratingPerNamespace": "max_migrating_per_namespace",
}
_WORKLOAD_LIMITS: Final = {
    "maxMigratingPerWorkload": "max_migrating_per_workload",
    "maxUnavailablePerWorkload": "max_unavailable_per_workload",
}
_RATES: Final = {
    "evictQPS": ("evict_qps", MIN_QPS, MAX_QPS),
    "evictBurst": ("evict_burst", 1, MAX_LIMIT),
    "maxConcurrentReconciles": ("max_concurrent_reconciles", 1, MAX_AT_ONCE),
}
"""The attribute of each, and the bounds of ours."""

_COMPUTED: Final = frozenset(
    ("defaultJobMode", "priorityThreshold", *_JOB_LIMITS, *_WORKLOAD_LIMITS)
)

Targets = Mapping[str, TargetValue]


def rates_of_jobs(args: MigrationControllerArgs) -> Mapping[str, tuple[float, float]]:
    """Return the rates and the like that are written: each as it is, and as settings of ours go."""
    return {
        field: (written := getattr(args, name), min(max(written, least), most))
        for field, (name, least, most) in _RATES.items()
        if name in args.model_fields_set
    }


def is_slower_than_ours(per_second: float) -> bool:
    """Say whether a rate of evictions is below that of `budgets.cluster`."""
    ours = EvictionRateLimits.model_construct().cluster
    return ours is not None and per_second < ours.rate.per_second


def settings_target(
    document: SourceLocation, profiles: Sequence[KoordinatorsProfile]
) -> TargetValue | None:
    """Outline the settings that a file is converted to; None where it names none."""
    if not (sections := dict(_sections(document, profiles))):
        return None
    head = {
        "apiVersion": TargetValue(("apiVersion",), DocumentKind.SETTINGS.api_version),
        "kind": TargetValue(("kind",), DocumentKind.SETTINGS.kind),
    }
    return TargetValue((), {**head, **sections})


def _sections(
    document: SourceLocation, profiles: Sequence[KoordinatorsProfile]
) -> Iterator[tuple[str, TargetValue]]:
    """Outline each section; profiles that move pods by jobs do so in the same way."""
    at = document.below("clientConnection")
    if client := dict(_client(at)):
        yield "client", TargetValue(at.path, client)
    profile = next((each for each in profiles if each.args is not None), None)
    if profile is None or (args := profile.args) is None:
        return
    path = profile.args_at.path
    moving = TargetValue(path, dict(_max_moving(path, args)))
    yield "moves", TargetValue(path, {"maxMoving": moving})
    yield "evictions", TargetValue(path, dict(_evictors(path, profiles)))
    yield "migration", TargetValue(path, dict(_migration(profile.args_at, args)))
    yield "server", TargetValue(path, {"oldMetricNames": TargetValue(path, True)})  # noqa: FBT003 -- a value; its only metric has one


def _evictors(
    at: Path, profiles: Sequence[KoordinatorsProfile]
) -> Iterator[tuple[str, TargetValue]]:
    """Outline which profiles move pods by jobs: all but those with an evictor of their own."""
    yield "evictor", TargetValue((*at, "defaultJobMode"), "migration")
    if others := [each for each in profiles if each.args is None]:
        by_name = {
            each.name or DEFAULT_PROFILE: TargetValue((*each.at.path, "plugins", "evict"), "api")
            for each in others
        }
        yield "perProfile", TargetValue((*others[0].at.path, "plugins", "evict"), by_name)


def _client(at: SourceLocation) -> Iterator[tuple[str, TargetValue]]:
    """Take over a rate above 0; 0 means koordinator's default."""
    for theirs, ours in (("qps", "requestsPerSecond"), ("burst", "burst")):
        node = at.below(theirs).node
        value = getattr(node, "value", None)
        if isinstance(value, (int, float)) and value > 0:
            yield ours, TargetValue(at.below(theirs).path)


def _max_moving(at: Path, args: MigrationControllerArgs) -> Iterator[tuple[str, TargetValue]]:
    """Outline how many pods may move at once; what koordinator does not limit keeps our limit."""
    skips = frozenset(args.skip_eviction_gates)
    node = args.max_migrating_per_node
    node = DEFAULT_PER_NODE if node is None else node
    is_off = not node or SkipGate.MIGRATING_PER_NODE in skips
    yield "node", TargetValue((*at, "maxMigratingPerNode"), NULL if is_off else _count(node))
    for ours, theirs, most, gate in (
        ("namespace", "PerNamespace", args.max_migrating_per_namespace, "PER_NAMESPACE"),
        ("cluster", "Globally", args.max_migrating_globally, "GLOBALLY"),
    ):
        if most and SkipGate[f"MIGRATING_{gate}"] not in skips:
            yield ours, TargetValue((*at, f"maxMigrating{theirs}"), _count(most))
    owner = args.max_migrating_per_workload
    if owner is not None and SkipGate.MIGRATING_PER_WORKLOAD not in skips:
        yield "owner", TargetValue((*at, "maxMigratingPerWorkload"), _of_owner(owner))


def _count(written: int) -> int:
    """Return a count that settings of ours take: from 1 to a million."""
    return max(1, min(written, MAX_LIMIT))


def _of_owner(limit: int | str) -> int | str:
    """Write a limit of one workload as ours: 0 and less come to one pod at a time."""
    if isinstance(limit, int):
        return _count(limit)
    share = min(_ALL, int(limit.removesuffix("%")))
    return f"{share}%" if share > 0 else 1


def _migration(
    at: SourceLocation, args: MigrationControllerArgs
) -> Iterator[tuple[str, TargetValue]]:
    """Outline the settings of jobs: every argument that is written and has the same name there."""
    mode = (*at.path, "defaultJobMode")
    yield "defaultJobMode", TargetValue(mode, str(args.default_job_mode))
    is_written = "scheduler_names" in args.model_fields_set  # a job may name the mode itself
    if args.default_job_mode is Mode.RESERVATION_FIRST or is_written:
        names = (*at.path, "schedulerNames")
        schedulers = args.scheduler_names or (DEFAULT_SCHEDULER,)
        yield "schedulerNames", TargetValue(names, tuple(TargetValue(names, s) for s in schedulers))
    written = at.node.keys if isinstance(at.node, MappingNode) else frozenset()
    for field in fields_by_key(MigrationSettings):
        if field in written and field not in _COMPUTED:
            yield field, TargetValue((*at.path, field))
    threshold, path = args.priority_threshold, (*at.path, "priorityThreshold")
    if threshold.value is not None or threshold.name:
        said = "name" if threshold.value is None else "value"
        yield "priorityThreshold", TargetValue(path, {said: TargetValue((*path, said))})
    yield from _rates(at, args)
    yield from _ways_to_leave(at, args)
    below = (*at.path, "objectLimiters")
    if limiters := dict(_limiters(below, args.object_limiters)):
        yield "objectLimiters", TargetValue(below, limiters)
    for field, name in _JOB_LIMITS.items():
        if field in written and (most := getattr(args, name)) is not None:
            yield field, TargetValue((*at.path, field), min(most, MAX_LIMIT))
    for field, name in _WORKLOAD_LIMITS.items():
        if (limit := getattr(args, name)) is not None:
            yield field, TargetValue((*at.path, field), _of_job(limit))


def _limiters(at: Path, limiters: Mapping[str, ObjectLimiter]) -> Iterator[tuple[str, TargetValue]]:
    """Outline the object limiters; without any, koordinator limits workloads over 5 minutes."""
    if not limiters:
        yield WORKLOAD, TargetValue(at, {"duration": TargetValue(at, _DEFAULT_LIMITER_TIME)})
    for kind in (WORKLOAD, NAMESPACE):
        limiter = limiters.get(kind)
        if limiter is None or limiter.duration_s <= 0:
            continue
        most, below = limiter.max_migrating, (*at, kind)
        if kind == NAMESPACE and not limiter.is_of_namespaces:
            continue
        duration = (*below, "duration")
        is_too_long = limiter.duration_s > MAX_LIMITER_S
        fields = {
            "duration": TargetValue(duration, "24h") if is_too_long else TargetValue(duration)
        }
        if most is not None:
            path = (*below, "maxMigrating")
            fields["maxMigrating"] = TargetValue(path, _of_job(most))
        if limiter.burst > 0:
            fields["burst"] = TargetValue((*below, "burst"), min(limiter.burst, MAX_LIMIT))
        yield kind, TargetValue(below, fields)


def _rates(at: SourceLocation, args: MigrationControllerArgs) -> Iterator[tuple[str, TargetValue]]:
    """Outline how fast jobs evict, and how many are written at once, as far as it is written."""
    for field, (_, value) in rates_of_jobs(args).items():
        yield field, TargetValue((*at.path, field), value)


def _ways_to_leave(
    at: SourceLocation, args: MigrationControllerArgs
) -> Iterator[tuple[str, TargetValue]]:
    """Outline how pods are asked to leave, by options that a settings file has, too."""
    if args.eviction_policy != EVICTION:
        yield "evictionPolicy", TargetValue((*at.path, "evictionPolicy"))
    if (options := args.default_delete_options) is not None:
        path = (*at.path, "defaultDeleteOptions")
        asked = {
            "gracePeriodSeconds": options.grace_period_seconds is not None,
            "propagationPolicy": bool(options.propagation_policy),
        }
        kept = {field: TargetValue((*path, field)) for field in asked if asked[field]}
        if kept:
            yield "defaultDeleteOptions", TargetValue(path, kept)


def _of_job(limit: int | str) -> int | str:
    """Write a limit of one workload as the settings of jobs have it; below 0% none may move."""
    if isinstance(limit, int):
        return limit
    share = int(limit.removesuffix("%"))
    return f"{share}%" if share >= 0 else -1
