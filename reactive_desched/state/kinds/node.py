"""Nodes: taints, labels, readiness and what can be allocated."""

from collections.abc import Callable
from typing import Final

from msgspec import Raw
from msgspec.json import Decoder

from reactive_desched.model.objects import Node
from reactive_desched.model.resources import ResourceList, parse_resource_list
from reactive_desched.model.taints import Taint
from reactive_desched.state.kinds.interning import (
    InternTables,
    intern_field,
    parse_resource_version,
    quantity_texts,
)
from reactive_desched.state.kinds.kind import EMPTY_OBJECT, Metadata, WatchedKind, WireStruct

__all__ = ["NODE"]


class NodeCondition(WireStruct, frozen=True, gc=False):
    """A condition that the kubelet or the node lifecycle controller reports."""

    type: str = ""
    status: str = ""


class NodeSpec(WireStruct, frozen=True, gc=False):
    """A node's spec."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(WireStruct, frozen=True, gc=False):
    """A node's status."""

    allocatable: Raw = EMPTY_OBJECT
    conditions: tuple[NodeCondition, ...] = ()


class WireNode(WireStruct, frozen=True, gc=False):
    """A node's JSON."""

    metadata: Metadata
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
        return Node(
            name=intern(metadata.name),
            uid=metadata.uid,
            resource_version=parse_resource_version(metadata.resource_version),
            labels={
                key: interned(value) or intern(value) for key, value in metadata.labels.items()
            },
            taints=spec.taints,
            unschedulable=spec.unschedulable,
            allocatable=intern_field(tables.allocatable, status.allocatable, resources),
            ready_status=next((c.status for c in status.conditions if c.type == "Ready"), None),
        )

    return read


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
