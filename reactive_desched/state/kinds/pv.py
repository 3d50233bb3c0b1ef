"""PersistentVolumes: the nodes from which a bound claim can be reached."""

from collections.abc import Callable
from typing import Final

from reactive_desched.model.changes import PvChanged
from reactive_desched.model.node_affinity import NodeSelector
from reactive_desched.model.objects import PersistentVolume
from reactive_desched.state.kinds.interning import InternTables, parse_resource_version
from reactive_desched.state.kinds.kind import Metadata, Purpose, WatchedKind, WireStruct

__all__ = ["PV"]

_TOPOLOGY_LABELS: Final = frozenset(
    f"{prefix}/{label}"
    for prefix in ("topology.kubernetes.io", "failure-domain.beta.kubernetes.io")
    for label in ("zone", "region")
)


class CSIVolumeSource(WireStruct, frozen=True, gc=False):
    """The CSI driver of a volume, and the driver's name for the volume."""

    driver: str = ""
    volume_handle: str = ""


class PvcReference(WireStruct, frozen=True, gc=False):
    """The PVC that a volume is bound to."""

    namespace: str = ""
    name: str = ""


class VolumeNodeAffinity(WireStruct, frozen=True, gc=False):
    """The nodes from which a volume can be reached."""

    required: NodeSelector | None = None


class PvSpec(WireStruct, frozen=True, gc=False):
    """A PV's spec."""

    csi: CSIVolumeSource | None = None
    claim_ref: PvcReference | None = None
    node_affinity: VolumeNodeAffinity | None = None


class WirePv(WireStruct, frozen=True, gc=False):
    """A PersistentVolume's JSON."""

    metadata: Metadata
    spec: PvSpec = PvSpec()


def _reader(tables: InternTables) -> Callable[[WirePv], PersistentVolume]:
    """Return a reader that shares the topology labels and the driver names of volumes."""
    intern = tables.texts.intern

    def read(wire: WirePv) -> PersistentVolume:
        metadata, csi, claim = wire.metadata, wire.spec.csi, wire.spec.claim_ref
        affinity = wire.spec.node_affinity
        return PersistentVolume(
            name=metadata.name,
            uid=metadata.uid,
            resource_version=parse_resource_version(metadata.resource_version),
            required_node_affinity=None if affinity is None else affinity.required,
            topology_labels={
                intern(key): intern(value)
                for key, value in metadata.labels.items()
                if key in _TOPOLOGY_LABELS
            },
            driver="" if csi is None else intern(csi.driver),
            volume_handle="" if csi is None else csi.volume_handle,
            claim_ref="" if claim is None else f"{claim.namespace}/{claim.name}",
        )

    return read


PV: Final = WatchedKind(
    kind="PersistentVolume",
    resource="persistentvolumes",
    api_version="v1",
    namespaced=False,
    record=PersistentVolume,
    wire=WirePv,
    make_reader=_reader,
    make_change=lambda volume: PvChanged(volume.name),
    purpose=Purpose.NODE_FIT,
    read_for="the nodes from which a bound claim can be reached",
    if_forbidden="node fit ignores the node affinity of PersistentVolumes",
)
