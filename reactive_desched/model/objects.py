"""The objects of the cluster as frozen records, which share equal parts.

Thousands of pods come from a few templates, so `labels`, `spec`, `status` and `owners` are
usually the same object for all of them: compare shared parts with `is` first.
Times are whole seconds since the epoch (UTC).
"""

from collections.abc import Iterable, Mapping
from itertools import chain, repeat
from typing import Final, Protocol

from msgspec import Struct

from reactive_desched.model.job_tries import JobTries
from reactive_desched.model.labels import Labels, LabelSelector
from reactive_desched.model.node_affinity import NodeAffinity, NodeSelector
from reactive_desched.model.node_conditions import Condition
from reactive_desched.model.resources import ResourceList, with_more
from reactive_desched.model.taints import Taint, Tolerations
from reactive_desched.text.workloads import workload_name

PodKey = str
"""A pod's uid: names come back, uids never do."""

SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
TERMINAL_PHASES: Final = frozenset({SUCCEEDED, FAILED})
DISRUPTION_TARGET: Final = "DisruptionTarget"
"""The condition of a pod that is ended by something else than itself; its reason says by what."""
SYSTEM_CRITICAL_PRIORITY: Final = 2_000_000_000
BEST_EFFORT: Final = "BestEffort"
BURSTABLE: Final = "Burstable"
GUARANTEED: Final = "Guaranteed"

CRASH_LOOP: Final = "CrashLoopBackOff"
"""What a container waits for that ended, and is restarted after a while."""
SEVERAL_RESTARTS: Final = 3
MANY_RESTARTS: Final = 6
"""After so many restarts in a row the kubelet waits for five minutes before the next."""

TEMPLATE_HASH_LABELS: Final = ("pod-template-hash", "controller-revision-hash")
"""How the controllers of Deployments, and of StatefulSets and DaemonSets, label their pods."""
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"

_READY_STATUS_BEHIND: Final = {
    "node.kubernetes.io/not-ready": "False",
    "node.kubernetes.io/unreachable": "Unknown",
}
"""The taints that only repeat the Ready condition, and the status that each one repeats."""


class ClusterObject(Protocol):
    """An object of any watched kind."""

    @property
    def key(self) -> str:
        """The uid of a pod; the name, or namespace and name, of an object of another kind."""
        ...

    @property
    def uid(self) -> str:
        """The uid."""
        ...

    @property
    def resource_version(self) -> int:
        """The version, or 0 where the server's is no number."""
        ...


class NoApiObject(Struct, frozen=True, gc=False):
    """A value that is stored beside the objects of the API server; the last one is in force."""

    @property
    def uid(self) -> str:
        """Empty: only objects of the API server have one."""
        return ""

    @property
    def resource_version(self) -> int:
        """Zero, as of every other one of its key."""
        return 0


class OwnerReference(Struct, frozen=True, gc=False, rename="camel"):
    """An owner of an object; `controller` marks the one that would create it again."""

    kind: str
    name: str
    uid: str
    controller: bool = False
    api_version: str = ""

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def is_batch_job(self) -> bool:
        """Say whether it is a Job of Kubernetes itself; others have kinds of that name as well."""
        return self.kind == "Job" and self.group in ("", "batch")

    @property
    def is_deployment(self) -> bool:
        """Say whether it is a Deployment of Kubernetes itself, as above."""
        return self.kind == "Deployment" and self.is_of_apps

    @property
    def is_of_apps(self) -> bool:
        """Say whether its API group is `apps`, which others' kinds of the same name are not of."""
        return self.group in ("", "apps")

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"

    def named(self, namespace: str) -> str:
        """Its name for people, in the namespace of its pods."""
        return workload_name(self.kind, namespace, self.name)


def controller_of(owners: Iterable[OwnerReference]) -> OwnerReference | None:
    """Return the one of an object's owners that controls it, or None."""
    for owner in owners:
        if owner.controller:
            return owner
    return None


class PodAffinityTerm(Struct, frozen=True, gc=False, rename="camel"):
    """Pods that this pod must, or must not, share a topology domain with.

    Without a label selector a term matches no pod, with an empty one every pod. What a term says
    by its label keys, `model.affinity_terms` adds to the selector.
    """

    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Struct, frozen=True, gc=False, rename="camel"):
    """Pods that this pod would rather, or rather not, share a topology domain with: 1 to 100."""

    weight: int
    pod_affinity_term: PodAffinityTerm


class TopologySpreadConstraint(Struct, frozen=True, gc=False, rename="camel"):
    """A bound on how unevenly matching pods are spread over the domains of a topology."""

    max_skew: int
    topology_key: str
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"


class HostPort(Struct, frozen=True, gc=False):
    """A port of the node itself that a container listens on."""

    port: int
    protocol: str = "TCP"
    ip: str = "0.0.0.0"  # noqa: S104 -- any address, as the API means it


class Annotations(Struct, frozen=True, gc=False):
    """The pod annotations that carry meaning for a descheduler; None is absent.

    `job_index_failures` says how often pods of an index of a Job failed before this one, and
    `groups` has the annotations by which schedulers know groups of pods: keys and values. `answer`
    is one to proposals (`model/approvals.py`), here as on other objects.
    """

    evict: str | None = None
    prefer_no_eviction: str | None = None
    mirror: str | None = None
    config_source: str | None = None
    deletion_cost: str | None = None
    eviction_cost: str | None = None
    do_not_evict: str | None = None
    safe_to_evict: str | None = None
    do_not_disrupt: str | None = None
    request_evict_only: str | None = None
    eviction_in_progress: str | None = None
    job_index_failures: int = 0
    groups: tuple[tuple[str, str], ...] = ()
    answer: str | None = None

    @property
    def static_source(self) -> str | None:
        """The source from which the kubelet has a static pod; None for one of the API server."""
        return None if self.config_source == "api" else self.config_source


DEFAULT_SCHEDULER: Final = "default-scheduler"
RESTARTS_ALWAYS: Final = "Always"
"""The restart policy of pods that run without end; those of any other run to an end."""


class PodSpec(Struct, frozen=True, gc=False):
    """The part of a pod that its template fixes.

    `pod_affinity` and `anti_affinity` are required, the terms that are preferred stand apart.
    `qos_class` is computed from the containers; the status may say otherwise. `implicit_requests`
    names the resources in `requests` that no container asks for: those of the pod's overhead and of
    requests at pod level. `scored_requests` are cpu and memory as NodeResourcesFit scores nodes by
    them, with a default for each container that requests none; None where they are `requests`.
    `images` are those of the app containers, sorted, one for each container; `init_images` are
    those of the init containers, `volume_images` those that are mounted as volumes.
    `scheduling_group` names the group with which the kube-scheduler places the pod; it is empty for
    a pod on its own. `required_features` are those that its node has to declare. `never_preempts`
    says that its `preemptionPolicy` is Never. `unread` names the parts of the pod that were too
    long to be read, such as its tolerations: it is held for them. `resource_claims` are its claims
    by their names in the pod, each with the ResourceClaim's name, which is empty where that is made
    from a template. `device_requests` are the extended resources as its containers request them,
    each by its own; none where `requests` say the same.
    """

    tolerations: Tolerations = ()
    node_selector: Labels = {}
    node_affinity: NodeAffinity | None = None
    pod_affinity: tuple[PodAffinityTerm, ...] = ()
    anti_affinity: tuple[PodAffinityTerm, ...] = ()
    preferred_pod_affinity: tuple[WeightedPodAffinityTerm, ...] = ()
    preferred_anti_affinity: tuple[WeightedPodAffinityTerm, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    requests: Mapping[str, int] = {}
    implicit_requests: tuple[str, ...] = ()
    scored_requests: Mapping[str, int] | None = None
    qos_class: str = BEST_EFFORT
    priority: int | None = None
    has_local_storage: bool = False
    has_resource_claims: bool = False
    images: tuple[str, ...] = ()
    scheduler_name: str = DEFAULT_SCHEDULER
    restart_policy: str = RESTARTS_ALWAYS
    scheduling_group: str = ""
    required_features: tuple[str, ...] = ()
    never_preempts: bool = False
    unread: str = ""
    resource_claims: tuple[tuple[str, str], ...] = ()
    device_requests: tuple[tuple[str, int], ...] = ()
    init_images: tuple[str, ...] = ()
    volume_images: tuple[str, ...] = ()

    @property
    def requests_by_score(self) -> ResourceList:
        """The requests by which NodeResourcesFit scores nodes: cpu and memory with defaults."""
        return self.requests if self.scored_requests is None else self.scored_requests

    def is_requested_by_container(self, resource: str) -> bool:
        """Say whether a container requests the resource, be it none of it."""
        return resource in self.requests and resource not in self.implicit_requests


class PodCondition(Struct, frozen=True, gc=False):
    """One of a pod's conditions, without its times."""

    type: str
    status: str
    reason: str = ""


class ContainerStatus(Struct, frozen=True, gc=False):
    """The state of a container: its restarts, and why it waits or ended.

    `exit_code` is None unless it has ended; only the current state counts, never the last one.
    """

    name: str
    restart_count: int = 0
    waiting_reason: str = ""
    terminated_reason: str = ""
    exit_code: int | None = None


class PodStatus(Struct, frozen=True, gc=False):
    """A pod's status without times, so that healthy pods of one workload share a record.

    `nominated_node` is where the kube-scheduler makes room for a pod that waits; empty once bound.
    `has_extended_claim` says that it made a ResourceClaim for the pod's extended resources.
    """

    phase: str = ""
    reason: str = ""
    qos_class: str = ""
    conditions: tuple[PodCondition, ...] = ()
    containers: tuple[ContainerStatus, ...] = ()
    init_containers: tuple[ContainerStatus, ...] = ()
    ephemeral_containers: tuple[ContainerStatus, ...] = ()
    nominated_node: str = ""
    has_extended_claim: bool = False

    @property
    def is_crash_looping(self) -> bool:
        """Say whether a container waits for one more restart after many in vain."""
        return any(
            each.waiting_reason == CRASH_LOOP and each.restart_count >= MANY_RESTARTS
            for each in (*self.containers, *self.init_containers)
        )

    @property
    def is_unsteady(self) -> bool:
        """Say whether a container was restarted several times."""
        for container in self.containers:  # noqa: SIM110 -- on the way of each watch event
            if container.restart_count >= SEVERAL_RESTARTS:
                return True
        return False

    def app_containers(self, *, include_init: bool) -> tuple[ContainerStatus, ...]:
        """Return the app containers, and the init containers if asked for; no ephemeral ones."""
        return self.containers + self.init_containers if include_init else self.containers

    @property
    def is_ready(self) -> bool:
        """Say whether the Ready condition is True."""
        for condition in self.conditions:
            if condition.type == "Ready":
                return condition.status == "True"
        return False


_NO_ANNOTATIONS: Final = Annotations()
_NO_SPEC: Final = PodSpec()
_NO_STATUS: Final = PodStatus()


class Pod(Struct, frozen=True, gc=False):
    """One pod; `node` is empty while it is unscheduled.

    `start_delay_s` says when the kubelet took the pod on, and `condition_transitions`, for each of
    the status's conditions, when it last changed: in seconds after `created_s`, as small numbers
    take no memory, or None. `resize_delta` is what an in-place resize under way makes
    the pod hold beyond the requests of its spec (or below them, where that is infeasible).
    `generation` is metadata.generation where an equal one says that spec and resize are the same:
    0 on a cluster that does not count it, before the kubelet reports containers, and in a resize.
    `made_claims` are the ResourceClaims that were made for it from templates, by their names in the
    pod; one that it turned out not to need has no name.
    """

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
    pvc_names: tuple[str, ...] = ()
    created_s: int = 0
    start_delay_s: int | None = None
    deletion_s: int | None = None
    condition_transitions: tuple[int | None, ...] = ()
    resize_delta: Mapping[str, int] = {}
    generation: int = 0
    made_claims: tuple[tuple[str, str], ...] = ()

    @property
    def key(self) -> PodKey:
        """The uid."""
        return self.uid

    @property
    def held(self) -> ResourceList:
        """Return what the pod holds of its node by the kube-scheduler's count, in a resize too."""
        return with_more(self.spec.requests, self.resize_delta)

    @property
    def is_active(self) -> bool:
        """Say whether the pod sits on a node and has not ended; terminating pods still do."""
        return bool(self.node) and self.status.phase not in TERMINAL_PHASES

    @property
    def is_pending(self) -> bool:
        """Say whether the pod waits for a node."""
        return not self.node and self.status.phase not in TERMINAL_PHASES

    @property
    def has_ended(self) -> bool:
        """Say whether its containers have ended for good."""
        return self.status.phase in TERMINAL_PHASES

    @property
    def is_terminating(self) -> bool:
        """Say whether its deletion has begun."""
        return self.deletion_s is not None

    @property
    def started_s(self) -> int | None:
        """Return when the kubelet took the pod on; None where its status does not say."""
        return None if self.start_delay_s is None else self.created_s + self.start_delay_s

    @property
    def came_s(self) -> int:
        """Return when the pod came to its node: its creation where its status does not say."""
        return self.created_s + (self.start_delay_s or 0)

    @property
    def ready_since_s(self) -> int | None:
        """Return when the pod became Ready; None while it is not, or if its status does not say."""
        for condition, changed in zip(
            self.status.conditions, self.condition_transitions, strict=False
        ):
            if condition.type == "Ready" and condition.status == "True":
                return None if changed is None else self.created_s + changed
        return None

    @property
    def readiness_changed_s(self) -> int:
        """Return when the pod became Ready or ceased to be; its creation without such a time."""
        for condition, changed in zip(
            self.status.conditions, self.condition_transitions, strict=False
        ):
            if condition.type == "Ready" and changed is not None:
                return self.created_s + changed
        return self.created_s

    @property
    def unready_since_s(self) -> int | None:
        """Return since when the pod is not Ready, or its creation without a status; else None.

        A pod whose container is restarted again and again is Ready for moments in between: it is
        not Ready since its creation, too, once it has failed so often that each restart waits for
        minutes.
        """
        status = self.status
        for condition, changed in zip(
            status.conditions, chain(self.condition_transitions, repeat(None)), strict=False
        ):
            if condition.type == "Ready":
                if condition.status == "True":
                    return None
                if changed is not None and not status.is_crash_looping:
                    return self.created_s + changed
                break
        return self.created_s

    @property
    def qos_class(self) -> str:
        """The quality of service class: what the status says, else computed from the spec."""
        return self.status.qos_class or self.spec.qos_class

    @property
    def has_resource_claims(self) -> bool:
        """Say whether devices are claimed for the pod, by itself or for its extended resources."""
        return self.spec.has_resource_claims or self.status.has_extended_claim

    @property
    def template_hash(self) -> str:
        """The hash of the pod template of the pod's controller; empty where none is labelled."""
        for label in TEMPLATE_HASH_LABELS:
            if text := self.labels.get(label):
                return text
        return ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class NodeImage(Struct, frozen=True, gc=False):
    """An image that a node has: its names, by tag and by digest, and its size."""

    names: tuple[str, ...]
    size_bytes: int = 0


class Node(Struct, frozen=True, gc=False):
    """One node; `allocatable` is cpu in milli-cores and everything else in whole units.

    `load_capacity` is what measured use is a share of where koordinator's annotations say so, None
    where it is `allocatable`. `do_not_disrupt` is Karpenter's annotation, `scale_down_disabled`
    cluster-autoscaler's, and `do_not_evict` ours. `taints_added_s` has for each taint its
    `timeAdded` or None; it is empty where no taint has one. `ready_since_s` is when the Ready
    condition last changed. `created_s` is None where that is not known. `drain` is what our
    annotation says of who wants the node emptied, and `drained` when it was. `conditions` are those
    other than Ready by their types, and `conditions_changed_s` has for each its
    `lastTransitionTime` or None. `images` are those that the kubelet reports, the largest ones.
    """

    name: str
    uid: str = ""
    resource_version: int = 0
    labels: Labels = {}
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    allocatable: Mapping[str, int] = {}
    ready_status: str | None = None
    load_capacity: Mapping[str, int] | None = None
    do_not_disrupt: str | None = None
    is_terminating: bool = False
    do_not_evict: str | None = None
    taints_added_s: tuple[int | None, ...] = ()
    ready_since_s: int | None = None
    created_s: int | None = None
    declared_features: tuple[str, ...] = ()
    drain: str | None = None
    drained: str | None = None
    conditions: tuple[Condition, ...] = ()
    conditions_changed_s: tuple[int | None, ...] = ()
    scale_down_disabled: str | None = None
    images: tuple[NodeImage, ...] = ()

    @property
    def key(self) -> str:
        """The name."""
        return self.name

    @property
    def is_ready(self) -> bool:
        """Say whether no Ready condition says otherwise (upstream: absent counts as ready)."""
        return self.ready_status in (None, "True")

    @property
    def confirmed_taints(self) -> tuple[Taint, ...]:
        """The taints, but for a `not-ready` or `unreachable` that the Ready condition contradicts.

        A node that comes back is Ready before the node lifecycle controller removes these two.
        """
        return tuple(
            taint
            for taint in self.taints
            if _READY_STATUS_BEHIND.get(taint.key, self.ready_status) == self.ready_status
        )

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
    do_not_evict: str | None = None
    is_terminating: bool = False
    answer: str | None = None

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
    """The disruptions that a budget allows now; one without a selector selects no pod.

    Four of them are what the eviction endpoint reads: see `model.disruption.BudgetState`. With
    `never_allows` it allows no disruption, also while all of its pods are healthy.
    """

    namespace: str
    name: str
    uid: str = ""
    resource_version: int = 0
    selector: LabelSelector | None = None
    disruptions_allowed: int = 0
    is_processed: bool = True
    unready_may_go: bool = False
    is_backlogged: bool = False
    never_allows: bool = False

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
    """A claim, its storage class, and the volume it is bound to.

    A `read_write_once_pod` claim serves a single pod in the whole cluster.
    """

    namespace: str
    name: str
    uid: str = ""
    resource_version: int = 0
    storage_class: str = ""
    volume_name: str = ""
    phase: str = ""
    read_write_once_pod: bool = False
    deletion_s: int | None = None

    @property
    def key(self) -> str:
        """The namespace and name."""
        return f"{self.namespace}/{self.name}"


class PersistentVolume(Struct, frozen=True, gc=False):
    """A volume: the nodes it can be reached from, and the driver that attaches it there.

    `topology_labels` are its zone and region labels, of either generation; `claim_ref` is the
    namespace and name of the claim it is bound to.
    """

    name: str
    uid: str = ""
    resource_version: int = 0
    required_node_affinity: NodeSelector | None = None
    topology_labels: Labels = {}
    driver: str = ""
    volume_handle: str = ""
    claim_ref: str = ""

    @property
    def key(self) -> str:
        """The name."""
        return self.name


class CSINode(Struct, frozen=True, gc=False):
    """The number of volumes that each storage driver can attach to the node of this name."""

    name: str
    uid: str = ""
    resource_version: int = 0
    attach_limits: Mapping[str, int] = {}

    @property
    def key(self) -> str:
        """The name."""
        return self.name


class IntermediateOwner(Struct, frozen=True, gc=False):
    """An object between pods and a higher controller; little more than the controller is kept.

    `replicas` is None where it is not known how many pods it wants. `is_terminating` says that it
    is being deleted, and stays until its pods are gone.
    """

    uid: str
    resource_version: int = 0
    controller: OwnerReference | None = None
    do_not_evict: str | None = None
    replicas: int | None = None
    answer: str | None = None
    is_terminating: bool = False

    @property
    def key(self) -> str:
        """The uid."""
        return self.uid


class ReplicaSet(IntermediateOwner, frozen=True, gc=False):
    """One ReplicaSet; a Deployment controls it, as a rule."""


class Job(IntermediateOwner, frozen=True, gc=False):
    """One Job; a CronJob may control it. `tries` is None where only its metadata was read."""

    tries: JobTries | None = None


class Workload(Struct, frozen=True, gc=False):
    """A controller of pods that is not controlled itself: how many it wants, and how it changes.

    `rollout` says what of a change is under way, and is empty where nothing is. `is_terminating`
    says that it is being deleted, and stays until its pods are gone.
    """

    namespace: str
    name: str
    uid: str
    resource_version: int = 0
    replicas: int = 1
    rollout: str = ""
    do_not_evict: str | None = None
    answer: str | None = None
    is_terminating: bool = False

    @property
    def key(self) -> str:
        """The uid."""
        return self.uid


class Deployment(Workload, frozen=True, gc=False):
    """One Deployment."""


class StatefulSet(Workload, frozen=True, gc=False):
    """One StatefulSet; one that is not parallel creates its pods one after the other."""

    is_parallel: bool = False


class DaemonSet(Workload, frozen=True, gc=False):
    """One DaemonSet; it wants a pod on each node that it counted when it wrote its status."""
