"""The kinds that this API server serves, in one table that discovery, storage and routes share."""

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from msgspec import Struct

__all__ = [
    "READ_WRITE",
    "RESOURCES",
    "STREAMS",
    "Resource",
    "ScalePaths",
    "by_preference",
    "served",
]

READ_WRITE = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
STREAMS = ("attach", "ephemeralcontainers", "exec", "log", "portforward", "proxy")
"""The subresources of pods that need a container, of which there is none here."""


class ScalePaths(Struct, frozen=True):
    """The fields of an object that its Scale shows."""

    wanted: str = ".spec.replicas"
    there: str = ".status.replicas"
    selector: str = ""
    """The path of the selector as text; empty where it is the LabelSelector of the spec."""


class Resource(Struct, frozen=True, kw_only=True):
    """One kind as discovery describes it, plus the few ways kinds differ in storage."""

    plural: str
    kind: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = READ_WRITE
    has_generation: bool = False
    """Whether `metadata.generation` counts changes of the spec."""
    blind_update: bool = True
    """Whether a PUT without a resource version overwrites; if not it is refused."""
    returns_deleted: bool = False
    """Whether a completed DELETE answers with the object instead of a `Status`."""
    is_custom: bool = False
    """Whether a client defined it."""
    selectable: tuple[str, ...] = ()
    """The fields by which a custom kind can be selected, beside name and namespace."""
    scale: ScalePaths = ScalePaths()
    named_singular: str = ""
    """The name of one, where it is not that of the kind."""

    @property
    def singular(self) -> str:
        """The name of one, as kubectl accepts it."""
        return self.named_singular or self.kind.lower()

    @property
    def api_version(self) -> str:
        """`group/version`, or just the version for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """The plural with its group, as error messages spell it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def has_status(self) -> bool:
        """Say whether spec and status are written through different endpoints."""
        return "status" in self.subresources


def _core() -> Iterator[Resource]:
    yield Resource(
        plural="pods",
        kind="Pod",
        short_names=("po",),
        categories=("all",),
        subresources=("status", "binding", "eviction", "resize", *STREAMS),
        has_generation=True,
        returns_deleted=True,
    )
    yield Resource(
        plural="nodes", kind="Node", namespaced=False, short_names=("no",), subresources=("status",)
    )
    yield Resource(
        plural="namespaces",
        kind="Namespace",
        namespaced=False,
        short_names=("ns",),
        subresources=("status", "finalize"),
        verbs=tuple(verb for verb in READ_WRITE if verb != "deletecollection"),
        returns_deleted=True,
    )
    yield Resource(
        plural="services",
        kind="Service",
        short_names=("svc",),
        categories=("all",),
        subresources=("status",),
        returns_deleted=True,
    )
    yield Resource(
        plural="persistentvolumeclaims",
        kind="PersistentVolumeClaim",
        short_names=("pvc",),
        subresources=("status",),
        returns_deleted=True,
    )
    yield Resource(
        plural="persistentvolumes",
        kind="PersistentVolume",
        namespaced=False,
        short_names=("pv",),
        subresources=("status",),
        returns_deleted=True,
    )
    yield Resource(plural="events", kind="Event", short_names=("ev",))
    yield from _core_storage_only()


def _core_storage_only() -> Iterator[Resource]:
    yield Resource(plural="secrets", kind="Secret")
    yield Resource(plural="configmaps", kind="ConfigMap", short_names=("cm",))
    yield Resource(
        plural="serviceaccounts",
        kind="ServiceAccount",
        short_names=("sa",),
        subresources=("token",),
        returns_deleted=True,
    )
    yield Resource(
        plural="replicationcontrollers",
        kind="ReplicationController",
        short_names=("rc",),
        categories=("all",),
        subresources=("status", "scale"),
        has_generation=True,
    )
    yield Resource(plural="limitranges", kind="LimitRange", short_names=("limits",))
    yield Resource(
        plural="resourcequotas",
        kind="ResourceQuota",
        short_names=("quota",),
        subresources=("status",),
        returns_deleted=True,
    )
    yield Resource(plural="endpoints", kind="Endpoints", short_names=("ep",))
    yield Resource(plural="podtemplates", kind="PodTemplate")


def _workloads() -> Iterator[Resource]:
    scaled = ("status", "scale")
    for plural, kind, short, subresources in (
        ("deployments", "Deployment", "deploy", scaled),
        ("replicasets", "ReplicaSet", "rs", scaled),
        ("statefulsets", "StatefulSet", "sts", scaled),
        ("daemonsets", "DaemonSet", "ds", ("status",)),
    ):
        yield Resource(
            plural=plural,
            kind=kind,
            group="apps",
            short_names=(short,),
            categories=("all",),
            subresources=subresources,
            has_generation=True,
        )
    yield Resource(plural="controllerrevisions", kind="ControllerRevision", group="apps")
    for plural, kind, names in (("jobs", "Job", ()), ("cronjobs", "CronJob", ("cj",))):
        yield Resource(
            plural=plural,
            kind=kind,
            group="batch",
            short_names=names,
            categories=("all",),
            subresources=("status",),
            has_generation=True,
        )


def _policies() -> Iterator[Resource]:
    yield Resource(
        plural="poddisruptionbudgets",
        kind="PodDisruptionBudget",
        group="policy",
        short_names=("pdb",),
        subresources=("status",),
        has_generation=True,
        blind_update=False,
    )
    yield Resource(
        plural="priorityclasses",
        kind="PriorityClass",
        group="scheduling.k8s.io",
        namespaced=False,
        short_names=("pc",),
        has_generation=True,
    )
    yield Resource(plural="leases", kind="Lease", group="coordination.k8s.io", blind_update=False)
    yield Resource(plural="endpointslices", kind="EndpointSlice", group="discovery.k8s.io")
    yield Resource(
        plural="runtimeclasses", kind="RuntimeClass", group="node.k8s.io", namespaced=False
    )
    yield _autoscaler("v2")


def _autoscaler(version: str) -> Resource:
    return Resource(
        plural="horizontalpodautoscalers",
        kind="HorizontalPodAutoscaler",
        group="autoscaling",
        version=version,
        short_names=("hpa",),
        categories=("all",),
        subresources=("status",),
    )


def _network() -> Iterator[Resource]:
    group = "networking.k8s.io"
    yield Resource(
        plural="networkpolicies",
        kind="NetworkPolicy",
        group=group,
        short_names=("netpol",),
        has_generation=True,
    )
    yield Resource(
        plural="ingresses",
        kind="Ingress",
        group=group,
        short_names=("ing",),
        subresources=("status",),
        has_generation=True,
    )
    yield Resource(
        plural="ingressclasses",
        kind="IngressClass",
        group=group,
        namespaced=False,
        has_generation=True,
    )


def _rights() -> Iterator[Resource]:
    for plural, kind, namespaced in (
        ("clusterroles", "ClusterRole", False),
        ("clusterrolebindings", "ClusterRoleBinding", False),
        ("roles", "Role", True),
        ("rolebindings", "RoleBinding", True),
    ):
        yield Resource(
            plural=plural, kind=kind, group="rbac.authorization.k8s.io", namespaced=namespaced
        )


def _storage() -> Iterator[Resource]:
    for plural, kind, names in (
        ("storageclasses", "StorageClass", ("sc",)),
        ("csinodes", "CSINode", ()),
        ("csidrivers", "CSIDriver", ()),
        ("volumeattachments", "VolumeAttachment", ()),
    ):
        yield Resource(
            plural=plural,
            kind=kind,
            group="storage.k8s.io",
            namespaced=False,
            short_names=names,
            subresources=("status",) if plural == "volumeattachments" else (),
        )
    yield Resource(plural="csistoragecapacities", kind="CSIStorageCapacity", group="storage.k8s.io")


def _devices() -> Iterator[Resource]:
    """Yield what a real kube-scheduler insists on watching, though nothing here uses it."""
    for plural, kind, namespaced in (
        ("deviceclasses", "DeviceClass", False),
        ("resourceclaims", "ResourceClaim", True),
        ("resourceclaimtemplates", "ResourceClaimTemplate", True),
        ("resourceslices", "ResourceSlice", False),
    ):
        yield Resource(
            plural=plural,
            kind=kind,
            group="resource.k8s.io",
            namespaced=namespaced,
            subresources=("status",) if kind == "ResourceClaim" else (),
        )


def _extensions() -> Iterator[Resource]:
    """Yield definitions of kinds, and what is stored alone: no webhook or policy is asked."""
    for plural, kind, subresources in (
        ("mutatingwebhookconfigurations", "MutatingWebhookConfiguration", ()),
        ("validatingwebhookconfigurations", "ValidatingWebhookConfiguration", ()),
        ("validatingadmissionpolicies", "ValidatingAdmissionPolicy", ("status",)),
        ("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", ()),
    ):
        yield Resource(
            plural=plural,
            kind=kind,
            group="admissionregistration.k8s.io",
            namespaced=False,
            categories=("api-extensions",),
            subresources=subresources,
            has_generation=True,
        )
    yield Resource(
        plural="apiservices",
        kind="APIService",
        group="apiregistration.k8s.io",
        namespaced=False,
        categories=("api-extensions",),
        subresources=("status",),
    )
    yield Resource(
        plural="customresourcedefinitions",
        kind="CustomResourceDefinition",
        group="apiextensions.k8s.io",
        namespaced=False,
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        subresources=("status",),
        has_generation=True,
    )


def _koordinator() -> Iterator[Resource]:
    """Yield what koordinator's agents report, its jobs and Reservations, as custom resources."""
    yield Resource(
        plural="reservations",
        kind="Reservation",
        group="scheduling.koordinator.sh",
        version="v1alpha1",
        namespaced=False,
        subresources=("status",),
        has_generation=True,
    )
    yield Resource(
        plural="podmigrationjobs",
        kind="PodMigrationJob",
        group="scheduling.koordinator.sh",
        version="v1alpha1",
        namespaced=False,
        short_names=("pmj",),
        subresources=("status",),
        has_generation=True,
    )
    yield Resource(
        plural="nodemetrics",
        kind="NodeMetric",
        group="slo.koordinator.sh",
        version="v1alpha1",
        namespaced=False,
        subresources=("status",),
        has_generation=True,
    )


def _stored() -> Iterator[Resource]:
    yield from _core()
    yield from _workloads()
    yield from _policies()
    yield from _network()
    yield from _rights()
    yield from _storage()
    yield from _devices()
    yield from _extensions()
    yield from _koordinator()


RESOURCES: Mapping[str, Resource] = MappingProxyType({kind.plural: kind for kind in _stored()})

_EVENTS_VIEW = Resource(plural="events", kind="Event", group="events.k8s.io", short_names=("ev",))


def served() -> Iterator[Resource]:
    """Every kind with an endpoint: the stored ones, and the second views of two of them."""
    yield from RESOURCES.values()
    yield _EVENTS_VIEW
    yield _autoscaler("v1")


_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STAGES = ("alpha", "beta", None)


def by_preference(versions: Iterable[str]) -> list[str]:
    """Sort versions as the API server does: stable ones first, later ones before earlier ones."""
    return sorted(versions, key=_preference)


def _preference(version: str) -> tuple[object, ...]:
    read = _VERSION.fullmatch(version)
    if read is None:
        return (1, version)
    major, stage, minor = read.groups()
    return (0, -_STAGES.index(stage), -int(major), -int(minor or 0))
