"""Turns MigrationController's protections into arguments of DefaultEvictor."""

from collections.abc import Iterator, Mapping
from typing import Final

from reactive_desched.model.migration_jobs import SkipGate
from reactive_desched.model.objects import SYSTEM_CRITICAL_PRIORITY
from reactive_desched.policy.koordinator.migration_controller import MigrationControllerArgs
from reactive_desched.policy.koordinator.profiles import KoordinatorsProfile
from reactive_desched.policy.protections import Protection
from reactive_desched.policy.yaml.derived_tree import TargetValue

NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
"""The label by which every namespace carries its name."""


def evictor_args(
    profile: KoordinatorsProfile, args: MigrationControllerArgs
) -> Mapping[str, TargetValue]:
    """Outline what protects pods here as MigrationController does there."""
    return dict(_evictor_args(profile, args))


def _evictor_args(
    profile: KoordinatorsProfile, args: MigrationControllerArgs
) -> Iterator[tuple[str, TargetValue]]:
    at = profile.args_at.path
    skips = frozenset(args.skip_eviction_gates)
    if args.node_fit and SkipGate.NODE_FIT not in skips:
        yield "nodeSelector", TargetValue((*at, "nodeSelector"))
        yield "nodeFit", TargetValue((*at, "nodeFit"))
    if SkipGate.NAMESPACES not in skips:
        for field, operator in (("include", "In"), ("exclude", "NotIn")):
            if getattr(args.namespaces, field):
                yield (
                    "namespaceLabelSelector",
                    _namespace_selector((*at, "namespaces", field), operator),
                )
    if SkipGate.LABEL_SELECTOR not in skips:
        yield "labelSelector", TargetValue((*at, "labelSelector"))
    yield from _threshold(profile, args, skips)
    if (least := _min_replicas(args, skips)) > 1:
        yield "minReplicas", TargetValue((*at, "skipCheckExpectedReplicas"), least)
    yield "podProtections", TargetValue(at, _protections(at, args, skips))


def _namespace_selector(at: tuple[str | int, ...], operator: str) -> TargetValue:
    requirement = {
        "key": TargetValue(at, NAMESPACE_NAME),
        "operator": TargetValue(at, operator),
        "values": TargetValue(at),
    }
    return TargetValue(at, {"matchExpressions": TargetValue(at, (TargetValue(at, requirement),))})


def _threshold(
    profile: KoordinatorsProfile, args: MigrationControllerArgs, skips: frozenset[SkipGate]
) -> Iterator[tuple[str, TargetValue]]:
    """Outline the threshold; one above that of critical pods protects nothing more."""
    at = (*profile.args_at.path, "priorityThreshold")
    written = args.priority_threshold
    if {SkipGate.PRIORITY_THRESHOLD, SkipGate.SYSTEM_CRITICAL} & skips:
        return
    if args.evict_system_critical_pods:
        return
    if written.value is not None and written.value <= SYSTEM_CRITICAL_PRIORITY:
        yield "priorityThreshold", TargetValue(at, {"value": TargetValue((*at, "value"))})
    elif written.value is None and written.name:
        yield "priorityThreshold", TargetValue(at, {"name": TargetValue((*at, "name"))})


def _min_replicas(args: MigrationControllerArgs, skips: frozenset[SkipGate]) -> int:
    """Return how many pods a workload must have: more than one, and more than may move at once."""
    if args.skip_check_expected_replicas or SkipGate.EXPECTED_REPLICAS in skips:
        return 0
    limits = (args.max_migrating_per_workload, args.max_unavailable_per_workload)
    return 1 + max(1, *(limit for limit in limits if isinstance(limit, int)), 1)


def _protections(
    at: tuple[str | int, ...], args: MigrationControllerArgs, skips: frozenset[SkipGate]
) -> Mapping[str, TargetValue]:
    off = {
        Protection.LOCAL_STORAGE: ("evictLocalStoragePods", SkipGate.LOCAL_STORAGE),
        Protection.SYSTEM_CRITICAL: ("evictSystemCriticalPods", SkipGate.SYSTEM_CRITICAL),
        Protection.FAILED_BARE: ("evictFailedBarePods", SkipGate.BARE_PODS),
    }
    is_on = {
        "evictLocalStoragePods": args.evict_local_storage_pods,
        "evictSystemCriticalPods": args.evict_system_critical_pods,
        "evictFailedBarePods": args.evict_failed_bare_pods or args.evict_all_bare_pods,
    }
    disabled = tuple(
        TargetValue((*at, field if gate not in skips else "skipEvictionGates"), str(protection))
        for protection, (field, gate) in off.items()
        if is_on[field] or gate in skips
    )
    pvc = (TargetValue((*at, "ignorePvcPods"), str(Protection.PVC)),)
    return {
        "defaultDisabled": TargetValue(at, disabled),
        "extraEnabled": TargetValue(
            at, pvc if args.ignore_pvc_pods and SkipGate.PVC not in skips else ()
        ),
    }
