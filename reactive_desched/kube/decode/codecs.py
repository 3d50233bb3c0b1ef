"""Reads the API server's JSON into the model's records, one codec for each resource we watch.

A null means the same as an absent member. Objects that hold one take a second, slower reading;
so does whatever the typed reading refuses, before it is called malformed.
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.json import Decoder

from reactive_desched.errors import Malformed, QuantityError
from reactive_desched.kube.client.responses import parse_status
from reactive_desched.kube.decode.codec import (
    FULL_OBJECT,
    METADATA_ONLY,
    AcceptHeaders,
    Codec,
    RawListPage,
    WatchEvent,
)
from reactive_desched.kube.decode.fields import (
    epoch_seconds,
    intern_field,
    parse_resource_version,
    quantity_texts,
)
from reactive_desched.kube.decode.interning import InternTables
from reactive_desched.kube.decode.owner_reader import OwnerReader
from reactive_desched.kube.decode.pod_reader import PodReader
from reactive_desched.kube.decode.pod_wire import WirePod
from reactive_desched.kube.decode.wire import (
    Bookmark,
    Identity,
    ListPage,
    ObjectWatchLine,
    RawWatchLine,
    WireCSINode,
    WireNamespace,
    WireNode,
    WireObject,
    WireOwner,
    WirePdb,
    WirePriorityClass,
    WirePv,
    WirePvc,
)
from reactive_desched.model.objects import (
    CSINode,
    Job,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PriorityClass,
    ReplicaSet,
)
from reactive_desched.model.resources import ResourceList, parse_resource_list
from reactive_desched.primitives.decode_errors import DECODE_ERRORS

__all__ = ["Codecs", "ResourceCodec", "make_codecs"]

T = TypeVar("T")
W = TypeVar("W", bound=WireObject)
R = TypeVar("R", ReplicaSet, Job)

_CHANGES: Final = frozenset({"ADDED", "MODIFIED", "DELETED"})
_INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
_DECODE_ERRORS: Final = (*DECODE_ERRORS, QuantityError)


class ResourceCodec(Generic[W, T]):
    """Reads one resource: `wire` is what its JSON holds, `record` makes the model's record of it.

    A `Codec`; raises nothing but `Malformed`. `forms` says how much of each object to ask for.
    """

    def __init__(
        self,
        kind: str,
        path: str,
        wire: type[W],
        convert: Callable[[W], T],
        accept: AcceptHeaders = FULL_OBJECT,
    ) -> None:
        self.kind: Final = kind
        self.path: Final = path
        self.accept: Final = accept
        self._convert: Final = convert
        self._object_decoder: Final = Decoder(wire)
        self._change_decoder: Final[Decoder[ObjectWatchLine[W]]] = Decoder(
            ObjectWatchLine[wire]  # type: ignore[valid-type]  # a type held in a variable
        )
        self._line_decoder: Final = Decoder(RawWatchLine)
        self._page_decoder: Final = Decoder(ListPage)

    def decode_object(self, raw: Raw | bytes) -> T:
        """Decode one object."""
        try:
            return self._convert(self._object_decoder.decode(raw))
        except _DECODE_ERRORS:
            return self._decode_without_nulls(raw)[1]

    def decode_event(self, line: bytes) -> WatchEvent[T]:
        """Decode one watch line; a changed object takes one pass, everything else a second."""
        try:
            change = self._change_decoder.decode(line)
            record = self._convert(change.object)
        except _DECODE_ERRORS:
            return self._decode_uncommon_event(line)
        if change.type not in _CHANGES:
            return self._decode_uncommon_event(line)
        return WatchEvent(change.type, record, change.object.metadata.resource_version)

    def split_page(self, body: bytes) -> RawListPage:
        """Split one list page into undecoded items."""
        try:
            page = self._page_decoder.decode(body)
        except _DECODE_ERRORS as error:
            raise Malformed(f"{self.kind} list", "", _error_message(error)) from error
        return RawListPage(
            items=page.items or [],
            resource_version=page.metadata.resource_version or "",
            continue_token=page.metadata.continue_token or "",
        )

    def _decode_uncommon_event(self, line: bytes) -> WatchEvent[T]:
        """Read a bookmark, an error, or a change that the typed reading refused."""
        try:
            found = self._line_decoder.decode(line)
        except _DECODE_ERRORS as error:
            raise Malformed(f"{self.kind} watch line", "", _error_message(error)) from error
        if found.type in _CHANGES:
            wire, record = self._decode_without_nulls(found.object)
            return WatchEvent(found.type, record, wire.metadata.resource_version)
        if found.type == "BOOKMARK":
            return self._decode_bookmark(found.object)
        if found.type == "ERROR":
            return WatchEvent("ERROR", None, "", status=parse_status(found.object))
        raise Malformed(f"{self.kind} watch line", "", f"its type {found.type!r} is unknown")

    def _decode_bookmark(self, raw: Raw) -> WatchEvent[T]:
        try:
            metadata = msgspec.json.decode(raw, type=Bookmark).metadata
        except _DECODE_ERRORS as error:
            raise Malformed(f"{self.kind} bookmark", "", _error_message(error)) from error
        annotations = metadata.annotations or {}
        ended = annotations.get(_INITIAL_EVENTS_END) == "true"
        version_ = metadata.resource_version or ""
        return WatchEvent("BOOKMARK", None, version_, initial_events_end=ended)

    def _decode_without_nulls(self, raw: Raw | bytes) -> tuple[W, T]:
        """Read an object as if its nulls were absent, or say what is wrong with it."""
        try:
            wire = self._object_decoder.decode(_without_nulls(raw))
            return wire, self._convert(wire)
        except _DECODE_ERRORS as error:
            raise Malformed(self.kind, _name_of(raw), _error_message(error)) from error


def _without_nulls(raw: Raw | bytes) -> bytes:
    """Return the same JSON less the members that are null.

    Fractions become texts, digit for digit, which is what a quantity is anyway.
    """
    return msgspec.json.encode(_drop_nulls(Decoder(float_hook=Decimal).decode(raw)))


def _drop_nulls(value: Any) -> Any:  # any JSON value
    if isinstance(value, dict):
        return {key: _drop_nulls(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [_drop_nulls(element) for element in value]
    return value


def _name_of(raw: Raw | bytes) -> str:
    """Return namespace/name, or as much of it as can be read."""
    try:
        identity = msgspec.json.decode(raw, type=Identity).metadata
    except _DECODE_ERRORS:
        return ""
    parts = (identity.namespace, identity.name)
    return "/".join(part for part in parts if isinstance(part, str) and part)


def _error_message(error: BaseException) -> str:
    """Return the error's text, and in which part of the object it arose if that is known."""
    return " ".join([str(error), *getattr(error, "__notes__", ())])


# --- the resources -----------------------------------------------------------------------------


class _NodeReader:
    """Makes Node records; allocatable and the texts of labels are shared."""

    def __init__(self, tables: InternTables) -> None:
        self._tables: Final = tables
        self._resources: Final = Decoder(dict[str, Raw]).decode

    def record(self, wire: WireNode) -> Node:
        metadata, text = wire.metadata, self._tables.texts.intern
        interned = self._tables.texts.get
        return Node(
            name=text(metadata.name),
            uid=metadata.uid,
            resource_version=parse_resource_version(metadata.resource_version),
            labels={key: interned(value) or text(value) for key, value in metadata.labels.items()},
            taints=wire.spec.taints,
            unschedulable=wire.spec.unschedulable,
            allocatable=intern_field(
                self._tables.allocatable, wire.status.allocatable, self._amounts
            ),
            ready_status=next(
                (c.status for c in wire.status.conditions if c.type == "Ready"), None
            ),
        )

    def _amounts(self, text: bytes) -> ResourceList:
        return parse_resource_list(quantity_texts(self._resources(text)))


def _namespace(wire: WireNamespace) -> Namespace:
    metadata = wire.metadata
    return Namespace(
        name=metadata.name,
        uid=metadata.uid,
        resource_version=parse_resource_version(metadata.resource_version),
        labels=metadata.labels,
    )


def _priority_class(wire: WirePriorityClass) -> PriorityClass:
    metadata = wire.metadata
    return PriorityClass(
        name=metadata.name,
        uid=metadata.uid,
        resource_version=parse_resource_version(metadata.resource_version),
        value=wire.value,
    )


def _pdb(wire: WirePdb) -> PodDisruptionBudget:
    metadata = wire.metadata
    return PodDisruptionBudget(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=parse_resource_version(metadata.resource_version),
        selector=wire.spec.selector,
        disruptions_allowed=wire.status.disruptions_allowed,
    )


class _PvcReader:
    """Makes claim records; names are shared with the pods that mount them."""

    def __init__(self, tables: InternTables) -> None:
        self._intern: Final = tables.texts.intern

    def record(self, wire: WirePvc) -> PersistentVolumeClaim:
        metadata = wire.metadata
        return PersistentVolumeClaim(
            namespace=self._intern(metadata.namespace),
            name=self._intern(metadata.name),
            uid=metadata.uid,
            resource_version=parse_resource_version(metadata.resource_version),
            storage_class=self._intern(wire.spec.storage_class_name),
            volume_name=wire.spec.volume_name,
            phase=self._intern(wire.status.phase),
            read_write_once_pod="ReadWriteOncePod" in wire.spec.access_modes,
            deletion_s=epoch_seconds(metadata.deletion_timestamp),
        )


_TOPOLOGY_LABELS: Final = frozenset(
    f"{prefix}/{what}"
    for prefix in ("topology.kubernetes.io", "failure-domain.beta.kubernetes.io")
    for what in ("zone", "region")
)


class _PvReader:
    """Makes volume records; volumes of one place share how it is told."""

    def __init__(self, tables: InternTables) -> None:
        self._intern: Final = tables.texts.intern

    def record(self, wire: WirePv) -> PersistentVolume:
        metadata, spec, text = wire.metadata, wire.spec, self._intern
        csi, claim = spec.csi, spec.claim_ref
        return PersistentVolume(
            name=metadata.name,
            uid=metadata.uid,
            resource_version=parse_resource_version(metadata.resource_version),
            required_node_affinity=None
            if spec.node_affinity is None
            else spec.node_affinity.required,
            topology_labels={
                text(key): text(value)
                for key, value in metadata.labels.items()
                if key in _TOPOLOGY_LABELS
            },
            driver="" if csi is None else text(csi.driver),
            volume_handle="" if csi is None else csi.volume_handle,
            claim_ref="" if claim is None else f"{claim.namespace}/{claim.name}",
        )


def _csi_node(wire: WireCSINode) -> CSINode:
    metadata = wire.metadata
    limits = ((driver.name, driver.allocatable) for driver in wire.spec.drivers)
    return CSINode(
        name=metadata.name,
        uid=metadata.uid,
        resource_version=parse_resource_version(metadata.resource_version),
        attach_limits={
            name: limit.count
            for name, limit in limits
            if limit is not None and limit.count is not None
        },
    )


class Codecs(Struct, frozen=True):
    """One codec for each resource, all sharing the same parts."""

    pods: Codec[Pod]
    nodes: Codec[Node]
    namespaces: Codec[Namespace]
    priority_classes: Codec[PriorityClass]
    pdbs: Codec[PodDisruptionBudget]
    pvcs: Codec[PersistentVolumeClaim]
    pvs: Codec[PersistentVolume]
    csi_nodes: Codec[CSINode]
    replica_sets: Codec[ReplicaSet]
    jobs: Codec[Job]


def make_codecs(tables: InternTables) -> Codecs:
    """Make all codecs over these shared parts."""
    return Codecs(
        pods=ResourceCodec("Pod", "/api/v1/pods", WirePod, PodReader(tables).record),
        nodes=ResourceCodec("Node", "/api/v1/nodes", WireNode, _NodeReader(tables).record),
        namespaces=ResourceCodec("Namespace", "/api/v1/namespaces", WireNamespace, _namespace),
        priority_classes=ResourceCodec(
            "PriorityClass",
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            WirePriorityClass,
            _priority_class,
        ),
        pdbs=ResourceCodec(
            "PodDisruptionBudget", "/apis/policy/v1/poddisruptionbudgets", WirePdb, _pdb
        ),
        pvcs=ResourceCodec(
            "PersistentVolumeClaim",
            "/api/v1/persistentvolumeclaims",
            WirePvc,
            _PvcReader(tables).record,
        ),
        pvs=ResourceCodec(
            "PersistentVolume",
            "/api/v1/persistentvolumes",
            WirePv,
            _PvReader(tables).record,
        ),
        csi_nodes=ResourceCodec(
            "CSINode", "/apis/storage.k8s.io/v1/csinodes", WireCSINode, _csi_node
        ),
        replica_sets=_owner_codec("ReplicaSet", "/apis/apps/v1/replicasets", tables, ReplicaSet),
        jobs=_owner_codec("Job", "/apis/batch/v1/jobs", tables, Job),
    )


def _owner_codec(kind: str, path: str, tables: InternTables, record_type: type[R]) -> Codec[R]:
    return ResourceCodec(
        kind, path, WireOwner, OwnerReader(tables, record_type).record, METADATA_ONLY
    )
