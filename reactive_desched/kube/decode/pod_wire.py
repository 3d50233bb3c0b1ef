"""The members we read of pods; see `kube.wire` for what they have in common with the others."""

from typing import Final

from msgspec import Raw, field

from reactive_desched.kube.decode.wire import (
    NO_LIST,
    NO_OBJECT,
    NOTHING,
    Moment,
    Name,
    Present,
    Wire,
)


class PodAnnotations(Wire, frozen=True, gc=False):
    """The annotations that matter; those of networks and checksums never leave the parser."""

    evict: str | None = field(name="descheduler.alpha.kubernetes.io/evict", default=None)
    prefer_no_eviction: str | None = field(
        name="descheduler.alpha.kubernetes.io/prefer-no-eviction", default=None
    )
    mirror: str | None = field(name="kubernetes.io/config.mirror", default=None)
    config_source: str | None = field(name="kubernetes.io/config.source", default=None)


NO_ANNOTATIONS: Final = PodAnnotations()


class PodMetadata(Wire, frozen=True, gc=False):
    """A pod's metadata."""

    name: Name
    uid: Name
    namespace: str = ""
    resource_version: str = ""
    creation_timestamp: Moment | None = None
    deletion_timestamp: Moment | None = None
    labels: Raw = NO_OBJECT
    annotations: PodAnnotations = NO_ANNOTATIONS
    owner_references: Raw = NO_LIST


class Container(Wire, frozen=True, gc=False):
    """A container of a pod's spec; its restart policy sets a sidecar apart."""

    name: str = ""
    resources: Raw = NO_OBJECT
    ports: Raw = NO_LIST
    restart_policy: str = ""


class Resources(Wire, frozen=True, gc=False):
    """What a container or pod asks for; quantities stay text, a bare number is one too."""

    requests: dict[str, Raw] = field(default_factory=dict)
    limits: dict[str, Raw] = field(default_factory=dict)


class Port(Wire, frozen=True, gc=False):
    """A port a container listens on; it concerns the node only with a host port."""

    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = field(name="hostIP", default="")


class ClaimSource(Wire, frozen=True, gc=False):
    """The claim behind a volume."""

    claim_name: str = ""


class Volume(Wire, frozen=True, gc=False):
    """What backs a volume, where it bears on moving the pod."""

    empty_dir: Present | None = None
    host_path: Present | None = None
    persistent_volume_claim: ClaimSource | None = None


class Demands(Wire, frozen=True, gc=False):
    """The part of a pod's affinity or anti-affinity to others that must hold."""

    required: Raw = field(name="requiredDuringSchedulingIgnoredDuringExecution", default=NO_LIST)


NO_DEMANDS: Final = Demands()


class Affinity(Wire, frozen=True, gc=False):
    """The kinds of affinity, each shared on its own."""

    node_affinity: Raw = NOTHING
    pod_affinity: Demands = NO_DEMANDS
    pod_anti_affinity: Demands = NO_DEMANDS


class PodSpecParts(Wire, frozen=True, gc=False):
    """A pod's spec, taken apart."""

    node_name: str = ""
    priority: Raw = NOTHING
    node_selector: Raw = NO_OBJECT
    tolerations: Raw = NO_LIST
    affinity: Raw = NO_OBJECT
    topology_spread_constraints: Raw = NO_LIST
    overhead: Raw = NO_OBJECT
    resources: Raw = NO_OBJECT
    resource_claims: tuple[Present, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()


class Waiting(Wire, frozen=True, gc=False):
    """Why a container waits."""

    reason: str = ""


class Terminated(Wire, frozen=True, gc=False):
    """Why a container ended, and with what exit code."""

    reason: str = ""
    exit_code: int = 0


class ContainerState(Wire, frozen=True, gc=False):
    """What a container is doing; neither means that it runs."""

    waiting: Waiting | None = None
    terminated: Terminated | None = None


RUNNING: Final = ContainerState()


class WireContainerStatus(Wire, frozen=True, gc=False):
    """One container's status."""

    name: str = ""
    restart_count: int = 0
    state: ContainerState = RUNNING
    resources: Raw = NO_OBJECT
    allocated_resources: Raw = NO_OBJECT


class WireCondition(Wire, frozen=True, gc=False):
    """One of a pod's conditions."""

    type: str
    status: str
    reason: str = ""
    last_transition_time: Moment | None = None


class WirePodStatus(Wire, frozen=True, gc=False):
    """A pod's status."""

    phase: str = ""
    reason: str = ""
    qos_class: str = ""
    start_time: Moment | None = None
    conditions: tuple[WireCondition, ...] = ()
    container_statuses: tuple[WireContainerStatus, ...] = ()
    init_container_statuses: tuple[WireContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[WireContainerStatus, ...] = ()


class WirePod(Wire, frozen=True, gc=False):
    """A pod."""

    metadata: PodMetadata
    spec: PodSpecParts = PodSpecParts()
    status: WirePodStatus = WirePodStatus()
