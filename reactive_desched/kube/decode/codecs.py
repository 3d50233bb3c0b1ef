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
from reactive_desched.kube.decode.codec import METADATA, WHOLE, Codec, Forms, Page, WatchEvent
from reactive_desched.kube.decode.fields import quantities, seconds, shared_part, version
from reactive_desched.kube.decode.interning import SharedParts
from reactive_desched.kube.decode.owner_reader import OwnedReader
from reactive_desched.kube.decode.pod_reader import PodReader
from reactive_desched.kube.decode.pod_wire import WirePod
from reactive_desched.kube.decode.wire import (
    AnyLine,
    Bookmark,
    ChangeLine,
    Identity,
    ListPage,
    WireBudget,
    WireClaim,
    WireCSINode,
    WireNamespace,
    WireNode,
    WireObject,
    WireOwned,
    WirePriorityClass,
    WireVolume,
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
from reactive_desched.model.resources import Amounts, amounts
from reactive_desched.primitives.decode_errors import UNDECODABLE

__all__ = ["Codecs", "ResourceCodec", "codecs"]

T = TypeVar("T")
W = TypeVar("W", bound=WireObject)
R = TypeVar("R", ReplicaSet, Job)

_CHANGES: Final = frozenset({"ADDED", "MODIFIED", "DELETED"})
_INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
_UNREADABLE: Final = (*UNDECODABLE, QuantityError)


class ResourceCodec(Generic[W, T]):
    """Reads one resource: `wire` is what its JSON holds, `record` makes the model's record of it.

    A `Codec`; raises nothing but `Malformed`. `forms` says how much of each object to ask for.
    """

    def __init__(
        self,
        kind: str,
        path: str,
        wire: type[W],
        record: Callable[[W], T],
        forms: Forms = WHOLE,
    ) -> None:
        self.kind: Final = kind
        self.path: Final = path
        self.forms: Final = forms
        self._record: Final = record
        self._object: Final = Decoder(wire)
        self._change: Final[Decoder[ChangeLine[W]]] = Decoder(
            ChangeLine[wire]  # type: ignore[valid-type]  # a type held in a variable
        )
        self._line: Final = Decoder(AnyLine)
        self._page: Final = Decoder(ListPage)

    def item(self, raw: Raw | bytes) -> T:
        """Decode one object."""
        try:
            return self._record(self._object.decode(raw))
        except _UNREADABLE:
            return self._read_again(raw)[1]

    def event(self, line: bytes) -> WatchEvent[T]:
        """Decode one watch line; a changed object takes one pass, everything else a second."""
        try:
            change = self._change.decode(line)
            record = self._record(change.object)
        except _UNREADABLE:
            return self._uncommon_event(line)
        if change.type not in _CHANGES:
            return self._uncommon_event(line)
        return WatchEvent(change.type, record, change.object.metadata.resource_version)

    def page(self, body: bytes) -> Page:
        """Split one list page into undecoded items."""
        try:
            page = self._page.decode(body)
        except _UNREADABLE as error:
            raise Malformed(f"{self.kind} list", "", _reason(error)) from error
        return Page(
            items=page.items or [],
            resource_version=page.metadata.resource_version or "",
            continue_token=page.metadata.continue_token or "",
        )

    def _uncommon_event(self, line: bytes) -> WatchEvent[T]:
        """Read a bookmark, an error, or a change that the typed reading refused."""
        try:
            found = self._line.decode(line)
        except _UNREADABLE as error:
            raise Malformed(f"{self.kind} watch line", "", _reason(error)) from error
        if found.type in _CHANGES:
            wire, record = self._read_again(found.object)
            return WatchEvent(found.type, record, wire.metadata.resource_version)
        if found.type == "BOOKMARK":
            return self._bookmark(found.object)
        if found.type == "ERROR":
            return WatchEvent("ERROR", None, "", status=parse_status(found.object))
        raise Malformed(f"{self.kind} watch line", "", f"its type {found.type!r} is unknown")

    def _bookmark(self, raw: Raw) -> WatchEvent[T]:
        try:
            metadata = msgspec.json.decode(raw, type=Bookmark).metadata
        except _UNREADABLE as error:
            raise Malformed(f"{self.kind} bookmark", "", _reason(error)) from error
        annotations = metadata.annotations or {}
        ended = annotations.get(_INITIAL_EVENTS_END) == "true"
        version_ = metadata.resource_version or ""
        return WatchEvent("BOOKMARK", None, version_, initial_events_end=ended)

    def _read_again(self, raw: Raw | bytes) -> tuple[W, T]:
        """Read an object as if its nulls were absent, or say what is wrong with it."""
        try:
            wire = self._object.decode(_without_nulls(raw))
            return wire, self._record(wire)
        except _UNREADABLE as error:
            raise Malformed(self.kind, _name_of(raw), _reason(error)) from error


def _without_nulls(raw: Raw | bytes) -> bytes:
    """Return the same JSON less the members that are null.

    Fractions become texts, digit for digit, which is what a quantity is anyway.
    """
    return msgspec.json.encode(_stripped(Decoder(float_hook=Decimal).decode(raw)))


def _stripped(value: Any) -> Any:  # any JSON value
    if isinstance(value, dict):
        return {key: _stripped(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [_stripped(element) for element in value]
    return value


def _name_of(raw: Raw | bytes) -> str:
    """Return namespace/name, or as much of it as can be read."""
    try:
        identity = msgspec.json.decode(raw, type=Identity).metadata
    except _UNREADABLE:
        return ""
    parts = (identity.namespace, identity.name)
    return "/".join(part for part in parts if isinstance(part, str) and part)


def _reason(error: BaseException) -> str:
    """Return the error's text, and in which part of the object it arose if that is known."""
    return " ".join([str(error), *getattr(error, "__notes__", ())])


# --- the resources -----------------------------------------------------------------------------


class _NodeReader:
    """Makes Node records; allocatable and the texts of labels are shared."""

    def __init__(self, shared: SharedParts) -> None:
        self._shared: Final = shared
        self._resources: Final = Decoder(dict[str, Raw]).decode

    def record(self, wire: WireNode) -> Node:
        metadata, text = wire.metadata, self._shared.texts.of
        known = self._shared.texts.get
        return Node(
            name=text(metadata.name),
            uid=metadata.uid,
            resource_version=version(metadata.resource_version),
            labels={key: known(value) or text(value) for key, value in metadata.labels.items()},
            taints=wire.spec.taints,
            unschedulable=wire.spec.unschedulable,
            allocatable=shared_part(
                self._shared.allocatable, wire.status.allocatable, self._amounts
            ),
            ready=next((c.status for c in wire.status.conditions if c.type == "Ready"), None),
        )

    def _amounts(self, text: bytes) -> Amounts:
        return amounts(quantities(self._resources(text)))


def _namespace(wire: WireNamespace) -> Namespace:
    metadata = wire.metadata
    return Namespace(
        name=metadata.name,
        uid=metadata.uid,
        resource_version=version(metadata.resource_version),
        labels=metadata.labels,
    )


def _priority_class(wire: WirePriorityClass) -> PriorityClass:
    metadata = wire.metadata
    return PriorityClass(
        name=metadata.name,
        uid=metadata.uid,
        resource_version=version(metadata.resource_version),
        value=wire.value,
    )


def _budget(wire: WireBudget) -> PodDisruptionBudget:
    metadata = wire.metadata
    return PodDisruptionBudget(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=version(metadata.resource_version),
        selector=wire.spec.selector,
        disruptions_allowed=wire.status.disruptions_allowed,
    )


class _ClaimReader:
    """Makes claim records; names are shared with the pods that mount them."""

    def __init__(self, shared: SharedParts) -> None:
        self._text: Final = shared.texts.of

    def record(self, wire: WireClaim) -> PersistentVolumeClaim:
        metadata = wire.metadata
        return PersistentVolumeClaim(
            namespace=self._text(metadata.namespace),
            name=self._text(metadata.name),
            uid=metadata.uid,
            resource_version=version(metadata.resource_version),
            storage_class=self._text(wire.spec.storage_class_name),
            volume=wire.spec.volume_name,
            phase=self._text(wire.status.phase),
            exclusive="ReadWriteOncePod" in wire.spec.access_modes,
            deletion_s=seconds(metadata.deletion_timestamp),
        )


_PLACES: Final = frozenset(
    f"{prefix}/{what}"
    for prefix in ("topology.kubernetes.io", "failure-domain.beta.kubernetes.io")
    for what in ("zone", "region")
)


class _VolumeReader:
    """Makes volume records; volumes of one place share how it is told."""

    def __init__(self, shared: SharedParts) -> None:
        self._text: Final = shared.texts.of

    def record(self, wire: WireVolume) -> PersistentVolume:
        metadata, spec, text = wire.metadata, wire.spec, self._text
        csi, claim = spec.csi, spec.claim_ref
        return PersistentVolume(
            name=metadata.name,
            uid=metadata.uid,
            resource_version=version(metadata.resource_version),
            reachable_from=None if spec.node_affinity is None else spec.node_affinity.required,
            places={
                text(key): text(value) for key, value in metadata.labels.items() if key in _PLACES
            },
            driver="" if csi is None else text(csi.driver),
            handle="" if csi is None else csi.volume_handle,
            claim="" if claim is None else f"{claim.namespace}/{claim.name}",
        )


def _csi_node(wire: WireCSINode) -> CSINode:
    metadata = wire.metadata
    limits = ((driver.name, driver.allocatable) for driver in wire.spec.drivers)
    return CSINode(
        name=metadata.name,
        uid=metadata.uid,
        resource_version=version(metadata.resource_version),
        attachable={
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
    disruption_budgets: Codec[PodDisruptionBudget]
    claims: Codec[PersistentVolumeClaim]
    volumes: Codec[PersistentVolume]
    csi_nodes: Codec[CSINode]
    replica_sets: Codec[ReplicaSet]
    jobs: Codec[Job]


def codecs(shared: SharedParts) -> Codecs:
    """Make all codecs over these shared parts."""
    return Codecs(
        pods=ResourceCodec("Pod", "/api/v1/pods", WirePod, PodReader(shared).record),
        nodes=ResourceCodec("Node", "/api/v1/nodes", WireNode, _NodeReader(shared).record),
        namespaces=ResourceCodec("Namespace", "/api/v1/namespaces", WireNamespace, _namespace),
        priority_classes=ResourceCodec(
            "PriorityClass",
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            WirePriorityClass,
            _priority_class,
        ),
        disruption_budgets=ResourceCodec(
            "PodDisruptionBudget", "/apis/policy/v1/poddisruptionbudgets", WireBudget, _budget
        ),
        claims=ResourceCodec(
            "PersistentVolumeClaim",
            "/api/v1/persistentvolumeclaims",
            WireClaim,
            _ClaimReader(shared).record,
        ),
        volumes=ResourceCodec(
            "PersistentVolume",
            "/api/v1/persistentvolumes",
            WireVolume,
            _VolumeReader(shared).record,
        ),
        csi_nodes=ResourceCodec(
            "CSINode", "/apis/storage.k8s.io/v1/csinodes", WireCSINode, _csi_node
        ),
        replica_sets=_owned("ReplicaSet", "/apis/apps/v1/replicasets", shared, ReplicaSet),
        jobs=_owned("Job", "/apis/batch/v1/jobs", shared, Job),
    )


def _owned(kind: str, path: str, shared: SharedParts, made: type[R]) -> Codec[R]:
    return ResourceCodec(kind, path, WireOwned, OwnedReader(shared, made).record, METADATA)
