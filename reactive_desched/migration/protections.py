"""Names the pods that a migration job must never move: koordinator's protections.

The rules that the default evictor has as well are the default evictor's.
"""

from collections.abc import Iterator
from typing import Final

from reactive_desched.gate.filters import (
    ALWAYS_ON,
    PodCheck,
    Rejection,
    daemon_set_pod,
    has_pvc,
    kept_by_annotation,
    labels_not_matching,
    local_storage,
    no_owner,
    no_owner_and_not_failed,
    priority_threshold,
    system_critical,
)
from reactive_desched.migration.settings import ArbitrationSettings, MigratedNamespaces
from reactive_desched.model.decisions import GateReason
from reactive_desched.model.koordinator import eviction_cost
from reactive_desched.model.migration_jobs import SkipGate
from reactive_desched.model.objects import Pod
from reactive_desched.model.opt_outs import EvictWish, evict_wish
from reactive_desched.state.cluster import ClusterView

NEVER_EVICT_COST: Final = 2**31 - 1
"""The eviction cost by which a pod stays where it is."""

NAMESPACE_NOT_SELECTED: Final = GateReason(
    "Namespaces",
    "NamespaceNotSelected",
    "The `namespaces` of the migration settings leave the pod's namespace out.",
    "namespaces",
)
EVICTION_COST: Final = GateReason(
    "EvictionCost",
    "EvictionCost",
    "The pod's annotation scheduling.koordinator.sh/eviction-cost is 2147483647: never move it.",
)


def protections(settings: ArbitrationSettings) -> tuple[PodCheck, ...]:
    """Return the checks that these settings ask for, in koordinator's order."""
    return tuple(_protections(settings))


def _protections(settings: ArbitrationSettings) -> Iterator[PodCheck]:
    skips = settings.skips
    if not skips(SkipGate.NAMESPACES):
        yield _namespace_check(settings.namespaces)
    yield kept_by_annotation
    yield _cost_check
    yield daemon_set_pod
    yield from (each.check for each in ALWAYS_ON)
    if not (settings.evict_all_bare_pods or skips(SkipGate.BARE_PODS)):
        yield no_owner_and_not_failed if settings.evict_failed_bare_pods else no_owner
    if not (settings.evict_system_critical_pods or skips(SkipGate.SYSTEM_CRITICAL)):
        yield system_critical
        value, name = settings.priority_threshold, settings.priority_class
        has_threshold = value is not None or name is not None
        if has_threshold and not skips(SkipGate.PRIORITY_THRESHOLD):
            yield priority_threshold(value, name)
    if not (settings.evict_local_storage_pods or skips(SkipGate.LOCAL_STORAGE)):
        yield local_storage
    if settings.ignore_pvc_pods and not skips(SkipGate.PVC):
        yield has_pvc
    if settings.label_selector is not None and not skips(SkipGate.LABEL_SELECTOR):
        yield labels_not_matching(settings.label_selector)


def _namespace_check(namespaces: MigratedNamespaces) -> PodCheck:
    def check(pod: Pod, _: ClusterView) -> Rejection | None:
        is_left_out = bool(namespaces.include) and pod.namespace not in namespaces.include
        if not is_left_out and pod.namespace not in namespaces.exclude:
            return None
        return NAMESPACE_NOT_SELECTED, f"namespaces leaves namespace {pod.namespace} out"

    return check


def _cost_check(pod: Pod, _: ClusterView) -> Rejection | None:
    if eviction_cost(pod) != NEVER_EVICT_COST:
        return None
    return EVICTION_COST, f"the pod's eviction cost is {NEVER_EVICT_COST}: it must never be moved"


def passes_by_annotation(pod: Pod) -> bool:
    """Say whether the pod's evict annotation lets it pass every check."""
    return evict_wish(pod.annotations.evict) is EvictWish.PASSES
