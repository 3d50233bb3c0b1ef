"""PersistentVolumeClaims: the storage class and the volume behind a pod's volumes."""

from collections.abc import Callable
from typing import Final

from reactive_desched.model.changes import PvcChanged
from reactive_desched.model.objects import PersistentVolumeClaim
from reactive_desched.state.kinds.interning import (
    InternTables,
    epoch_seconds,
    parse_resource_version,
)
from reactive_desched.state.kinds.kind import Metadata, Timestamp, WatchedKind, WireStruct

__all__ = ["PVC"]


class PvcMetadata(Metadata, frozen=True, gc=False):
    """A PVC's metadata: a PVC that is being deleted serves no new pod."""

    deletion_timestamp: Timestamp | None = None


class PvcSpec(WireStruct, frozen=True, gc=False):
    """A PVC's spec."""

    storage_class_name: str = ""
    volume_name: str = ""
    access_modes: tuple[str, ...] = ()


class PvcStatus(WireStruct, frozen=True, gc=False):
    """A PVC's status."""

    phase: str = ""


class WirePvc(WireStruct, frozen=True, gc=False):
    """A PersistentVolumeClaim's JSON."""

    metadata: PvcMetadata
    spec: PvcSpec = PvcSpec()
    status: PvcStatus = PvcStatus()


def _reader(tables: InternTables) -> Callable[[WirePvc], PersistentVolumeClaim]:
    """Return a reader that shares the names with the pods that mount the PVC."""
    intern = tables.texts.intern

    def read(wire: WirePvc) -> PersistentVolumeClaim:
        metadata, spec = wire.metadata, wire.spec
        return PersistentVolumeClaim(
            namespace=intern(metadata.namespace),
            name=intern(metadata.name),
            uid=metadata.uid,
            resource_version=parse_resource_version(metadata.resource_version),
            storage_class=intern(spec.storage_class_name),
            volume_name=spec.volume_name,
            phase=intern(wire.status.phase),
            read_write_once_pod="ReadWriteOncePod" in spec.access_modes,
            deletion_s=epoch_seconds(metadata.deletion_timestamp),
        )

    return read


PVC: Final = WatchedKind(
    kind="PersistentVolumeClaim",
    resource="persistentvolumeclaims",
    api_version="v1",
    namespaced=True,
    record=PersistentVolumeClaim,
    wire=WirePvc,
    make_reader=_reader,
    make_change=lambda pvc: PvcChanged(pvc.namespace, pvc.name),
    read_for="the storage class of a pod's volumes",
)
