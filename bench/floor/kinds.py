"""The other kinds that the controller lists: the members it needs, and by what each is kept."""

from typing import Any

from msgspec import Raw, Struct, field

from bench.floor.pods import Wire, WirePod

_OBJECT, _LIST = Raw(b"{}"), Raw(b"[]")


class _Metadata(Wire, frozen=True, gc=False):
    name: str
    uid: str = ""
    namespace: str = ""
    resource_version: str = ""
    labels: dict[str, str] = field(default_factory=dict)


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


class _Small(Wire, frozen=True, gc=False):
    metadata: _Metadata
    spec: Raw = _OBJECT
    status: Raw = _OBJECT
    value: int = 0


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
        elif isinstance(wire, _Small):
            texts = bytes(wire.spec), bytes(wire.status)
            kind[f"{metadata.namespace}/{metadata.name}"] = metadata, texts, wire.value
        else:
            kind[metadata.name] = wire


PODS = "/api/v1/pods"
WIRE_TYPES: dict[str, type[Any]] = {
    PODS: WirePod,
    "/api/v1/nodes": _Node,
    "/apis/storage.k8s.io/v1/csinodes": _CsiNode,
    "/apis/apps/v1/replicasets": _Owner,
    "/apis/batch/v1/jobs": _Owner,
    "/api/v1/namespaces": _Small,
    "/api/v1/persistentvolumeclaims": _Small,
    "/api/v1/persistentvolumes": _Small,
    "/apis/policy/v1/poddisruptionbudgets": _Small,
    "/apis/scheduling.k8s.io/v1/priorityclasses": _Small,
}
"""What is decoded of each list; the same lists as the controller's.

There are few small objects, so their specs stay text, which costs less than decoding them.
"""
