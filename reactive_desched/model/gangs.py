"""Reads the labels and annotations of pods that run together or not at all, for known systems.

A person, a controller or a scheduler puts pods into a group by one of these. Whether the members
are ready to lose one stands in objects of the system's own, which are not read.
"""

from collections.abc import Mapping
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
    it where a pod has them.
    """

    name: str
    key: str
    source: str
    within: tuple[str, ...] = ()


GANG_SYSTEMS: Final = (
    GangSystem(
        "LeaderWorkerSet",
        "leaderworkerset.sigs.k8s.io/name",
        "lws: labels of a group, which is made anew as a whole when a pod of it restarts",
        ("leaderworkerset.sigs.k8s.io/group-index",),
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
    ),
    GangSystem(
        VOLCANO,
        "scheduling.k8s.io/group-name",
        "volcano apis, scheduling/v1beta1: KubeGroupNameAnnotationKey",
    ),
    GangSystem(
        VOLCANO,
        "volcano.sh/job-name",
        "volcano apis, batch/v1alpha1: JobNameKey",
    ),
    GangSystem(
        "the coscheduling plugin",
        "scheduling.x-k8s.io/pod-group",
        "scheduler-plugins, apis/scheduling/v1alpha1: PodGroupLabel",
    ),
    GangSystem(
        "koordinator, and the coscheduling plugin before",
        "pod-group.scheduling.sigs.k8s.io",
        "koordinator and scheduler-plugins before 0.24: PodGroupLabel",
    ),
    GangSystem(
        "the coscheduling plugin before",
        "pod-group.scheduling.sigs.k8s.io/name",
        "scheduler-plugins before 0.19: PodGroupName",
    ),
    GangSystem(
        "koordinator",
        "gang.scheduling.koordinator.sh/name",
        "koordinator, apis/extension/coscheduling.go: AnnotationGangName",
    ),
    GangSystem(
        "Kueue",
        KUEUE_GROUP,
        "kueue, pkg/controller/jobs/pod: GroupNameLabel",
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
        "armada, internal/server/configuration: GangIdAnnotation",
    ),
    GangSystem(
        "Gödel",
        "godel.bytedance.com/pod-group-name",
        "godel-scheduler, pkg/util/pod: PodGroupNameAnnotationKey",
    ),
    GangSystem(
        "KAI Scheduler",
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

GANG_KEYS: Final = _KEYS | {VOLCANO_MIN_MEMBER, KUEUE_SERVING}
"""The keys of labels or annotations that say whether a pod is in a gang, and in which."""


def gang_of(pod: Pod) -> Gang | None:
    """Return the gang that a pod says it belongs to."""
    labels, groups, group = pod.labels, pod.annotations.groups, pod.spec.scheduling_group
    if group:
        return Gang(pod.namespace, NATIVE, group)
    if not groups and _KEYS.isdisjoint(labels):
        return None
    annotations = dict(groups)
    for system in GANG_SYSTEMS:
        name = labels.get(system.key) or annotations.get(system.key)
        if name and not _stands_alone(pod, system, name, annotations):
            parts = (name, *filter(None, map(labels.get, system.within)))
            return Gang(pod.namespace, system.name, "/".join(parts))
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
