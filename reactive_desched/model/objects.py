"""What we keep of the cluster's objects: frozen records, shared parts by reference.

Thousands of pods come from a few templates, so `labels`, `spec`, `status` and `owners` are
usually the same object for all of them: compare shared parts with `is` first.
Times are whole seconds since the epoch (UTC).
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from reactive_desched.model.labels import Labels, LabelSelector
from reactive_desched.model.node_affinity import NodeAffinity
from reactive_desched.model.taints import Taint, Tolerations

PodKey = str
"""A pod's uid: names come back, uids never do."""

SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
_TERMINAL: Final = frozenset({SUCCEEDED, FAILED})
SYSTEM_CRITICAL_PRIORITY: Final = 2_000_000_000

ZONE_LABEL: Final = "topology.kubernetes.io/zone"
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"


class OwnerReference(Struct, frozen=True, gc=False, rename="camel"):
    """Who made an object; `controller` marks the one that would make it again."""

    kind: str
    name: str
    uid: str
    controller: bool = False

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


class PodAntiAffinityTerm(Struct, frozen=True, gc=False, rename="camel"):
    """Pods that this pod must not share a topology domain with."""

    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


class Annotations(Struct, frozen=True, gc=False):
    """The pod annotations that carry meaning for a descheduler; None is absent."""

    evict: str | None = None
    prefer_no_eviction: str | None = None
    mirror: str | None = None
    config_source: str | None = None


class PodSpec(Struct, frozen=True, gc=False):
    """The part of a pod that its template fixes."""

    tolerations: Tolerations = ()
    node_selector: Labels = {}
    node_affinity: NodeAffinity | None = None
    anti_affinity: tuple[PodAntiAffinityTerm, ...] = ()
    requests: Mapping[str, int] = {}
    priority: int | None = None
    has_local_storage: bool = False
    has_resource_claims: bool = False


class PodCondition(Struct, frozen=True, gc=False):
    """One of a pod's conditions, without its times."""

    type: str
    status: str
    reason: str = ""


class ContainerStatus(Struct, frozen=True, gc=False):
    """What a container is doing: restarts so far and why it waits or ended."""

    name: str
    restarts: int = 0
    waiting: str = ""
    terminated: str = ""


class PodStatus(Struct, frozen=True, gc=False):
    """How a pod fares, without times, so that healthy siblings share one."""

    phase: str = ""
    reason: str = ""
    qos_class: str = ""
    conditions: tuple[PodCondition, ...] = ()
    containers: tuple[ContainerStatus, ...] = ()
    init_containers: tuple[ContainerStatus, ...] = ()

    @property
    def is_ready(self) -> bool:
        """Say whether the Ready condition is True."""
        return any(c.type == "Ready" and c.status == "True" for c in self.conditions)


_NO_ANNOTATIONS: Final = Annotations()
_NO_SPEC: Final = PodSpec()
_NO_STATUS: Final = PodStatus()


class Pod(Struct, frozen=True, gc=False):
    """One pod; `node` is empty while it is unscheduled."""

    namespace: str
    name: str
    uid: PodKey
    resource_version: int = 0
    node: str = ""
    labels: Labels = {}
    annotations: Annotations = _NO_ANNOTATIONS
    owners: tuple[OwnerReference, ...] = ()
    spec: PodSpec = _NO_SPEC
    status: PodStatus = _NO_STATUS
    claims: tuple[str, ...] = ()
    created_s: int = 0
    started_s: int | None = None
    deletion_s: int | None = None

    @property
    def key(self) -> PodKey:
        """The uid."""
        return self.uid

    @property
    def is_active(self) -> bool:
        """Say whether the pod sits on a node and has not ended; terminating pods still do."""
        return bool(self.node) and self.status.phase not in _TERMINAL

    @property
    def is_terminating(self) -> bool:
        """Say whether its deletion has begun."""
        return self.deletion_s is not None

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Node(Struct, frozen=True, gc=False):
    """One node; `allocatable` is cpu in milli-cores and everything else in whole units."""

    name: str
    uid: str = ""
    resource_version: int = 0
    labels: Labels = {}
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    allocatable: Mapping[str, int] = {}
    ready: str | None = None

    @property
    def key(self) -> str:
        """The name."""
        return self.name

    @property
    def is_ready(self) -> bool:
        """Say whether no Ready condition says otherwise (upstream: absent counts as ready)."""
        return self.ready in (None, "True")

    @property
    def zone(self) -> str:
        """The zone label, or the empty text."""
        return self.labels.get(ZONE_LABEL, "")


class Namespace(Struct, frozen=True, gc=False):
    """One namespace."""

    name: str
    uid: str = ""
    resource_version: int = 0
    labels: Labels = {}

    @property
    def key(self) -> str:
        """The name."""
        return self.name


class PriorityClass(Struct, frozen=True, gc=False):
    """A named priority."""

    name: str
    uid: str = ""
    resource_version: int = 0
    value: int = 0

    @property
    def key(self) -> str:
        """The name."""
        return self.name


class PodDisruptionBudget(Struct, frozen=True, gc=False):
    """How many of the selected pods may be disrupted now; an absent selector selects none."""

    namespace: str
    name: str
    uid: str = ""
    resource_version: int = 0
    selector: LabelSelector | None = None
    disruptions_allowed: int = 0

    @property
    def key(self) -> str:
        """The namespace and name."""
        return f"{self.namespace}/{self.name}"

    def covers(self, pod: Pod) -> bool:
        """Say whether the pod counts under this budget."""
        return (
            self.selector is not None
            and pod.namespace == self.namespace
            and self.selector.matches(pod.labels)
        )


class PersistentVolumeClaim(Struct, frozen=True, gc=False):
    """A claim and the class of storage it asks for."""

    namespace: str
    name: str
    uid: str = ""
    resource_version: int = 0
    storage_class: str = ""

    @property
    def key(self) -> str:
        """The namespace and name."""
        return f"{self.namespace}/{self.name}"


ClusterObject = Pod | Node | Namespace | PriorityClass | PodDisruptionBudget | PersistentVolumeClaim
