"""Nodes: taints, labels, readiness and what can be allocated."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from msgspec import Raw, field
from msgspec.json import Decoder

from reactive_desched.errors import QuantityError
from reactive_desched.model.node_conditions import MAX_CONDITIONS, READY, Condition
from reactive_desched.model.node_drains import DRAIN, DRAINED
from reactive_desched.model.objects import Node, NodeImage
from reactive_desched.model.opt_outs import (
    DO_NOT_DISRUPT,
    DO_NOT_EVICT,
    SCALE_DOWN_DISABLED,
)
from reactive_desched.model.resources import CPU, ResourceList, parse_resource_list
from reactive_desched.model.taints import Taint
from reactive_desched.primitives.bounded_text import bounded_name
from reactive_desched.primitives.decode_errors import DECODE_ERRORS
from reactive_desched.state.kinds.interning import (
    InternTable,
    InternTables,
    intern_field,
    parse_resource_version,
    quantity_texts,
)
from reactive_desched.state.kinds.kind import (
    EMPTY_OBJECT,
    Metadata,
    Timestamp,
    WatchedKind,
    WireStruct,
)

__all__ = ["NODE"]


_MILLI: Final = 1000
_MAX_CPUS: Final = 65_536
MAX_IMAGES: Final = 200
"""So many images of a node are read, the first ones: a kubelet reports the 50 largest, unless its
`nodeStatusMaxImages` says otherwise."""

MAX_IMAGE_NAMES: Final = 5
"""So many names of an image are read, as many as a kubelet reports."""

_NOT_RESERVED: Final = ("kubernetes.io/batch-cpu", "kubernetes.io/batch-memory")
_UNREADABLE: Final = (*DECODE_ERRORS, QuantityError)


class NodeAnnotations(WireStruct, frozen=True, gc=False):
    """The annotations of a node: koordinator's capacity for measured use, opt-outs, and drains."""

    raw_allocatable: str | None = field(name="node.koordinator.sh/raw-allocatable", default=None)
    reservation: str | None = field(name="node.koordinator.sh/reservation", default=None)
    do_not_disrupt: str | None = field(name=DO_NOT_DISRUPT, default=None)
    do_not_evict: str | None = field(name=DO_NOT_EVICT, default=None)
    scale_down_disabled: str | None = field(name=SCALE_DOWN_DISABLED, default=None)
    drain: str | None = field(name=DRAIN, default=None)
    drained: str | None = field(name=DRAINED, default=None)


class NodeReservation(WireStruct, frozen=True, gc=False):
    """The resources of a node that are kept for processes other than pods."""

    resources: dict[str, Raw] | None = None
    reserved_cpus: str = field(name="reservedCPUs", default="")
    apply_policy: str = ""


class NodeMetadata(Metadata, frozen=True, gc=False):
    """A node's metadata."""

    annotations: NodeAnnotations = NodeAnnotations()
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None


class NodeCondition(WireStruct, frozen=True, gc=False):
    """A condition that the kubelet or the node lifecycle controller reports."""

    type: str = ""
    status: str = ""
    last_transition_time: Timestamp | None = None


class NodeTaint(WireStruct, frozen=True, gc=False):
    """A taint, and when it was set, which the API server says of some."""

    key: str
    effect: str
    value: str = ""
    time_added: Timestamp | None = None


class NodeSpec(WireStruct, frozen=True, gc=False):
    """A node's spec."""

    unschedulable: bool = False
    taints: tuple[NodeTaint, ...] = ()


class WireImage(WireStruct, frozen=True, gc=False):
    """An image that the node has."""

    names: tuple[str, ...] | None = None
    size_bytes: int = 0


class NodeStatus(WireStruct, frozen=True, gc=False):
    """A node's status."""

    allocatable: Raw = EMPTY_OBJECT
    conditions: tuple[NodeCondition, ...] = ()
    declared_features: tuple[str, ...] = ()
    images: tuple[Raw, ...] | None = None


class WireNode(WireStruct, frozen=True, gc=False):
    """A node's JSON."""

    metadata: NodeMetadata
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


def _reader(tables: InternTables) -> Callable[[WireNode], Node]:
    """Return a reader that shares allocatable resources and label values between nodes."""
    intern, interned = tables.texts.intern, tables.texts.get
    decode_resources = Decoder(dict[str, Raw]).decode

    def resources(text: bytes) -> ResourceList:
        return parse_resource_list(quantity_texts(decode_resources(text)))

    def read(wire: WireNode) -> Node:
        metadata, spec, status = wire.metadata, wire.spec, wire.status
        allocatable = intern_field(tables.allocatable, status.allocatable, resources)
        taints = spec.taints
        conditions, changed_s = _conditions(status.conditions, intern)
        ready = next((c for c in status.conditions if c.type == READY), None)
        return Node(
            name=intern(metadata.name),
            uid=metadata.uid,
            resource_version=parse_resource_version(metadata.resource_version),
            labels={
                key: interned(value) or intern(value) for key, value in metadata.labels.items()
            },
            taints=tuple(Taint(t.key, t.effect, t.value) for t in taints) if taints else (),
            unschedulable=spec.unschedulable,
            allocatable=allocatable,
            ready_status=None if ready is None else ready.status,
            load_capacity=_load_capacity(metadata.annotations, allocatable),
            do_not_disrupt=metadata.annotations.do_not_disrupt,
            do_not_evict=metadata.annotations.do_not_evict,
            is_terminating=metadata.deletion_timestamp is not None,
            declared_features=tuple(map(intern, status.declared_features)),
            taints_added_s=tuple(map(_added_s, taints)) if _has_times(taints) else (),
            created_s=_seconds(metadata.creation_timestamp),
            ready_since_s=None if ready is None else _seconds(ready.last_transition_time),
            drain=metadata.annotations.drain,
            drained=metadata.annotations.drained,
            conditions=tables.node_conditions.intern(conditions),
            conditions_changed_s=changed_s,
            scale_down_disabled=metadata.annotations.scale_down_disabled,
            images=_images(tables.node_images, status.images),
        )

    return read


def _images(
    table: InternTable[bytes, NodeImage], reported: tuple[Raw, ...] | None
) -> tuple[NodeImage, ...]:
    """Return the images of a node; nodes that have the same one share it."""
    if not reported:
        return ()
    return tuple([intern_field(table, each, _image) for each in reported[:MAX_IMAGES]])


def _image(text: bytes) -> NodeImage:
    image = _decode_image(text)
    names = (image.names or ())[:MAX_IMAGE_NAMES]
    return NodeImage(tuple(map(bounded_name, names)), image.size_bytes)


def _conditions(
    reported: tuple[NodeCondition, ...], intern: Callable[[str], str]
) -> tuple[tuple[Condition, ...], tuple[int | None, ...]]:
    """Return the conditions other than Ready, and when the status of each last changed.

    They are in order of their types, each type once.
    """
    by_type = {each.type: each for each in reported if each.type != READY}
    kept = [by_type[kind] for kind in sorted(by_type)[:MAX_CONDITIONS]]
    conditions = tuple((intern(each.type), intern(each.status)) for each in kept)
    return conditions, tuple(_seconds(each.last_transition_time) for each in kept)


def _has_times(taints: tuple[NodeTaint, ...]) -> bool:
    return any(taint.time_added is not None for taint in taints)


def _added_s(taint: NodeTaint) -> int | None:
    return _seconds(taint.time_added)


def _seconds(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp())


def _load_capacity(annotations: NodeAnnotations, allocatable: ResourceList) -> ResourceList | None:
    """Return the amounts that measured use is a share of; None for allocatable.

    As koordinator: the raw allocatable where the node's is amplified, else what is allocatable
    without what is reserved for other than pods. An annotation that cannot be read says nothing.
    """
    raw, reservation = annotations.raw_allocatable, annotations.reservation
    try:
        if raw is not None and (amounts := _decode_amounts(raw.encode())) is not None:
            return parse_resource_list(quantity_texts(amounts))
    except _UNREADABLE:
        pass
    if reservation is None:
        return None
    try:
        reserved = _reserved(_decode_reservation(reservation.encode()))
    except (*_UNREADABLE, ValueError):
        return None
    if not any(reserved.values()):
        return None
    return {
        resource: amount
        if resource in _NOT_RESERVED
        else max(0, amount - reserved.get(resource, 0))
        for resource, amount in allocatable.items()
    }


def _reserved(reservation: NodeReservation) -> dict[str, int]:
    """Sum what a reservation takes from pods; a list of cpus counts instead of an amount."""
    if reservation.apply_policy not in ("", "Default"):
        return {}
    amounts = parse_resource_list(quantity_texts(reservation.resources or {}))
    if reservation.reserved_cpus:
        amounts[CPU] = len(_cpu_set(reservation.reserved_cpus)) * _MILLI
    return amounts


def _cpu_set(text: str) -> set[int]:
    """Read a list of cpus such as "0-3,8"; raises ValueError."""
    cpus: set[int] = set()
    named = 0
    for part in text.split(","):
        first_text, dash, last_text = part.strip().partition("-")
        first, last = int(first_text), int(last_text if dash else first_text)
        named += max(0, last - first + 1)
        if named > _MAX_CPUS:
            raise ValueError(f"{text[:64]} names more cpus than there are")
        cpus.update(range(first, last + 1))
    return cpus


_decode_image: Final = Decoder(WireImage).decode
_decode_amounts: Final = Decoder(dict[str, Raw] | None).decode
_decode_reservation: Final = Decoder(NodeReservation).decode


NODE: Final = WatchedKind(
    kind="Node",
    resource="nodes",
    api_version="v1",
    namespaced=False,
    record=Node,
    wire=WireNode,
    make_reader=_reader,
    read_for="taints, labels, readiness and allocatable resources",
)
