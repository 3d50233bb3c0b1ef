"""The differences from koordinator: each with its place, what happens here, and a remedy."""

from collections.abc import Iterator
from typing import Final

from reactive_desched.api.rules import Rule
from reactive_desched.model.evictor_table import EVICTORS
from reactive_desched.model.migration_jobs import Mode, SkipGate
from reactive_desched.policy.koordinator.migration_controller import (
    IGNORE_UNREADABLE,
    MigrationControllerArgs,
)
from reactive_desched.policy.koordinator.paces import is_slower_than_ours, rates_of_jobs
from reactive_desched.policy.koordinator.profiles import KoordinatorsProfile
from reactive_desched.policy.registry import DEFAULT_EVICTOR, MIGRATION_CONTROLLER
from reactive_desched.policy.settings.migration import MAX_LIMITER_S
from reactive_desched.policy.yaml.diagnostics import Diagnostic
from reactive_desched.policy.yaml.source_location import SourceLocation
from reactive_desched.policy.yaml.tree import ScalarNode

_OWN_LEASE: Final = "replicas of ours take a Lease of their own: see leaderElection in the settings"
_OWN_SERVER: Final = "see server in the settings: one address serves metrics and health"
_NOT_READ: Final = {
    ("leaderElection",): _OWN_LEASE,
    ("clientConnection", "kubeconfig"): "give it with --kubeconfig",
    ("clientConnection", "acceptContentTypes"): "we speak JSON",
    ("clientConnection", "contentType"): "we speak JSON",
    ("healthzBindAddress",): _OWN_SERVER,
    ("metricsBindAddress",): _OWN_SERVER,
    ("enableProfiling",): "there is no such endpoint",
    ("enableContentionProfiling",): "there is no such endpoint",
}
"""The fields of a file that nothing here reads, by path, and what to do instead."""

_CUSTOM_PRIORITY: Final = "CustomPriority"
_DRAIN_NODE: Final = "DrainNode"

_ARGUMENTS_NOT_READ: Final = {
    "arbitrationArgs": "waiting jobs are looked at when something changes, not at intervals",
}


def file_differences(document: SourceLocation) -> Iterator[Diagnostic]:
    """Yield the fields of a file outside its profiles that act otherwise here."""
    interval = document.below("deschedulingInterval")
    if _is_zero(interval):
        message = "koordinator runs its plugins once and then never again without it"
        hint = "here they run whenever something changes; `run --once` runs them once"
    else:
        message = "plugins run when something changes, not at intervals"
        hint = "`run --once` in a CronJob runs them at intervals"
    yield interval.diagnostic(message, hint, rule=Rule.KOORDINATOR_DIFFERENCE)
    for path, hint in _NOT_READ.items():
        if not (at := document.below(*path)).is_null:
            yield at.diagnostic("is not read", hint, rule=Rule.KOORDINATOR_DIFFERENCE, at_key=True)


def _is_zero(interval: SourceLocation) -> bool:
    return interval.is_null or (interval.text or "").strip("0hmsnuµ.+-") == ""


def file_obstacles(document: SourceLocation) -> Iterator[Diagnostic]:
    """Yield what keeps a file from running here, though it can be converted."""
    dry_run = document.below("dryRun")
    if isinstance(dry_run.node, ScalarNode) and dry_run.node.value is True:
        message = "a policy of ours does not say so, and would evict"
        hint = "remove it, and give `run` the flag --dry-run"
        yield dry_run.diagnostic(message, hint, rule=Rule.KOORDINATOR_ONLY)


def profile_obstacles(
    profile: KoordinatorsProfile, args: MigrationControllerArgs
) -> Iterator[Diagnostic]:
    """Yield what keeps a profile from running here, though it can be converted."""
    at = profile.args_at
    if args.dry_run:
        message = "a policy of ours does not say so, and would evict"
        hint = "remove it, and give `run` the flag --dry-run"
        yield at.below("dryRun").diagnostic(message, hint, rule=Rule.KOORDINATOR_ONLY)


def profile_errors(
    profile: KoordinatorsProfile, args: MigrationControllerArgs
) -> Iterator[Diagnostic]:
    """Yield errors for arguments that have no counterpart here."""
    at = profile.args_at
    options = args.default_delete_options
    if options is not None and options.dry_run:
        yield at.below("defaultDeleteOptions", "dryRun").diagnostic(
            "a policy of ours does not say so, and would evict",
            "remove it, and give `run` the flag --dry-run",
            rule=Rule.KOORDINATOR_ONLY,
        )


def profile_differences(
    profile: KoordinatorsProfile, args: MigrationControllerArgs
) -> Iterator[Diagnostic]:
    """Yield how koordinator's MigrationController differs from what a profile does here."""
    at = profile.args_at
    for difference in (*_moves(args), *_pace(args)):
        yield _said(profile, *difference)
    for field, hint in _ARGUMENTS_NOT_READ.items():
        if not (place := at.below(field)).is_null:
            yield place.diagnostic(
                "is not read", hint, rule=Rule.KOORDINATOR_DIFFERENCE, at_key=True
            )
    yield from _sets(profile)


def _sets(profile: KoordinatorsProfile) -> Iterator[Diagnostic]:
    """Yield what needs sets of pods, which jobs do not move."""
    entry = profile.configs.get(_CUSTOM_PRIORITY)
    if entry is None:
        return
    at = entry.below("args", "autoCordon")
    drains = entry.below("args", "mode").text == _DRAIN_NODE
    if drains and isinstance(at.node, ScalarNode) and at.node.value is True:
        message = "a node is emptied as a whole then, and jobs move pods one by one: none leaves"
        hint = f"remove it, or have {DEFAULT_EVICTOR} evict"
        yield at.diagnostic(message, hint, rule=Rule.KOORDINATOR_DIFFERENCE, at_key=True)


def _said(
    profile: KoordinatorsProfile, path: tuple[str, ...], message: str, hint: str
) -> Diagnostic:
    """Place a difference at its argument, or at the profile where the argument is not written."""
    if MIGRATION_CONTROLLER in profile.configs:
        place = profile.args_at.below(*path)
        return place.diagnostic(message, hint, rule=Rule.KOORDINATOR_DIFFERENCE, at_key=True)
    name = ".".join(path)
    return profile.at.diagnostic(
        f"{MIGRATION_CONTROLLER} has {name} by default: {message}",
        f"{hint} as {name} in its pluginConfig",
        rule=Rule.KOORDINATOR_DIFFERENCE,
    )


_Difference = tuple[tuple[str, ...], str, str]


def _moves(args: MigrationControllerArgs) -> Iterator[_Difference]:
    """Yield differences in which pods may go, and how."""
    yield from _places(args)
    evictor = EVICTORS[args.eviction_policy]
    if evictor.role:
        verbs, resource = " and ".join(evictor.right.verbs), evictor.right.resource
        message = f"takes the right to {verbs} {resource}, which the controller has not by default"
        yield ("evictionPolicy",), message, f"apply deploy/migration/{evictor.role}/rbac.yaml"
    is_skipped = SkipGate.BARE_PODS in args.skip_eviction_gates
    if args.evict_all_bare_pods or is_skipped:
        path = "skipEvictionGates" if is_skipped else "evictAllBarePods"
        message = "a pod without an owner is evicted only after it has failed"
        yield (path,), message, "nothing would make such a pod again"
    threshold = args.priority_threshold
    if threshold.name and threshold.value is None:
        message = "protects pods here; koordinator does not look the class up, and protects none"
        yield ("priorityThreshold", "name"), message, "remove it if it is not meant"
    options = args.default_delete_options
    if options is not None and options.preconditions is not None:
        message = "is not read: an eviction here always names the uid that was judged"
        yield ("defaultDeleteOptions", "preconditions"), message, "remove it"
    if options is not None and options.grace_period_seconds is not None:
        message = "holds for every profile here"
        hint = "it becomes gracePeriodSeconds of the policy, and of migration jobs"
        yield ("defaultDeleteOptions", "gracePeriodSeconds"), message, hint
    if options is not None and options.orphan_dependents is not None:
        hint = "write propagationPolicy: Orphan, or Background"
        yield ("defaultDeleteOptions", "orphanDependents"), "is not read", hint
    if options is not None and options.ignores_unreadable:
        hint = "remove it: a pod that cannot be read is not moved"
        yield ("defaultDeleteOptions", IGNORE_UNREADABLE), "is not read", hint


def _places(args: MigrationControllerArgs) -> Iterator[_Difference]:
    """Yield what it takes to keep a place first."""
    if args.default_job_mode is Mode.RESERVATION_FIRST:
        message = "a place is kept by koordinator's Reservation, which takes a right of its own"
        hint = "apply deploy/migration/reservations/rbac.yaml, or write EvictDirectly"
        yield ("defaultJobMode",), message, hint
    elif "scheduler_names" in args.model_fields_set:
        message = "a job of mode ReservationFirst has a Reservation, which takes a right of its own"
        hint = "apply deploy/migration/reservations/rbac.yaml, or remove it"
        yield ("schedulerNames",), message, hint


def _pace(args: MigrationControllerArgs) -> Iterator[_Difference]:
    """Yield differences in how fast pods go."""
    if "evict_qps" in args.model_fields_set and not is_slower_than_ours(args.evict_qps):
        message = "budgets of the settings hold as well, by default 30 evictions a minute"
        yield ("evictQPS",), message, "see `policy explain settings.budgets` for each"
    for field, (written, taken) in rates_of_jobs(args).items():
        if taken != written:
            word = "more" if written > taken else "less"
            yield (field,), f"is {word} than migration.{field} takes", f"it becomes {taken:g}"
    if args.max_unavailable_per_workload is not None:
        message = "here no pod leaves while another of its workload is not Ready"
        hint = "the guard UnreadyWorkloads is stricter; migration jobs go by the number"
        yield ("maxUnavailablePerWorkload",), message, hint
    for kind, limiter in args.object_limiters.items():
        if limiter.duration_s > MAX_LIMITER_S:
            message = "is more than a day"
            yield ("objectLimiters", kind, "duration"), message, "it becomes 24h"
