"""The members we read of the API's objects; msgspec skips everything else without building it.

A `Raw` member is one that thousands of objects repeat: it stays text until it is looked up by
its content. Moments are decoded with their zone, never as text.
"""

from datetime import datetime
from typing import Annotated, Final, Generic, Protocol, TypeVar

from msgspec import Meta, Raw, Struct, field

from reactive_desched.model.labels import Labels, LabelSelector
from reactive_desched.model.node_affinity import NodeSelector
from reactive_desched.model.objects import OwnerReference
from reactive_desched.model.taints import Taint

NonEmptyStr = Annotated[str, Meta(min_length=1)]
Timestamp = Annotated[datetime, Meta(tz=True)]

EMPTY_LIST: Final = Raw(b"[]")
EMPTY_OBJECT: Final = Raw(b"{}")
NULL: Final = Raw(b"null")


class WireStruct(Struct, frozen=True, gc=False, rename="camel"):
    """Base of all: camel case on the wire, unknown members ignored."""


class Presence(WireStruct, frozen=True, gc=False):
    """An object of which only its being there matters."""


# --- what every resource has -------------------------------------------------------------------


class Metadata(WireStruct, frozen=True, gc=False):
    """Who an object is."""

    name: NonEmptyStr
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: Labels = {}


class HasResourceVersion(Protocol):
    """Metadata of any kind."""

    @property
    def resource_version(self) -> str:
        """The version as the server wrote it."""


class WireObject(Protocol):
    """An object of any kind."""

    @property
    def metadata(self) -> HasResourceVersion:
        """Its metadata."""


W = TypeVar("W", bound=WireObject)


class ObjectWatchLine(WireStruct, Generic[W], frozen=True, gc=False):
    """A watch line that carries a whole object."""

    type: str
    object: W


class RawWatchLine(WireStruct, frozen=True, gc=False):
    """A watch line whatever it carries."""

    type: str
    object: Raw = NULL


class BookmarkMetadata(WireStruct, frozen=True, gc=False):
    """The version, and the annotation that ends a streamed list."""

    resource_version: str | None = None
    annotations: dict[str, str | None] | None = None


class Bookmark(WireStruct, frozen=True, gc=False):
    """An object of which only the metadata can be relied on."""

    metadata: BookmarkMetadata


class ListMeta(WireStruct, frozen=True, gc=False):
    """Where a list stands and how to go on."""

    resource_version: str | None = None
    continue_token: str | None = field(name="continue", default=None)


class ListPage(WireStruct, frozen=True, gc=False):
    """A list, its items untouched; a reply without `items` is no list."""

    metadata: ListMeta
    items: list[Raw] | None


class IdentityMetadata(WireStruct, frozen=True, gc=False):
    """A name that may be anything."""

    namespace: object = None
    name: object = None


class Identity(WireStruct, frozen=True, gc=False):
    """What can be said of an object that cannot be read."""

    metadata: IdentityMetadata


# --- those of which only the metadata is asked for ----------------------------------------------


class OwnerMetadata(WireStruct, frozen=True, gc=False):
    """Who an object is, and what owns it."""

    uid: NonEmptyStr
    resource_version: str = ""
    owner_references: tuple[OwnerReference, ...] = ()


class WireOwner(WireStruct, frozen=True, gc=False):
    """An object of which only its owners matter, whole or as PartialObjectMetadata."""

    metadata: OwnerMetadata


# --- the others --------------------------------------------------------------------------------


class NodeCondition(WireStruct, frozen=True, gc=False):
    """One of the kubelet's conditions."""

    type: str = ""
    status: str = ""


class WireNodeSpec(WireStruct, frozen=True, gc=False):
    """A node's spec."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class WireNodeStatus(WireStruct, frozen=True, gc=False):
    """A node's status."""

    allocatable: Raw = EMPTY_OBJECT
    conditions: tuple[NodeCondition, ...] = ()


class WireNode(WireStruct, frozen=True, gc=False):
    """A node."""

    metadata: Metadata
    spec: WireNodeSpec = WireNodeSpec()
    status: WireNodeStatus = WireNodeStatus()


class WireNamespace(WireStruct, frozen=True, gc=False):
    """A namespace."""

    metadata: Metadata


class WirePriorityClass(WireStruct, frozen=True, gc=False):
    """A priority class."""

    metadata: Metadata
    value: int = 0


class PdbSpec(WireStruct, frozen=True, gc=False):
    """Whom a budget covers; no selector covers none, an empty one everybody."""

    selector: LabelSelector | None = None


class PdbStatus(WireStruct, frozen=True, gc=False):
    """What a budget has left."""

    disruptions_allowed: int = 0


class WirePdb(WireStruct, frozen=True, gc=False):
    """A pod disruption budget."""

    metadata: Metadata
    spec: PdbSpec = PdbSpec()
    status: PdbStatus = PdbStatus()


class PvcMetadata(Metadata, frozen=True, gc=False):
    """A claim's metadata: one that is being deleted serves no new pod."""

    deletion_timestamp: Timestamp | None = None


class PvcSpec(WireStruct, frozen=True, gc=False):
    """What a claim asks for."""

    storage_class_name: str = ""
    volume_name: str = ""
    access_modes: tuple[str, ...] = ()


class PvcStatus(WireStruct, frozen=True, gc=False):
    """How a claim fares."""

    phase: str = ""


class WirePvc(WireStruct, frozen=True, gc=False):
    """A persistent volume claim."""

    metadata: PvcMetadata
    spec: PvcSpec = PvcSpec()
    status: PvcStatus = PvcStatus()


class CSIVolumeSource(WireStruct, frozen=True, gc=False):
    """The driver behind a volume, and what it calls the volume."""

    driver: str = ""
    volume_handle: str = ""


class PvcReference(WireStruct, frozen=True, gc=False):
    """The claim a volume is bound to."""

    namespace: str = ""
    name: str = ""


class VolumeNodeAffinity(WireStruct, frozen=True, gc=False):
    """The nodes a volume can be reached from."""

    required: NodeSelector | None = None


class PvSpec(WireStruct, frozen=True, gc=False):
    """What a volume is."""

    csi: CSIVolumeSource | None = None
    claim_ref: PvcReference | None = None
    node_affinity: VolumeNodeAffinity | None = None


class WirePv(WireStruct, frozen=True, gc=False):
    """A persistent volume."""

    metadata: Metadata
    spec: PvSpec = PvSpec()


class VolumeNodeResources(WireStruct, frozen=True, gc=False):
    """How many volumes a driver can attach to a node; unlimited where it does not say."""

    count: int | None = None


class CSINodeDriver(WireStruct, frozen=True, gc=False):
    """A storage driver on a node."""

    name: str = ""
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(WireStruct, frozen=True, gc=False):
    """The storage drivers of a node."""

    drivers: tuple[CSINodeDriver, ...] = ()


class WireCSINode(WireStruct, frozen=True, gc=False):
    """What the storage drivers say of a node."""

    metadata: Metadata
    spec: CSINodeSpec = CSINodeSpec()
