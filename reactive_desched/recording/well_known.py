"""The texts that an anonymized recording keeps: they say nothing of whose cluster it was.

Every entry stands for itself or, with `*`, for all texts of that form: the parts in place of the
stars are replaced, the rest stays. Whatever is not here is replaced.
"""

import re
from functools import lru_cache
from typing import Final

from reactive_desched.api.reason_codes import REASON_CODES
from reactive_desched.model import (
    eviction_options,
    gangs,
    koordinator,
    migration_jobs,
    objects,
    reservations,
    volumes,
)
from reactive_desched.model.node_marks import NODE_MARK_GROUPS, STATE_LABELS, SYSTEM_LABELS
from reactive_desched.state.indexes.zone_health import EXCLUDE_DISRUPTION_LABEL

__all__ = ["KEPT_KEYS", "KEPT_KEY_FORMS", "KEPT_WORDS", "SYSTEM_NAMESPACES", "split_by_form"]

SYSTEM_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
"""Every cluster has them, and policies and rules name them."""

_WORDS_BY_REASON: Final[dict[str, tuple[str, ...]]] = {
    "namespaces that every cluster has": SYSTEM_NAMESPACES,
    "priority classes and schedulers that come with Kubernetes and koordinator": (
        "system-cluster-critical",
        "system-node-critical",
        objects.DEFAULT_SCHEDULER,
        "koord-scheduler",
    ),
    "truth, as labels and annotations write it": (
        *("true", "false", "True", "False", "Unknown", "yes", "no", "on", "off"),
    ),
    "kinds of the API, by which rules choose": (
        *("Pod", "Node", "Namespace", "ReplicaSet", "ReplicationController", "Deployment"),
        *("StatefulSet", "DaemonSet", "Job", "CronJob", "PersistentVolume"),
        *("PersistentVolumeClaim", "PodDisruptionBudget", "PriorityClass", "CSINode"),
        *("PodMigrationJob", "Reservation", "NodeMetric"),
    ),
    "phases, and classes of quality of service": (
        *("Pending", "Running", "Succeeded", "Failed", "Bound", "Lost", "Available", "Released"),
        *("BestEffort", "Burstable", "Guaranteed"),
    ),
    "conditions of pods and Jobs": (
        *("Ready", "ContainersReady", "Initialized", "PodScheduled", "DisruptionTarget"),
        *("PodReadyToStartContainers", "PodResizePending", "PodResizeInProgress"),
        *("Complete", "Suspended", "FailureTarget", "SuccessCriteriaMet", "Scheduled", "Expired"),
    ),
    "reasons that Kubernetes gives": (
        *("CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull"),
        *("InvalidImageName", "ImageInspectError", "RegistryUnavailable"),
        *("CreateContainerConfigError", "CreateContainerError", "RunContainerError"),
        *("PodInitializing", "ContainerCreating", "Completed", "Error", "OOMKilled"),
        *("ContainerCannotRun", "DeadlineExceeded", "StartError", "ContainerStatusUnknown"),
        *("Evicted", "Terminated", "Preempting", "PreemptionByScheduler", "NodeAffinity"),
        *("NodeLost", "NodeShutdown", "Shutdown", "UnexpectedAdmissionError", "OutOfcpu"),
        *("OutOfmemory", "OutOfpods", "OutOfephemeral-storage", "Unschedulable"),
        *("SchedulingGated", "SchedulerError", "TerminationByKubelet", "EvictionByEvictionAPI"),
        *("DeletionByTaintManager", "DeletionByPodGC", "ContainersNotReady", "PodCompleted"),
        *("ContainersNotInitialized", "PodFailed", "Infeasible", "Deferred"),
        "ReadinessGatesNotReady",
    ),
    "steps, conditions and ends of migration jobs, and what they wait for": (
        *("ReservationCreated", "ReservationScheduled", "ReservationBound"),
        *("PodBoundReservation", "BoundPodReady", "PassedArbitration", "Evicting"),
        *("EvictComplete", "WaitForPodBindReservation", "WaitForBoundPodReady", "Aborted"),
        *(
            "AbortedByPerson",
            "FindingEnded",
            "Timeout",
            "InvalidPodRef",
            "UnsupportedMode",
            "MissingPod",
        ),
        *("UnsupportedDeleteOptions", "ForbiddenMigratePod", "FailedCreateReservation"),
        *("MissingReservation", "ReservationExpired"),
        *REASON_CODES,
    ),
    "koordinator's classes, and the evictors by name": (
        *("koord-prod", "koord-mid", "koord-batch", "koord-free"),
        *("LSE", "LSR", "LS", "BE", "SYSTEM", "Eviction", "Delete", "SoftEviction"),
    ),
    "operating systems and architectures": ("linux", "windows", "amd64", "arm64"),
    "addresses that mean any address": ("0.0.0.0", "::"),  # noqa: S104 -- as pods write them
    "the sources of measured use": ("KubernetesMetrics", "Prometheus", "NodeMetric"),
    "this program": (reservations.CREATOR,),
}

KEPT_WORDS: Final = frozenset(word for words in _WORDS_BY_REASON.values() for word in words)
"""Texts that stay wherever they stand."""

KEPT_KEYS: Final = frozenset(
    {
        # the resources of Kubernetes itself
        *("cpu", "memory", "pods", "storage", "ephemeral-storage"),
        # topology and what the kubelet says of a node
        objects.ZONE_LABEL,
        objects.HOSTNAME_LABEL,
        *volumes.VOLUME_TOPOLOGY_LABELS,
        *("kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/os"),
        *("beta.kubernetes.io/arch", "beta.kubernetes.io/instance-type"),
        *("node.kubernetes.io/instance-type", "node.kubernetes.io/windows-build"),
        "kubernetes.io/metadata.name",
        "metadata.name",
        # roles of nodes that distributions of Kubernetes set
        *(
            f"node-role.kubernetes.io/{role}"
            for role in ("control-plane", "master", "worker", "etcd", "infra", "ingress")
        ),
        "node.kubernetes.io/exclude-from-external-load-balancers",
        EXCLUDE_DISRUPTION_LABEL,
        # by which controllers label their pods
        *objects.TEMPLATE_HASH_LABELS,
        *("pod-template-generation", "statefulset.kubernetes.io/pod-name", "job-name"),
        *("apps.kubernetes.io/pod-index", "controller-uid", "batch.kubernetes.io/job-name"),
        *("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-completion-index"),
        # by which rules of this program go
        koordinator.PRIORITY_CLASS_LABEL,
        koordinator.QOS_CLASS_LABEL,
        eviction_options.POLICY_LABEL,
        reservations.ORDER_LABEL,
        reservations.CREATED_BY,
        migration_jobs.PLACEHOLDER_OF,
        migration_jobs.PLACEHOLDER_FOR,
        migration_jobs.PLACEHOLDER_FOR_KIND,
        *gangs.GANG_KEYS,
        *(key for system in gangs.GANG_SYSTEMS for key in system.within),
        # taints that programs set, by which the settings of reactive mode go
        *(key for group in NODE_MARK_GROUPS for key in group.marks if "*" not in key),
        # labels that charts and people commonly set
        *(
            f"app.kubernetes.io/{part}"
            for part in ("name", "instance", "component", "part-of", "version", "managed-by")
        ),
    }
)
"""Keys of labels, taints and resources that stay."""

_RESOURCE_FORMS: Final = ("hugepages-*", "attachable-volumes-*")
_KUBERNETES_FORMS: Final = (
    *("node-role.kubernetes.io/*", "*.node-restriction.kubernetes.io/*"),
    *("kubernetes.io/*", "*.kubernetes.io/*", "*.k8s.io/*"),
)

KEPT_KEY_FORMS: Final = (
    *(key for group in NODE_MARK_GROUPS for key in group.marks if "*" in key),
    *STATE_LABELS,
    *SYSTEM_LABELS,
    *_RESOURCE_FORMS,
    *_KUBERNETES_FORMS,
)
"""Forms of keys, of which the first that fits counts.

Of the taints that programs set those letters stay by which the settings of reactive mode find them,
of the labels that programs set those by which they are waited for.
"""

_PARTS: Final = tuple(
    tuple(part for part in re.split(r"(\*)", form) if part) for form in KEPT_KEY_FORMS
)
_FORMS: Final = tuple(
    re.compile(
        "".join("(.*)" if part == "*" else f"({re.escape(part)})" for part in parts), re.IGNORECASE
    )
    for parts in _PARTS
)
_WHOLE: Final = frozenset(_RESOURCE_FORMS)
"""Forms of which all stays: what stands for the star is a size or a driver of Kubernetes."""


@lru_cache(maxsize=4096)  # a cluster has few keys, and each object has them again
def split_by_form(key: str) -> tuple[tuple[str, bool], ...]:
    """Return the parts of a key that has one of the forms, and whether each stands for a star."""
    for pattern, parts, form in zip(_FORMS, _PARTS, KEPT_KEY_FORMS, strict=True):
        if (match := pattern.fullmatch(key)) is not None:
            if form in _WHOLE:
                return ((key, False),)
            return tuple(zip(match.groups(), [part == "*" for part in parts], strict=True))
    return ()
