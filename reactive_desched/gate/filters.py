"""The default evictor's pod filters: one small function for each reason not to evict a pod.

The rules and their order are those of the SIG descheduler's DefaultEvictor. A filter returns None
or its reason with a message; its `wakes` name the objects whose change may alter the answer.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Final, NamedTuple

from msgspec import Struct

from reactive_desched.api.index import Index
from reactive_desched.model.decisions import GateReason
from reactive_desched.model.labels import LabelSelector, Selector
from reactive_desched.model.objects import (
    FAILED,
    SYSTEM_CRITICAL_PRIORITY,
    PersistentVolumeClaim,
    Pod,
    PodKey,
    PriorityClass,
)
from reactive_desched.model.opt_outs import EVICT, EvictWish, evict_wish, evict_wish_as_upstream
from reactive_desched.model.wakes import (
    WakeOn,
    WakeOnNode,
    WakeOnPdb,
    WakeOnPod,
    WakeOnPriorityClass,
    WakeOnPvc,
)
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.protections import Protection
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.owners import ReplicaCounts, WakeOnOwner
from reactive_desched.state.indexes.pdb import PdbIndex
from reactive_desched.text.counts import format_count
from reactive_desched.text.times import format_time_seen_at

Rejection = tuple[GateReason, str]
"""Why a pod must not be evicted, and the message that says so."""

PodCheck = Callable[[Pod, ClusterView], Rejection | None]

EVICT_SAYS_NO: Final = GateReason(
    "EvictAnnotation",
    "EvictFalse",
    "The pod has the annotation `descheduler.alpha.kubernetes.io/evict` with a value that says no, "
    'such as `"false"`: it stays. In a sweep the annotation lets the pod go whatever its value, as '
    "in the SIG descheduler.",
    keeps=True,
)
MIRROR_POD: Final = GateReason(
    "MirrorPods",
    "MirrorPod",
    "The pod mirrors a static pod, which only the kubelet can stop.",
    keeps=True,
)
STATIC_POD: Final = GateReason(
    "StaticPods",
    "StaticPod",
    "The pod is a static pod: it comes from a file on its node.",
    keeps=True,
)
POD_TERMINATING: Final = GateReason(
    "TerminatingPods", "PodTerminating", "The pod is terminating already."
)
SYSTEM_CRITICAL: Final = GateReason(
    Protection.SYSTEM_CRITICAL,
    "SystemCriticalPriority",
    "The pod's priority is 2,000,000,000 or more.",
    keeps=True,
)
PRIORITY_TOO_HIGH: Final = GateReason(
    "PriorityThreshold",
    "PriorityTooHigh",
    "The pod's priority is not below the policy's `priorityThreshold`.",
    "priorityThreshold",
    keeps=True,
)
PRIORITY_CLASS_NOT_FOUND: Final = GateReason(
    "PriorityThreshold",
    "PriorityClassNotFound",
    "The cluster has no PriorityClass of the name in the policy's `priorityThreshold`.",
    "priorityThreshold",
)
NO_CONTROLLER: Final = GateReason(
    Protection.FAILED_BARE,
    "NoController",
    "The pod has no owner, so no controller would replace it.",
    keeps=True,
)
LOCAL_STORAGE: Final = GateReason(
    Protection.LOCAL_STORAGE,
    "LocalStorage",
    "The pod has a hostPath or emptyDir volume, whose data would be lost.",
    keeps=True,
)
DAEMON_SET_POD: Final = GateReason(
    Protection.DAEMON_SET,
    "DaemonSetPod",
    "The pod belongs to a DaemonSet, which would recreate it on the same node.",
    keeps=True,
)
PVC_POD: Final = GateReason(
    Protection.PVC,
    "PvcPod",
    "The pod uses a PersistentVolumeClaim, and the policy protects these.",
    keeps=True,
)
PVC_NOT_FOUND: Final = GateReason(
    Protection.PVC,
    "PvcNotFound",
    "The pod's PersistentVolumeClaim does not exist, so its storage class is unknown.",
)
STORAGE_CLASS_UNKNOWN: Final = GateReason(
    Protection.PVC,
    "StorageClassUnknown",
    "The pod's PersistentVolumeClaim names no storage class.",
)
PROTECTED_STORAGE_CLASS: Final = GateReason(
    Protection.PVC,
    "ProtectedStorageClass",
    "The pod uses a PersistentVolumeClaim of a storage class that the policy protects.",
    keeps=True,
)
NO_DISRUPTION_BUDGET: Final = GateReason(
    Protection.WITHOUT_PDB,
    "NoDisruptionBudget",
    "No PodDisruptionBudget covers the pod, and the policy protects such pods.",
    keeps=True,
)
RESOURCE_CLAIMS: Final = GateReason(
    Protection.RESOURCE_CLAIMS,
    "ResourceClaims",
    "The pod uses ResourceClaims, and the policy protects such pods.",
    keeps=True,
)
LABELS_NOT_SELECTED: Final = GateReason(
    "LabelSelector",
    "LabelsNotSelected",
    "The evictor's `labelSelector` does not match the pod's labels.",
    "labelSelector",
    keeps=True,
)
TOO_FEW_REPLICAS: Final = GateReason(
    "MinReplicas",
    "MinReplicas",
    "The pod's owner has fewer pods than `minReplicas`.",
    "minReplicas",
    keeps=True,
)
TOO_YOUNG: Final = GateReason(
    "MinPodAge",
    "MinPodAge",
    "The pod started less than `minPodAge` ago, or has not started.",
    "minPodAge",
)


NODE_OUTSIDE_PROFILE: Final = GateReason(
    "ProfileNodes",
    "NodeOutsideProfile",
    "The profile's `nodeSelector` does not match the labels of the pod's node.",
    "nodeSelector",
    keeps=True,
)


def wake_on_pod(pod: Pod) -> tuple[WakeOn, ...]:
    """Wake when the pod changes."""
    return (WakeOnPod(pod.uid),)


def wake_on_owner(pod: Pod) -> tuple[WakeOn, ...]:
    """Wake when the pod changes, or the number of pods of one of its owners."""
    return (*wake_on_pod(pod), *(WakeOnOwner(owner.uid) for owner in pod.owners))


def wake_on_pvc(pod: Pod) -> tuple[WakeOn, ...]:
    """Wake when the pod or one of its PersistentVolumeClaims changes."""
    return (*wake_on_pod(pod), *(WakeOnPvc(pod.namespace, name) for name in pod.pvc_names))


def wake_on_pdb(pod: Pod) -> tuple[WakeOn, ...]:
    """Wake when the pod or a PodDisruptionBudget of its namespace changes."""
    return (*wake_on_pod(pod), WakeOnPdb(pod.namespace))


def wake_on_priority_class(pod: Pod) -> tuple[WakeOn, ...]:
    """Wake when the pod or a PriorityClass changes."""
    return (*wake_on_pod(pod), WakeOnPriorityClass())


class InFlightCheck(Struct, frozen=True):
    """Asks a filter again, with the pods whose eviction is under way counted as leaving.

    No change of the cluster announces these, so only a finding is asked about, not what is kept.
    """

    pods: Callable[[Pod], Collection[PodKey]]
    check: Callable[[Pod, ClusterView, Collection[PodKey]], Rejection | None]


class PodFilter(Struct, frozen=True):
    """A filter: its gate's name, its check, and what may alter its answer.

    `retry_at_s` returns when a rejection ends that time alone lifts (seconds since the epoch).
    `in_flight` is asked about a finding in addition, once `check` lets the pod pass.
    """

    name: str
    check: PodCheck
    wakes: Callable[[Pod], tuple[WakeOn, ...]] = wake_on_pod
    retry_at_s: Callable[[Pod], float | None] = lambda _: None
    indexes: tuple[type[Index], ...] = ()
    in_flight: InFlightCheck | None = None


class ReplicaCount(NamedTuple):
    """The number of an owner's pods that count for one of them, with a verb for people."""

    pods: int
    words: str


class ReplicaRule(Struct, frozen=True):
    """Counts for `minReplicas` the pods of a pod's sole owner, and names the indexes it reads.

    `count` leaves out the pods whose eviction is under way that it is given; `in_flight` returns
    those of a pod's owner.
    """

    count: Callable[[Pod, ClusterView, Collection[PodKey]], ReplicaCount]
    indexes: tuple[type[Index], ...]
    in_flight: Callable[[Pod], Collection[PodKey]] = lambda _: ()


def _count_in_any_phase(pod: Pod, view: ClusterView, _: Collection[PodKey]) -> ReplicaCount:
    replicas = view.index(ReplicaCounts).count(pod.owners[0].uid)
    return ReplicaCount(replicas, f"has {format_count(replicas, 'pod')}")


class EvictorRules(Struct, frozen=True):
    """The rules in which the SIG descheduler's evictor and the controller differ.

    `evict_wish` reads the annotation `evict`, `prefers_no_eviction` says whether the value of
    `prefer-no-eviction` asks for something.
    """

    evict_wish: Callable[[str | None], EvictWish]
    prefers_no_eviction: Callable[[str | None], bool]
    replicas: ReplicaRule


UPSTREAM_RULES: Final = EvictorRules(
    evict_wish_as_upstream,
    lambda value: value is not None,
    ReplicaRule(_count_in_any_phase, (ReplicaCounts,)),
)
"""Those of a sweep: an annotation is there or not, and every pod of an owner counts."""


def wake_on_node(pod: Pod) -> tuple[WakeOn, ...]:
    """Wake when the pod or its node changes."""
    return (*wake_on_pod(pod), WakeOnNode(pod.node))


def outside_profile(nodes: Selector) -> PodCheck:
    """Return the filter for pods on nodes that a profile does not select, or on none."""

    def check(pod: Pod, view: ClusterView) -> Rejection | None:
        info = view.node_info(pod.node)
        if info is not None and info.node is not None and nodes.matches(info.node.labels):
            return None
        where = f"node {pod.node}" if pod.node else "a pod without a node"
        return NODE_OUTSIDE_PROFILE, f"the profile's nodeSelector {nodes} does not match {where}"

    return check


def kept_by_annotation(pod: Pod, _: ClusterView) -> Rejection | None:
    """Reject pods whose `evict` annotation says no."""
    value = pod.annotations.evict
    if evict_wish(value) is not EvictWish.STAYS:
        return None
    return EVICT_SAYS_NO, f'the pod has the annotation {EVICT}: "{value}", which keeps it here'


def mirror_pod(pod: Pod, _: ClusterView) -> Rejection | None:
    """Reject mirror pods: the kubelet manages them."""
    if pod.annotations.mirror is None:
        return None
    return MIRROR_POD, "the pod is a mirror pod of the kubelet"


def static_pod(pod: Pod, _: ClusterView) -> Rejection | None:
    """Reject static pods: they come from files on their node."""
    source = pod.annotations.static_source
    if source is None:
        return None
    return STATIC_POD, f"the pod is a static pod from {source}"


def terminating(pod: Pod, _: ClusterView) -> Rejection | None:
    """Reject pods whose deletion has begun."""
    return (POD_TERMINATING, "the pod is terminating") if pod.is_terminating else None


def system_critical(pod: Pod, _: ClusterView) -> Rejection | None:
    """Reject pods with system-critical priority: 2,000,000,000 and above."""
    priority = pod.spec.priority
    if priority is None or priority < SYSTEM_CRITICAL_PRIORITY:
        return None
    return SYSTEM_CRITICAL, f"the pod has system-critical priority {priority}"


def no_owner(pod: Pod, _: ClusterView) -> Rejection | None:
    """Reject pods without an owner: no controller would replace them."""
    return None if pod.owners else (NO_CONTROLLER, "the pod has no owner that would replace it")


def no_owner_and_not_failed(pod: Pod, _: ClusterView) -> Rejection | None:
    """Reject pods without an owner, unless they have failed."""
    if pod.owners or pod.status.phase == FAILED:
        return None
    return NO_CONTROLLER, "the pod has no owner that would replace it, and has not failed"


def local_storage(pod: Pod, _: ClusterView) -> Rejection | None:
    """Reject pods whose hostPath or emptyDir volumes would stay behind."""
    if not pod.spec.has_local_storage:
        return None
    return LOCAL_STORAGE, "the pod has local storage (a hostPath or emptyDir volume)"


def daemon_set_pod(pod: Pod, _: ClusterView) -> Rejection | None:
    """Reject pods of a DaemonSet, which would recreate them on the same node."""
    owner = next((owner for owner in pod.owners if owner.kind == "DaemonSet"), None)
    return None if owner is None else (DAEMON_SET_POD, f"{owner.named(pod.namespace)} owns the pod")


def has_pvc(pod: Pod, _: ClusterView) -> Rejection | None:
    """Reject pods that use a PersistentVolumeClaim."""
    if not pod.pvc_names:
        return None
    return PVC_POD, f"the pod uses PersistentVolumeClaim {pod.pvc_names[0]}"


def protected_storage_class(classes: frozenset[str]) -> PodCheck:
    """Return the filter for PVCs of the listed storage classes; an unknown class is protected."""

    def check(pod: Pod, view: ClusterView) -> Rejection | None:
        for name in pod.pvc_names:
            pvc = view.store(PersistentVolumeClaim).get(f"{pod.namespace}/{name}")
            if pvc is None:
                return PVC_NOT_FOUND, f"PersistentVolumeClaim {name} of the pod does not exist"
            if not pvc.storage_class:
                message = f"PersistentVolumeClaim {name} of the pod names no storage class"
                return STORAGE_CLASS_UNKNOWN, message
            if pvc.storage_class in classes:
                message = f"PersistentVolumeClaim {name} has storage class {pvc.storage_class}"
                return PROTECTED_STORAGE_CLASS, message
        return None

    return check


def no_pdb(pod: Pod, view: ClusterView) -> Rejection | None:
    """Reject pods that no PodDisruptionBudget covers: nothing would pace their evictions."""
    if view.index(PdbIndex).covering(pod):
        return None
    return NO_DISRUPTION_BUDGET, "no PodDisruptionBudget covers the pod"


def resource_claims(pod: Pod, _: ClusterView) -> Rejection | None:
    """Reject pods with ResourceClaims: other nodes may not have the devices."""
    if not pod.spec.has_resource_claims:
        return None
    return RESOURCE_CLAIMS, "the pod uses ResourceClaims"


def priority_threshold(value: int | None, class_name: str | None) -> PodCheck:
    """Return the filter for pods at or above a priority; a missing PriorityClass protects all."""

    def check(pod: Pod, view: ClusterView) -> Rejection | None:
        if pod.spec.priority is None:
            return None
        threshold = SYSTEM_CRITICAL_PRIORITY if value is None else value
        if class_name is not None:
            found = view.store(PriorityClass).get(class_name)
            if found is None:
                message = f"PriorityClass {class_name} of the priority threshold does not exist"
                return PRIORITY_CLASS_NOT_FOUND, message
            threshold = found.value
        if pod.spec.priority < threshold:
            return None
        message = f"the pod's priority {pod.spec.priority} is not below the threshold {threshold}"
        return PRIORITY_TOO_HIGH, message

    return check


def labels_not_matching(selector: LabelSelector) -> PodCheck:
    """Return the filter for pods that the policy's label selector does not match."""

    def check(pod: Pod, _: ClusterView) -> Rejection | None:
        if selector.matches(pod.labels):
            return None
        return LABELS_NOT_SELECTED, "the policy's labelSelector does not match the pod's labels"

    return check


def too_few_replicas(
    minimum: int, rule: ReplicaRule
) -> Callable[[Pod, ClusterView, Collection[PodKey]], Rejection | None]:
    """Return the filter for small owners; a pod with several owners passes, as upstream."""

    def check(pod: Pod, view: ClusterView, in_flight: Collection[PodKey]) -> Rejection | None:
        if len(pod.owners) != 1:
            return None
        owner = pod.owners[0]
        replicas, words = rule.count(pod, view, in_flight)
        if replicas >= minimum:
            return None
        message = f"{owner.named(pod.namespace)} {words}, and minReplicas is {minimum}"
        return TOO_FEW_REPLICAS, message

    return check


def too_young(minimum_s: float) -> PodCheck:
    """Return the filter for pods that started less than so many seconds ago, or never."""

    def check(pod: Pod, view: ClusterView) -> Rejection | None:
        if pod.started_s is None:
            return TOO_YOUNG, f"the pod has not started, and minPodAge is {minimum_s:g} s"
        age_s = view.now_s - pod.started_s
        if age_s >= minimum_s:
            return None
        started = format_time_seen_at(pod.started_s, view.now_s)
        return TOO_YOUNG, f"the pod started at {started}, and minPodAge is {minimum_s:g} s"

    return check


ALWAYS_ON: Final = (
    PodFilter("MirrorPods", mirror_pod),
    PodFilter("StaticPods", static_pod),
    PodFilter("TerminatingPods", terminating),
)


def pod_filters(
    args: DefaultEvictorArgs, rules: EvictorRules = UPSTREAM_RULES
) -> tuple[PodFilter, ...]:
    """Return the filters that these arguments ask for, in upstream's order of evaluation."""
    return (*ALWAYS_ON, *_protection_filters(args), *_limit_filters(args, rules.replicas))


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


def _limit_filters(args: DefaultEvictorArgs, replicas: ReplicaRule) -> Iterator[PodFilter]:
    if args.label_selector is not None and not args.label_selector.is_empty:
        yield PodFilter("LabelSelector", labels_not_matching(args.label_selector))
    if args.min_replicas > 1:
        check = too_few_replicas(args.min_replicas, replicas)
        yield PodFilter(
            "MinReplicas",
            lambda pod, view: check(pod, view, ()),
            wake_on_owner,
            indexes=replicas.indexes,
            in_flight=InFlightCheck(replicas.in_flight, check),
        )
    if args.min_pod_age_s is not None:
        age = args.min_pod_age_s
        yield PodFilter(
            "MinPodAge", too_young(age), retry_at_s=lambda pod: _min_age_reached_at(pod, age)
        )


def _min_age_reached_at(pod: Pod, age_s: float) -> float | None:
    return None if pod.started_s is None else pod.started_s + age_s
