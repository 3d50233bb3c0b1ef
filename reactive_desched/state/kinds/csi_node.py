"""CSINodes: how many volumes each storage driver can attach to a node."""

from typing import Final

from reactive_desched.model.changes import CSINodeChanged
from reactive_desched.model.objects import CSINode
from reactive_desched.state.kinds.interning import parse_resource_version
from reactive_desched.state.kinds.kind import Metadata, Purpose, WatchedKind, WireStruct

__all__ = ["CSI_NODE"]


class VolumeNodeResources(WireStruct, frozen=True, gc=False):
    """The number of volumes that a driver can attach to a node; no count means no limit."""

    count: int | None = None


class CSINodeDriver(WireStruct, frozen=True, gc=False):
    """A storage driver on a node."""

    name: str = ""
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(WireStruct, frozen=True, gc=False):
    """The storage drivers of a node."""

    drivers: tuple[CSINodeDriver, ...] = ()


class WireCSINode(WireStruct, frozen=True, gc=False):
    """A CSINode's JSON."""

    metadata: Metadata
    spec: CSINodeSpec = CSINodeSpec()


def _read(wire: WireCSINode) -> CSINode:
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


CSI_NODE: Final = WatchedKind(
    kind="CSINode",
    resource="csinodes",
    api_version="storage.k8s.io/v1",
    namespaced=False,
    record=CSINode,
    wire=WireCSINode,
    make_reader=lambda _: _read,
    make_change=lambda csi_node: CSINodeChanged(csi_node.name),
    purpose=Purpose.NODE_FIT,
    read_for="how many more volumes a node can attach",
    if_forbidden="node fit ignores the attach limits of storage drivers",
)
