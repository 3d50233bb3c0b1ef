"""Reasons to leave a pod alone: the default evictor's rules, one small function each.

As upstream's DefaultEvictor Filter, in its order and words. A guard returns the reason or None,
and `wakes` names what could change its answer.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from reactive_desched.api.index import Index
from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import (
    FAILED,
    SYSTEM_CRITICAL_PRIORITY,
    PersistentVolumeClaim,
    Pod,
    PriorityClass,
)
from reactive_desched.model.wakes import (
    WakeOn,
    WakeOnPdb,
    WakeOnPod,
    WakeOnPriorityClass,
    WakeOnPvc,
)
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.protections import Protection
from reactive_desched.state.indexes.owners import ReplicaCounts, WakeOnOwner
from reactive_desched.state.indexes.pdb import PdbIndex
from reactive_desched.state.view import ClusterView

PodCheck = Callable[[Pod, ClusterView], str | None]


def wake_on_pod(pod: Pod) -> tuple[WakeOn, ...]:
    """Wake when something about the pod itself changes."""
    return (WakeOnPod(pod.uid),)


def wake_on_owner(pod: Pod) -> tuple[WakeOn, ...]:
    """Wake when an owner gains or loses pods."""
    return (*wake_on_pod(pod), *(WakeOnOwner(owner.uid) for owner in pod.owners))


def wake_on_pvc(pod: Pod) -> tuple[WakeOn, ...]:
    """Wake when a claim of the pod changes."""
    return (*wake_on_pod(pod), *(WakeOnPvc(pod.namespace, name) for name in pod.pvc_names))


def wake_on_pdb(pod: Pod) -> tuple[WakeOn, ...]:
    """Wake when a disruption budget of the namespace changes."""
    return (*wake_on_pod(pod), WakeOnPdb(pod.namespace))


def wake_on_priority_class(pod: Pod) -> tuple[WakeOn, ...]:
    """Wake when a priority class changes."""
    return (*wake_on_pod(pod), WakeOnPriorityClass())


@dataclass(frozen=True, slots=True)
class PodFilter:
    """One reason to refuse: what it is called, how it is told, what could lift it.

    `opens_at_s` tells when a refusal that time alone lifts ends (seconds since the epoch).
    """

    name: str
    check: PodCheck
    wakes: Callable[[Pod], tuple[WakeOn, ...]] = wake_on_pod
    retry_at_s: Callable[[Pod], float | None] = lambda _: None
    indexes: tuple[type[Index], ...] = ()


def mirror_pod(pod: Pod, _: ClusterView) -> str | None:
    """Mirror pods belong to the kubelet."""
    return "pod is a mirror pod" if pod.annotations.mirror is not None else None


def static_pod(pod: Pod, _: ClusterView) -> str | None:
    """Static pods come from a node's files."""
    source = pod.annotations.config_source
    return "pod is a static pod" if source is not None and source != "api" else None


def terminating(pod: Pod, _: ClusterView) -> str | None:
    """What already leaves needs no push."""
    return "pod is terminating" if pod.is_terminating else None


def system_critical(pod: Pod, _: ClusterView) -> str | None:
    """System-critical priority is 2,000,000,000 and above."""
    if pod.spec.priority is None or pod.spec.priority < SYSTEM_CRITICAL_PRIORITY:
        return None
    return "pod has system critical priority and is protected against eviction"


def no_owner(pod: Pod, _: ClusterView) -> str | None:
    """Nobody makes an ownerless pod again."""
    return None if pod.owners else "pod does not have any ownerRefs"


def no_owner_and_not_failed(pod: Pod, _: ClusterView) -> str | None:
    """Where failed bare pods may go, others still may not."""
    if pod.owners or pod.status.phase == FAILED:
        return None
    return "pod does not have any ownerRefs and is not in failed phase"


def local_storage(pod: Pod, _: ClusterView) -> str | None:
    """The data of hostPath and emptyDir volumes stays behind."""
    if not pod.spec.has_local_storage:
        return None
    return "pod has local storage and is protected against eviction"


def daemon_set_pod(pod: Pod, _: ClusterView) -> str | None:
    """A DaemonSet would put it back on the same node."""
    if not any(owner.kind == "DaemonSet" for owner in pod.owners):
        return None
    return "daemonset pods are protected against eviction"


def has_pvc(pod: Pod, _: ClusterView) -> str | None:
    """A pod with a persistent volume claim."""
    return "pod with PVC is protected against eviction" if pod.pvc_names else None


def protected_storage_class(classes: frozenset[str]) -> PodCheck:
    """Make the guard for claims of listed storage classes; a claim it cannot judge protects."""

    def check(pod: Pod, view: ClusterView) -> str | None:
        for name in pod.pvc_names:
            claim = view.store(PersistentVolumeClaim).get(f"{pod.namespace}/{name}")
            if claim is None:
                return f'failed to get persistent volume claim "{pod.namespace}"/"{name}"'
            if not claim.storage_class:
                return f'failed to resolve storage class for pod "{pod.namespace}"/"{name}"'
            if claim.storage_class in classes:
                return f'pod using protected storage class "{claim.storage_class}"'
        return None

    return check


def no_pdb(pod: Pod, view: ClusterView) -> str | None:
    """No disruption budget covers it, so nothing would pace its eviction."""
    if view.index(PdbIndex).covering(pod):
        return None
    return "pod does not have a PodDisruptionBudget and is protected against eviction"


def resource_claims(pod: Pod, _: ClusterView) -> str | None:
    """Dynamic resources may not be free elsewhere."""
    if not pod.spec.has_resource_claims:
        return None
    return "pod has ResourceClaims and descheduler is configured to protect ResourceClaims pods"


def priority_threshold(value: int | None, class_name: str | None) -> PodCheck:
    """Make the guard for pods at or above a priority; a named class that is missing protects."""

    def check(pod: Pod, view: ClusterView) -> str | None:
        if pod.spec.priority is None:
            return None
        threshold = SYSTEM_CRITICAL_PRIORITY if value is None else value
        if class_name is not None:
            found = view.store(PriorityClass).get(class_name)
            if found is None:
                return f"priority class {class_name!r} of the threshold does not exist"
            threshold = found.value
        if pod.spec.priority < threshold:
            return None
        return "pod has higher priority than specified priority class threshold"

    return check


def labels_not_matching(selector: LabelSelector) -> PodCheck:
    """Make the guard for pods that the policy's label selector leaves out."""

    def check(pod: Pod, _: ClusterView) -> str | None:
        if selector.matches(pod.labels):
            return None
        return "pod labels do not match the labelSelector filter in the policy parameter"

    return check


def too_few_replicas(minimum: int) -> PodCheck:
    """Make the guard for small owners; a pod with several owners passes, as upstream."""

    def check(pod: Pod, view: ClusterView) -> str | None:
        if len(pod.owners) != 1:
            return None
        replicas = view.index(ReplicaCounts).count(pod.owners[0].uid)
        if replicas >= minimum:
            return None
        return f"owner has {replicas} replicas which is less than minReplicas of {minimum}"

    return check


def too_young(minimum_s: float) -> PodCheck:
    """Make the guard for pods that started a short while ago, or never."""

    def check(pod: Pod, view: ClusterView) -> str | None:
        if pod.started_s is not None and view.now_s - pod.started_s >= minimum_s:
            return None
        return f"pod age is not older than MinPodAge: {minimum_s:g} seconds"

    return check


ALWAYS_ON: Final = (
    PodFilter("MirrorPods", mirror_pod),
    PodFilter("StaticPods", static_pod),
    PodFilter("TerminatingPods", terminating),
)


def pod_filters(args: DefaultEvictorArgs) -> tuple[PodFilter, ...]:
    """List the guards that these arguments ask for, in upstream's order of evaluation."""
    return (*ALWAYS_ON, *_protection_filters(args), *_limit_filters(args))


def _protection_filters(args: DefaultEvictorArgs) -> Iterator[PodFilter]:
    active = args.protections
    if Protection.SYSTEM_CRITICAL in active:
        threshold = args.priority_threshold
        yield PodFilter(Protection.SYSTEM_CRITICAL, system_critical)
        yield PodFilter(
            "PriorityThreshold",
            priority_threshold(threshold.value, threshold.name),
            wake_on_priority_class,
        )
    yield PodFilter(
        Protection.FAILED_BARE,
        no_owner if Protection.FAILED_BARE in active else no_owner_and_not_failed,
    )
    if Protection.LOCAL_STORAGE in active:
        yield PodFilter(Protection.LOCAL_STORAGE, local_storage)
    if Protection.DAEMON_SET in active:
        yield PodFilter(Protection.DAEMON_SET, daemon_set_pod)
    if Protection.PVC in active:
        classes = args.protected_storage_classes
        claims = protected_storage_class(classes) if classes else has_pvc
        yield PodFilter(Protection.PVC, claims, wake_on_pvc)
    if Protection.WITHOUT_PDB in active:
        yield PodFilter(Protection.WITHOUT_PDB, no_pdb, wake_on_pdb, indexes=(PdbIndex,))
    if Protection.RESOURCE_CLAIMS in active:
        yield PodFilter(Protection.RESOURCE_CLAIMS, resource_claims)


def _limit_filters(args: DefaultEvictorArgs) -> Iterator[PodFilter]:
    if args.label_selector is not None and not args.label_selector.is_empty:
        yield PodFilter("LabelSelector", labels_not_matching(args.label_selector))
    if args.min_replicas > 1:
        yield PodFilter(
            "MinReplicas",
            too_few_replicas(args.min_replicas),
            wake_on_owner,
            indexes=(ReplicaCounts,),
        )
    if args.min_pod_age_s is not None:
        age = args.min_pod_age_s
        yield PodFilter(
            "MinPodAge", too_young(age), retry_at_s=lambda pod: _min_age_reached_at(pod, age)
        )


def _min_age_reached_at(pod: Pod, age_s: float) -> float | None:
    return None if pod.started_s is None else pod.started_s + age_s
