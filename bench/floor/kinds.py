"""The other kinds that the controller lists: the members it needs, and by what each is kept."""

from datetime import datetime
from typing import Any

from msgspec import Raw, Struct, field

from bench.floor.pods import Wire, WirePod

_LIST = Raw(b"[]")


class _Metadata(Wire, frozen=True, gc=False):
    name: str
    uid: str = ""
    namespace: str = ""
    resource_version: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    deletion_timestamp: datetime | None = None


class _Taint(Wire, frozen=True, gc=False):
    key: str
    effect: str
    value: str = ""


class _Condition(Wire, frozen=True, gc=False):
    type: str = ""
    status: str = ""


class _NodeSpec(Wire, frozen=True, gc=False):
    unschedulable: bool = False
    taints: tuple[_Taint, ...] = ()


class _NodeStatus(Wire, frozen=True, gc=False):
    allocatable: dict[str, str] = field(default_factory=dict)
    conditions: tuple[_Condition, ...] = ()


class _Node(Wire, frozen=True, gc=False):
    metadata: _Metadata
    spec: _NodeSpec = _NodeSpec()
    status: _NodeStatus = _NodeStatus()


class _OwnerMetadata(Wire, frozen=True, gc=False):
    uid: str
    owner_references: Raw = _LIST


class _Owner(Wire, frozen=True, gc=False):
    metadata: _OwnerMetadata


class _Namespace(Wire, frozen=True, gc=False):
    metadata: _Metadata


class _PriorityClass(Wire, frozen=True, gc=False):
    metadata: _Metadata
    value: int = 0


class _Selector(Wire, frozen=True, gc=False):
    match_labels: dict[str, str] = field(default_factory=dict)
    match_expressions: tuple[Any, ...] = ()


class _BudgetSpec(Wire, frozen=True, gc=False):
    selector: _Selector | None = None


class _BudgetStatus(Wire, frozen=True, gc=False):
    disruptions_allowed: int = 0


class _Budget(Wire, frozen=True, gc=False):
    metadata: _Metadata
    spec: _BudgetSpec = _BudgetSpec()
    status: _BudgetStatus = _BudgetStatus()


class _ClaimSpec(Wire, frozen=True, gc=False):
    storage_class_name: str = ""
    volume_name: str = ""
    access_modes: tuple[str, ...] = ()


class _ClaimStatus(Wire, frozen=True, gc=False):
    phase: str = ""


class _Claim(Wire, frozen=True, gc=False):
    metadata: _Metadata
    spec: _ClaimSpec = _ClaimSpec()
    status: _ClaimStatus = _ClaimStatus()


class _Csi(Wire, frozen=True, gc=False):
    driver: str = ""
    volume_handle: str = ""


class _ClaimReference(Wire, frozen=True, gc=False):
    namespace: str = ""
    name: str = ""


class _VolumeSpec(Wire, frozen=True, gc=False):
    csi: _Csi | None = None
    claim_ref: _ClaimReference | None = None
    node_affinity: Any = None


class _Volume(Wire, frozen=True, gc=False):
    metadata: _Metadata
    spec: _VolumeSpec = _VolumeSpec()


class _Attachable(Wire, frozen=True, gc=False):
    count: int | None = None


class _Driver(Wire, frozen=True, gc=False):
    name: str = ""
    allocatable: _Attachable | None = None


class _CsiNodeSpec(Wire, frozen=True, gc=False):
    drivers: tuple[_Driver, ...] = ()


class _CsiNode(Wire, frozen=True, gc=False):
    metadata: _Metadata
    spec: _CsiNodeSpec = _CsiNodeSpec()


class Kept(Struct, gc=False):
    """The objects of the kinds other than pods, by path and then by key."""

    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    _owners: dict[bytes, Any] = field(default_factory=dict)

    def keep(self, path: str, wire: Any) -> None:
        """Keep one object; of a ReplicaSet or Job only its owners, which siblings share."""
        metadata = wire.metadata
        kind = self.objects.setdefault(path, {})
        if isinstance(wire, _Owner):
            text = bytes(metadata.owner_references)
            kind[metadata.uid] = self._owners.setdefault(text, text)
        else:
            kind[f"{metadata.namespace}/{metadata.name}"] = wire


PODS = "/api/v1/pods"
WIRE_TYPES: dict[str, type[Any]] = {
    PODS: WirePod,
    "/api/v1/nodes": _Node,
    "/api/v1/namespaces": _Namespace,
    "/api/v1/persistentvolumeclaims": _Claim,
    "/api/v1/persistentvolumes": _Volume,
    "/apis/apps/v1/replicasets": _Owner,
    "/apis/batch/v1/jobs": _Owner,
    "/apis/policy/v1/poddisruptionbudgets": _Budget,
    "/apis/scheduling.k8s.io/v1/priorityclasses": _PriorityClass,
    "/apis/storage.k8s.io/v1/csinodes": _CsiNode,
}
"""What is decoded of each list; the same lists as the controller's."""
