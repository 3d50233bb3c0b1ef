"""Reads the labels and annotations of pods that run together or not at all, for known systems.

A person, a controller or a scheduler puts pods into a group by one of these. How many of a group
have to run some systems write on the pods, too; others in objects of their own: `model.pod_groups`.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from msgspec import Struct

from reactive_desched.model.objects import Pod

VOLCANO_MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
"""By which a plain pod asks Volcano for a group of at least so many."""

KUEUE_SERVING: Final = "kueue.x-k8s.io/pod-group-serving"
"""By which Kueue marks the groups of replicas that serve: each of them stands for itself."""

_MADE_BY_VOLCANO: Final = "podgroup-"
"""How Volcano names the group that it makes for the plain pods of one owner."""

NATIVE: Final = "Kubernetes"
VOLCANO: Final = "Volcano"
COSCHEDULING: Final = "the coscheduling plugin"
KOORDINATOR: Final = "koordinator, and the coscheduling plugin before"
KAI: Final = "KAI Scheduler"
KUEUE_GROUP: Final = "kueue.x-k8s.io/pod-group-name"
KAI_GROUP: Final = "pod-group-name"
"""KAI puts every pod that it places into a group, those of plain replicas as well."""

_SERVING: Final = frozenset({"ReplicaSet", "StatefulSet", "DaemonSet"})


class Gang(NamedTuple):
    """A group of pods that run together: its namespace, the system that has it, and its name."""

    namespace: str
    system: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def title(self) -> str:
        """Its name for people: Volcano gang shop/train."""
        return f"{self.system} gang {self}"


class GangSystem(Struct, frozen=True):
    """A system whose pods form gangs: its name, the key that names a group, and the source.

    The value of `key`, a label or else an annotation, names a group; the labels of `within` narrow
    it where a pod has them. The value of `quorum`, a label or annotation too, is how many of its
    pods have to run together.
    """

    name: str
    key: str
    source: str
    within: tuple[str, ...] = ()
    quorum: str = ""


GANG_SYSTEMS: Final = (
    GangSystem(
        "LeaderWorkerSet",
        "leaderworkerset.sigs.k8s.io/name",
        "lws: labels of a group, which is made anew as a whole when a pod of it restarts",
        ("leaderworkerset.sigs.k8s.io/group-index",),
        quorum="leaderworkerset.sigs.k8s.io/size",
    ),
    GangSystem(
        "JobSet",
        "jobset.sigs.k8s.io/jobset-name",
        "jobset: the Jobs of a set fail, or are made anew, together",
    ),
    GangSystem(
        VOLCANO,
        "scheduling.volcano.sh/group-name",
        "volcano apis, scheduling/v1beta1: VolcanoGroupNameAnnotationKey",
        quorum=VOLCANO_MIN_MEMBER,
    ),
    GangSystem(
        VOLCANO,
        "scheduling.k8s.io/group-name",
        "volcano apis, scheduling/v1beta1: KubeGroupNameAnnotationKey",
        quorum=VOLCANO_MIN_MEMBER,
    ),
    GangSystem(
        VOLCANO,
        "volcano.sh/job-name",
        "volcano apis, batch/v1alpha1: JobNameKey",
    ),
    GangSystem(
        COSCHEDULING,
        "scheduling.x-k8s.io/pod-group",
        "scheduler-plugins, apis/scheduling/v1alpha1: PodGroupLabel",
    ),
    GangSystem(
        KOORDINATOR,
        "pod-group.scheduling.sigs.k8s.io",
        "koordinator and scheduler-plugins before 0.24: PodGroupLabel",
        quorum="pod-group.scheduling.sigs.k8s.io/min-available",
    ),
    GangSystem(
        "the coscheduling plugin before",
        "pod-group.scheduling.sigs.k8s.io/name",
        "scheduler-plugins before 0.19: PodGroupName, PodGroupMinAvailable",
        quorum="pod-group.scheduling.sigs.k8s.io/min-available",
    ),
    GangSystem(
        "koordinator",
        "gang.scheduling.koordinator.sh/name",
        "koordinator, apis/extension/coscheduling.go: AnnotationGangName, AnnotationGangMinNum",
        quorum="gang.scheduling.koordinator.sh/min-available",
    ),
    GangSystem(
        "Kueue",
        KUEUE_GROUP,
        "kueue, pkg/controller/jobs/pod: GroupNameLabel, GroupTotalCountAnnotation",
        quorum="kueue.x-k8s.io/pod-group-total-count",
    ),
    GangSystem(
        "YuniKorn",
        "yunikorn.apache.org/task-group-name",
        "yunikorn-k8shim, pkg/common/constants: AnnotationTaskGroupName",
        ("yunikorn.apache.org/app-id", "applicationId"),
    ),
    GangSystem(
        "Armada",
        "armadaproject.io/gangId",
        "armada, internal/server/configuration: GangIdAnnotation, GangCardinalityAnnotation",
        quorum="armadaproject.io/gangCardinality",
    ),
    GangSystem(
        "Gödel",
        "godel.bytedance.com/pod-group-name",
        "godel-scheduler, pkg/util/pod: PodGroupNameAnnotationKey",
    ),
    GangSystem(
        KAI,
        KAI_GROUP,
        "KAI-Scheduler, pkg/common/constants: PodGroupAnnotationForPod",
    ),
    GangSystem(
        "Grove",
        "grove.io/podgang",
        "grove, operator/api/common: LabelPodGang",
    ),
    GangSystem(
        "Kubeflow Training",
        "training.kubeflow.org/job-name",
        "training-operator, pkg/apis/kubeflow.org/v1: JobNameLabel",
    ),
    GangSystem(
        "Kubeflow's MPI operator before",
        "mpi_job_name",
        "mpi-operator before v2beta1: labelMPIJobName",
    ),
    GangSystem(
        "Kubeflow's PyTorch operator before",
        "pytorch-job-name",
        "pytorch-operator, and training-operator before 1.3: labelPyTorchJobName",
    ),
    GangSystem(
        "Kubeflow's TensorFlow operator before",
        "tf-job-name",
        "tf-operator, and training-operator before 1.3: labelTFJobName",
    ),
    GangSystem(
        "KubeRay",
        "ray.io/cluster",
        "kuberay, ray-operator/controllers/ray/utils: RayClusterLabelKey",
    ),
)
"""The known systems; of two that a pod has, the first one counts."""

_KEYS: Final = frozenset(system.key for system in GANG_SYSTEMS)

QUORUM_KEYS: Final = frozenset(filter(None, (system.quorum for system in GANG_SYSTEMS)))
"""The keys of labels or annotations whose value is a number of pods."""

GANG_KEYS: Final = _KEYS | QUORUM_KEYS | {KUEUE_SERVING}
"""The keys of labels or annotations that say whether a pod is in a gang, in which, and how large
that is."""

MAX_QUORUM_DIGITS: Final = 6


def gang_of(pod: Pod) -> Gang | None:
    """Return the gang that a pod says it belongs to."""
    if pod.spec.scheduling_group:
        return Gang(pod.namespace, NATIVE, pod.spec.scheduling_group)
    if (found := _system_of(pod)) is None:
        return None
    system, name = found
    parts = (name, *filter(None, map(pod.labels.get, system.within)))
    return Gang(pod.namespace, system.name, "/".join(parts))


def quorum_of(pods: Iterable[Pod]) -> int | None:
    """Return how many pods of a gang have to run together, by what stands on its pods.

    It is the largest number that one of them has; None where none has any.
    """
    return max(filter(None, map(_own_quorum, pods)), default=None)


def _own_quorum(pod: Pod) -> int | None:
    if pod.spec.scheduling_group or (found := _system_of(pod)) is None:
        return None
    key = found[0].quorum
    text = pod.labels.get(key) or dict(pod.annotations.groups).get(key, "")
    if not key or not text.isascii() or not text.isdigit() or len(text) > MAX_QUORUM_DIGITS:
        return None
    return int(text)


def _system_of(pod: Pod) -> tuple[GangSystem, str] | None:
    """Return the system that has a pod in a gang, and the name by which it does."""
    labels, groups = pod.labels, pod.annotations.groups
    if not groups and _KEYS.isdisjoint(labels):
        return None
    annotations = dict(groups)
    for system in GANG_SYSTEMS:
        name = labels.get(system.key) or annotations.get(system.key)
        if name and not _stands_alone(pod, system, name, annotations):
            return system, name
    return None


def _stands_alone(pod: Pod, system: GangSystem, name: str, annotations: Mapping[str, str]) -> bool:
    """Say whether a group is one in name only: each of its pods may come and go."""
    if system.key == KUEUE_GROUP:
        return annotations.get(KUEUE_SERVING) == "true"
    if system.name == VOLCANO and name.startswith(_MADE_BY_VOLCANO):
        return annotations.get(VOLCANO_MIN_MEMBER, "1") in ("0", "1")
    if system.key == KAI_GROUP:
        return any(owner.controller and owner.kind in _SERVING for owner in pod.owners)
    return False
