"""The members we read of pods; see `kube.wire` for what they have in common with the others."""

from typing import Final

from msgspec import Raw, field

from reactive_desched.kube.decode.wire import (
    EMPTY_LIST,
    EMPTY_OBJECT,
    NULL,
    NonEmptyStr,
    Presence,
    Timestamp,
    WireStruct,
)


class PodAnnotations(WireStruct, frozen=True, gc=False):
    """The annotations that matter; those of networks and checksums never leave the parser."""

    evict: str | None = field(name="descheduler.alpha.kubernetes.io/evict", default=None)
    prefer_no_eviction: str | None = field(
        name="descheduler.alpha.kubernetes.io/prefer-no-eviction", default=None
    )
    mirror: str | None = field(name="kubernetes.io/config.mirror", default=None)
    config_source: str | None = field(name="kubernetes.io/config.source", default=None)


NO_ANNOTATIONS: Final = PodAnnotations()


class PodMetadata(WireStruct, frozen=True, gc=False):
    """A pod's metadata."""

    name: NonEmptyStr
    uid: NonEmptyStr
    namespace: str = ""
    resource_version: str = ""
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None
    labels: Raw = EMPTY_OBJECT
    annotations: PodAnnotations = NO_ANNOTATIONS
    owner_references: Raw = EMPTY_LIST


class Container(WireStruct, frozen=True, gc=False):
    """A container of a pod's spec; its restart policy sets a sidecar apart."""

    name: str = ""
    resources: Raw = EMPTY_OBJECT
    ports: Raw = EMPTY_LIST
    restart_policy: str = ""


class WireResources(WireStruct, frozen=True, gc=False):
    """What a container or pod asks for; quantities stay text, a bare number is one too."""

    requests: dict[str, Raw] = field(default_factory=dict)
    limits: dict[str, Raw] = field(default_factory=dict)


class ContainerPort(WireStruct, frozen=True, gc=False):
    """A port a container listens on; it concerns the node only with a host port."""

    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = field(name="hostIP", default="")


class PvcVolumeSource(WireStruct, frozen=True, gc=False):
    """The claim behind a volume."""

    claim_name: str = ""


class Volume(WireStruct, frozen=True, gc=False):
    """What backs a volume, where it bears on moving the pod."""

    empty_dir: Presence | None = None
    host_path: Presence | None = None
    persistent_volume_claim: PvcVolumeSource | None = None


class RequiredTerms(WireStruct, frozen=True, gc=False):
    """The part of a pod's affinity or anti-affinity to others that must hold."""

    required: Raw = field(name="requiredDuringSchedulingIgnoredDuringExecution", default=EMPTY_LIST)


NO_REQUIRED_TERMS: Final = RequiredTerms()


class Affinity(WireStruct, frozen=True, gc=False):
    """The kinds of affinity, each shared on its own."""

    node_affinity: Raw = NULL
    pod_affinity: RequiredTerms = NO_REQUIRED_TERMS
    pod_anti_affinity: RequiredTerms = NO_REQUIRED_TERMS


class WirePodSpec(WireStruct, frozen=True, gc=False):
    """A pod's spec, taken apart."""

    node_name: str = ""
    priority: Raw = NULL
    node_selector: Raw = EMPTY_OBJECT
    tolerations: Raw = EMPTY_LIST
    affinity: Raw = EMPTY_OBJECT
    topology_spread_constraints: Raw = EMPTY_LIST
    overhead: Raw = EMPTY_OBJECT
    resources: Raw = EMPTY_OBJECT
    resource_claims: tuple[Presence, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()


class Waiting(WireStruct, frozen=True, gc=False):
    """Why a container waits."""

    reason: str = ""


class Terminated(WireStruct, frozen=True, gc=False):
    """Why a container ended, and with what exit code."""

    reason: str = ""
    exit_code: int = 0


class ContainerState(WireStruct, frozen=True, gc=False):
    """What a container is doing; neither means that it runs."""

    waiting: Waiting | None = None
    terminated: Terminated | None = None


RUNNING: Final = ContainerState()


class WireContainerStatus(WireStruct, frozen=True, gc=False):
    """One container's status."""

    name: str = ""
    restart_count: int = 0
    state: ContainerState = RUNNING
    resources: Raw = EMPTY_OBJECT
    allocated_resources: Raw = EMPTY_OBJECT


class WirePodCondition(WireStruct, frozen=True, gc=False):
    """One of a pod's conditions."""

    type: str
    status: str
    reason: str = ""
    last_transition_time: Timestamp | None = None


class WirePodStatus(WireStruct, frozen=True, gc=False):
    """A pod's status."""

    phase: str = ""
    reason: str = ""
    qos_class: str = ""
    start_time: Timestamp | None = None
    conditions: tuple[WirePodCondition, ...] = ()
    container_statuses: tuple[WireContainerStatus, ...] = ()
    init_container_statuses: tuple[WireContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[WireContainerStatus, ...] = ()


class WirePod(WireStruct, frozen=True, gc=False):
    """A pod."""

    metadata: PodMetadata
    spec: WirePodSpec = WirePodSpec()
    status: WirePodStatus = WirePodStatus()
