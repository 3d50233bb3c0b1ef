"""Reads the API server's JSON: list pages, list items and watch lines, one codec for each kind.

A null means the same as an absent member. An object with a null takes a second, slower reading,
and so does every object that the typed reading refuses, before it counts as malformed.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct, field
from msgspec.json import Decoder

from reactive_desched.errors import Malformed, QuantityError
from reactive_desched.kube.client.responses import ApiStatus, parse_status
from reactive_desched.model.objects import ClusterObject
from reactive_desched.primitives.decode_errors import DECODE_ERRORS
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.state.kinds.kind import NULL, WatchedKind, WireObject, WireStruct
from reactive_desched.state.resources import WATCHED_KINDS

__all__ = [
    "FULL_OBJECT",
    "METADATA_ONLY",
    "AcceptHeaders",
    "AnyCodec",
    "Codec",
    "RawListPage",
    "ReflectorStore",
    "ResourceCodec",
    "WatchEvent",
    "make_codecs",
]

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
Obj = TypeVar("Obj", bound=ClusterObject)
W = TypeVar("W", bound=WireObject)

_CHANGES: Final = frozenset({"ADDED", "MODIFIED", "DELETED"})
_INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
_DECODE_ERRORS: Final = (*DECODE_ERRORS, QuantityError)


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


# --- the JSON around objects --------------------------------------------------------------------


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


class ResourceCodec(Generic[W, Obj]):
    """Reads the objects of one watched kind. A `Codec`: raises nothing but `Malformed`."""

    def __init__(self, kind: WatchedKind[W, Obj], tables: InternTables) -> None:
        self.kind: Final = kind.kind
        self.path: Final = kind.path
        self.accept: Final = METADATA_ONLY if kind.metadata_only else FULL_OBJECT
        self._convert: Final = kind.make_reader(tables)
        self._object_decoder: Final = Decoder(kind.wire)
        self._change_decoder: Final[Decoder[ObjectWatchLine[W]]] = Decoder(
            ObjectWatchLine[kind.wire]  # type: ignore[name-defined]  # a type held in a variable
        )
        self._line_decoder: Final = Decoder(RawWatchLine)
        self._page_decoder: Final = Decoder(ListPage)

    def decode_object(self, raw: Raw | bytes) -> Obj:
        """Decode one object."""
        try:
            return self._convert(self._object_decoder.decode(raw))
        except _DECODE_ERRORS:
            return self._decode_without_nulls(raw)[1]

    def decode_event(self, line: bytes) -> WatchEvent[Obj]:
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

    def _decode_uncommon_event(self, line: bytes) -> WatchEvent[Obj]:
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

    def _decode_bookmark(self, raw: Raw) -> WatchEvent[Obj]:
        try:
            metadata = msgspec.json.decode(raw, type=Bookmark).metadata
        except _DECODE_ERRORS as error:
            raise Malformed(f"{self.kind} bookmark", "", _error_message(error)) from error
        annotations = metadata.annotations or {}
        ended = annotations.get(_INITIAL_EVENTS_END) == "true"
        version_ = metadata.resource_version or ""
        return WatchEvent("BOOKMARK", None, version_, initial_events_end=ended)

    def _decode_without_nulls(self, raw: Raw | bytes) -> tuple[W, Obj]:
        """Read an object as if its nulls were absent, or say what is wrong with it."""
        try:
            wire = self._object_decoder.decode(_without_nulls(raw))
            return wire, self._convert(wire)
        except _DECODE_ERRORS as error:
            raise Malformed(self.kind, _name_of(raw), _error_message(error)) from error


AnyCodec = ResourceCodec[Any, Any]  # every kind has JSON and records of its own


def make_codecs(tables: InternTables) -> Mapping[str, AnyCodec]:
    """Return the codec of every watched kind, by resource name; all share the same tables."""
    return {resource: ResourceCodec(kind, tables) for resource, kind in WATCHED_KINDS.items()}


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
