"""PodGroups and Workloads: how many pods of a gang have to run together, and how they may leave.

Five API groups have such objects. A kind is watched while pods of its gangs are there.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final, TypeVar

from msgspec import Meta

from reactive_desched.model.pod_groups import (
    CoschedulingPodGroup,
    Disruption,
    GroupRule,
    KaiPodGroup,
    KoordinatorPodGroup,
    KubernetesBetaPodGroup,
    KubernetesPodGroup,
    KubernetesWorkload,
    PodGroup,
    VolcanoPodGroup,
)
from reactive_desched.state.kinds.interning import parse_resource_version
from reactive_desched.state.kinds.kind import (
    BoundedName,
    Metadata,
    Presence,
    Purpose,
    WatchedKind,
    WireStruct,
)

__all__ = ["POD_GROUP_KINDS"]

PodCount = Annotated[int, Meta(ge=-(2**31), lt=2**31)]


class GangPolicy(WireStruct, frozen=True, gc=False):
    """The number of pods that the scheduler places together."""

    min_count: PodCount = 0


class SchedulingPolicy(WireStruct, frozen=True, gc=False):
    """A policy of Kubernetes: one of the two is there."""

    basic: Presence | None = None
    gang: GangPolicy | None = None


class DisruptionMode(WireStruct, frozen=True, gc=False):
    """The disruption mode since Kubernetes 1.37: one of the two is there."""

    single: Presence | None = None
    all: Presence | None = None


class KubernetesSpec(WireStruct, frozen=True, gc=False):
    """The spec of a PodGroup of Kubernetes; 1.36 has `Pod` or `PodGroup` for the mode."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    disruption_mode: DisruptionMode | str | None = None


class WireKubernetesPodGroup(WireStruct, frozen=True, gc=False):
    """A Kubernetes PodGroup's JSON."""

    metadata: Metadata
    spec: KubernetesSpec = KubernetesSpec()


class WorkloadGroup(WireStruct, frozen=True, gc=False):
    """A group of a Workload of 1.35."""

    name: BoundedName = ""
    policy: SchedulingPolicy = SchedulingPolicy()


class WorkloadGroups(WireStruct, frozen=True, gc=False):
    """A Workload's spec, which has the groups themselves in 1.35 alone."""

    pod_groups: tuple[WorkloadGroup, ...] = ()


class WireGangWorkload(WireStruct, frozen=True, gc=False):
    """A Workload's JSON."""

    metadata: Metadata
    spec: WorkloadGroups = WorkloadGroups()


class MemberSpec(WireStruct, frozen=True, gc=False):
    """The spec of a PodGroup of other schedulers."""

    min_member: PodCount = 0


class WirePodGroup(WireStruct, frozen=True, gc=False):
    """The JSON of a PodGroup of other schedulers."""

    metadata: Metadata
    spec: MemberSpec = MemberSpec()


_SINGLE: Final = "Pod"
_ALL: Final = "PodGroup"


def _disruption(mode: DisruptionMode | str | None) -> Disruption:
    if isinstance(mode, DisruptionMode):
        mode = _ALL if mode.all is not None else _SINGLE if mode.single is not None else None
    return "All" if mode == _ALL else "Single" if mode == _SINGLE else ""


def _rule(policy: SchedulingPolicy, disruption: Disruption = "") -> GroupRule:
    quorum = None if policy.gang is None else _quorum(policy.gang.min_count)
    return GroupRule(quorum, policy.gang is None and policy.basic is not None, disruption)


def _quorum(count: int) -> int | None:
    """Return a number of pods; one that is not there, or makes no sense, is not known."""
    return count if count > 0 else None


PodGroupT = TypeVar("PodGroupT", bound=PodGroup)
RecordT = TypeVar("RecordT", bound=PodGroup | KubernetesWorkload)
WireT = TypeVar("WireT", WireKubernetesPodGroup, WirePodGroup, WireGangWorkload)


def _group(record: type[PodGroupT], metadata: Metadata, rule: GroupRule) -> PodGroupT:
    version = parse_resource_version(metadata.resource_version)
    return record(metadata.namespace, metadata.name, metadata.uid, version, rule)


def _read_workload(wire: WireGangWorkload) -> KubernetesWorkload:
    metadata = wire.metadata
    return KubernetesWorkload(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=parse_resource_version(metadata.resource_version),
        groups=tuple((group.name, _rule(group.policy)) for group in wire.spec.pod_groups),
    )


_READ_FOR: Final = (
    "how many pods of a gang have to run together, and whether one may leave alone; watched while "
    "pods of such gangs are there"
)
_WITHOUT: Final = (
    "a gang counts as one that leaves as a whole or not at all, and the number that has to run is "
    "what its pods say, if they do"
)


def _kubernetes(
    record: type[PodGroupT], resource: str, version: str
) -> WatchedKind[WireKubernetesPodGroup, PodGroupT]:
    def read(wire: WireKubernetesPodGroup) -> PodGroupT:
        spec = wire.spec
        rule = _rule(spec.scheduling_policy, _disruption(spec.disruption_mode))
        return _group(record, wire.metadata, rule)

    api_version = f"scheduling.k8s.io/{version}"
    return _kind("PodGroup", resource, api_version, record, WireKubernetesPodGroup, read)


def _other(
    record: type[PodGroupT], group: str, version: str
) -> WatchedKind[WirePodGroup, PodGroupT]:
    def read(wire: WirePodGroup) -> PodGroupT:
        return _group(record, wire.metadata, GroupRule(_quorum(wire.spec.min_member)))

    return _kind("PodGroup", f"podgroups.{group}", f"{group}/{version}", record, WirePodGroup, read)


def _kind(
    kind: str,
    resource: str,
    api_version: str,
    record: type[RecordT],
    wire: type[WireT],
    read: Callable[[WireT], RecordT],
) -> WatchedKind[WireT, RecordT]:
    return WatchedKind(
        kind=kind,
        resource=resource,
        api_version=api_version,
        namespaced=True,
        record=record,
        wire=wire,
        make_reader=lambda _: read,
        purpose=Purpose.GANGS,
        read_for=_READ_FOR,
        if_forbidden=_WITHOUT,
    )


POD_GROUP_KINDS: Final[tuple[WatchedKind[Any, Any], ...]] = (  # each has JSON of its own
    _kubernetes(KubernetesPodGroup, "podgroups.scheduling.k8s.io", "v1alpha2"),
    _kubernetes(KubernetesBetaPodGroup, "podgroups.v1beta1.scheduling.k8s.io", "v1beta1"),
    _kind(
        "Workload",
        "workloads.scheduling.k8s.io",
        "scheduling.k8s.io/v1alpha1",
        KubernetesWorkload,
        WireGangWorkload,
        _read_workload,
    ),
    _other(CoschedulingPodGroup, "scheduling.x-k8s.io", "v1alpha1"),
    _other(KoordinatorPodGroup, "scheduling.sigs.k8s.io", "v1alpha1"),
    _other(VolcanoPodGroup, "scheduling.volcano.sh", "v1beta1"),
    _other(KaiPodGroup, "scheduling.run.ai", "v2alpha2"),
)
