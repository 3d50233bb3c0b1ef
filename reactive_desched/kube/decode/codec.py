"""The two contracts of a reflector: how one resource is read, and where its objects go."""

from typing import Final, Generic, Protocol, TypeVar

from msgspec import Raw, Struct

from reactive_desched.errors import Malformed
from reactive_desched.kube.client.responses import ApiStatus

__all__ = [
    "FULL_OBJECT",
    "METADATA_ONLY",
    "AcceptHeaders",
    "Codec",
    "RawListPage",
    "ReflectorStore",
    "WatchEvent",
]

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class WatchEvent(Struct, Generic[T], frozen=True, gc=False):
    """One line of a watch; an ERROR carries `status` in place of an object, a BOOKMARK neither."""

    type: str
    object: T | None
    resource_version: str
    initial_events_end: bool = False
    status: ApiStatus | None = None


class RawListPage(Struct, frozen=True, gc=False):
    """One page of a list, split but not decoded; every `Raw` keeps the whole page alive."""

    items: list[Raw]
    resource_version: str
    continue_token: str


class AcceptHeaders(Struct, frozen=True, gc=False):
    """The form of answer to ask a list and a watch for, as Accept headers say it."""

    list: str
    watch: str


_JSON: Final = "application/json"
FULL_OBJECT: Final = AcceptHeaders(_JSON, _JSON)
# A server that cannot leave the rest out sends whole objects, which read the same.
METADATA_ONLY: Final = AcceptHeaders(
    f"{_JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{_JSON};q=0.5",
    f"{_JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{_JSON};q=0.5",
)


class Codec(Protocol[T]):
    """Reads one resource; never raises anything but `Malformed`."""

    @property
    def path(self) -> str:
        """The path that lists it in all namespaces, for example `/api/v1/pods`."""
        ...

    @property
    def kind(self) -> str:
        """Its kind, for messages."""
        ...

    @property
    def accept(self) -> AcceptHeaders:
        """How much of each object to ask for."""
        ...

    def decode_event(self, line: bytes) -> WatchEvent[T]:
        """Decode one watch line."""
        ...

    def split_page(self, body: bytes) -> RawListPage:
        """Split one list page into undecoded items."""
        ...

    def decode_object(self, raw: Raw | bytes) -> T:
        """Decode one object."""
        ...


class ReflectorStore(Protocol[T_contra]):
    """Takes one resource's objects; every method is synchronous and quick.

    A feed counts as unsynced until the first `end_replace`, and as stale until the first `fresh`.
    `remove` may arrive for an object that is not there, and also between `begin_replace` and
    `end_replace`; such an object is gone after the swap.
    """

    def upsert(self, obj: T_contra, /) -> None:
        """Take an object that is new or has changed."""
        ...

    def remove(self, obj: T_contra, /) -> None:
        """Forget an object; it may be its last state or the one it was deleted with."""
        ...

    def begin_replace(self) -> None:
        """Prepare for a whole new picture; unsynced until `end_replace`."""
        ...

    def end_replace(self) -> None:
        """Forget everything that was not upserted since `begin_replace`."""
        ...

    def mark_stale(self, reason: str, /) -> None:
        """Know that the link is lost: nothing may be evicted until `fresh`."""
        ...

    def mark_denied(self, reason: str, /) -> None:
        """Know that the server refuses this resource, and not only for a moment."""
        ...

    def mark_synced(self) -> None:
        """Know that a watch is open on a complete picture."""
        ...

    def report_malformed(self, error: Malformed, /) -> None:
        """Count and name something that could not be read; it was skipped."""
        ...
