"""Reads the API server's JSON: list pages, list items and watch lines, one codec for each kind.

A null means the same as an absent member. An object with a null takes a second, slower reading,
and so does every object that the typed reading refuses, before it counts as malformed.

`managedFields`, two fifths of a pod, are needed for nothing: they are cut out before the typed
reading.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import cached_property
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec import Raw, Struct, field
from msgspec.json import Decoder

from reactive_desched.api.index import Cluster
from reactive_desched.errors import Malformed, QuantityError
from reactive_desched.kube.client.responses import ApiStatus, Body, parse_status
from reactive_desched.kube.large_objects import LARGE_OBJECT_BYTES, LargeObjectReader
from reactive_desched.model.objects import ClusterObject
from reactive_desched.primitives.bounded_text import bounded_name, truncate
from reactive_desched.primitives.decode_errors import DECODE_ERRORS
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.state.kinds.kind import (
    MANAGED_FIELDS,
    NULL,
    WatchedKind,
    WireObject,
    WireStruct,
)
from reactive_desched.state.resources import WATCHED_KINDS

__all__ = [
    "AnyCodec",
    "Codec",
    "ListPage",
    "ReflectorStore",
    "ResourceCodec",
    "WatchEvent",
    "make_codecs",
]

T = TypeVar("T")
Obj = TypeVar("Obj", bound=ClusterObject)
W = TypeVar("W", bound=WireObject)

_CHANGES: Final = frozenset({"ADDED", "MODIFIED", "DELETED"})
_INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
_ITEMS: Final = b'"items":['
_FIRST_ITEM: Final = b'{"metadata":{"name":"'
_NEXT_ITEM: Final = b"}," + _FIRST_ITEM
_TAILS: Final = (b"]}", b"]}\n")
_CUT_AT_ONCE: Final = 8
_MAX_HEAD_BYTES: Final = 4096
_MAX_VERSION_DIGITS: Final = 19  # of the largest revision of etcd
_MAX_ERROR_CHARS: Final = 1000
_DECODE_ERRORS: Final = (*DECODE_ERRORS, QuantityError)


_NEVER_LARGE: Final = sys.maxsize

OnUnread: TypeAlias = Callable[[str, str, str], None]
"""Gets the kind and the name of an object, and the parts of it that were too long to be read."""


class WatchEvent(Struct, Generic[T], frozen=True, gc=False):
    """One line of a watch: an object, the `status` of an ERROR, or a BOOKMARK with neither."""

    type: str
    object: T | None
    resource_version: str
    initial_events_end: bool = False
    status: ApiStatus | None = None


class ListPage(Struct, frozen=True, gc=False):
    """One page of a list; its items are not decoded yet.

    They begin at `items_at` of the body; a negative position says that it is not known.
    """

    body: Body
    resource_version: str
    continue_token: str
    items_at: int = -1


class Codec(Protocol[T]):
    """Decodes one kind of object; raises nothing but `Malformed`."""

    @property
    def path(self) -> str:
        """The URL path that lists the kind in all namespaces, for example `/api/v1/pods`."""
        ...

    @property
    def kind(self) -> str:
        """The kind, for messages."""
        ...

    @property
    def resource(self) -> str:
        """The name of the kind among those that are watched, for metrics."""
        ...

    def decode_event(self, line: bytes) -> WatchEvent[T]:
        """Decode one watch line."""
        ...

    def read_page(self, body: Body) -> ListPage:
        """Read the metadata of one list page."""
        ...

    def decode_page(self, page: ListPage) -> Iterator[T | Malformed]:
        """Yield the objects of a page, or what is wrong with one; each step takes microseconds."""
        ...

    def decode_object(self, raw: Raw | bytes | memoryview) -> T:
        """Decode one object."""
        ...


class ReflectorStore(Protocol[T]):
    """Receives the objects of one reflector; every method is synchronous and quick.

    The objects are unsynced until the first `end_replace` and stale until the first
    `mark_synced`. `remove` may name an object that the store does not have, and may come between
    `begin_replace` and `end_replace`; such an object is not there afterwards.
    """

    def reuse(self, obj: T, /) -> T:
        """Return the object that the store holds where it equals this one of a new list.

        A new list is staged beside the objects of the store: what did not change is there once.
        """
        ...

    def upsert(self, obj: T, /) -> None:
        """Store an object that is new or has changed."""
        ...

    def upsert_many(self, objs: Sequence[T], /) -> None:
        """Store objects of a new list, after `begin_replace`."""
        ...

    def remove(self, obj: T, /) -> None:
        """Remove an object, given as it was last seen or as it was deleted."""
        ...

    def begin_replace(self) -> None:
        """Begin to replace all objects by those of a new list; unsynced until `end_replace`."""
        ...

    def remove_unlisted(self) -> Iterator[None]:
        """Remove the objects that were not upserted since `begin_replace`, step by step."""
        ...

    def end_replace(self) -> None:
        """Take the new list as complete; remove what `remove_unlisted` has not removed yet."""
        ...

    def mark_stale(self, reason: str, /) -> None:
        """The watch ended: no pod may be evicted until `mark_synced`."""
        ...

    def mark_denied(self, reason: str, /) -> bool:
        """The server refuses the resource, repeatedly; return whether the store does without."""
        ...

    def mark_synced(self) -> None:
        """A watch is open and the objects are complete."""
        ...

    def report_malformed(self, error: Malformed, /) -> None:
        """Count and log an object that could not be decoded; it was skipped."""
        ...


# --- the JSON around objects --------------------------------------------------------------------


class ObjectWatchLine(WireStruct, Generic[W], frozen=True, gc=False):
    """A watch line with an object."""

    type: str
    object: W


class RawWatchLine(WireStruct, frozen=True, gc=False):
    """A watch line, its object undecoded."""

    type: str
    object: Raw = NULL


class BookmarkMetadata(WireStruct, frozen=True, gc=False):
    """The resourceVersion, and the annotation that ends the initial events."""

    resource_version: str | None = None
    annotations: dict[str, str | None] | None = None


class Bookmark(WireStruct, frozen=True, gc=False):
    """The object of a BOOKMARK, of which only the metadata is filled in."""

    metadata: BookmarkMetadata


class ListMeta(WireStruct, frozen=True, gc=False):
    """The resourceVersion of a list, and the token of its next page."""

    resource_version: str | None = None
    continue_token: str | None = field(name="continue", default=None)


class WireList(WireStruct, frozen=True, gc=False):
    """A list with undecoded items; a response without `items` is no list."""

    metadata: ListMeta
    items: list[Raw] | None


_LINE_DECODER: Final = Decoder(RawWatchLine)
_PAGE_DECODER: Final = Decoder(WireList)


class IdentityMetadata(WireStruct, frozen=True, gc=False):
    """A name and namespace of any JSON type."""

    namespace: object = None
    name: object = None


class Identity(WireStruct, frozen=True, gc=False):
    """The identity of an object that cannot be decoded."""

    metadata: IdentityMetadata


class ResourceCodec(Generic[W, Obj]):
    """Reads the objects of one watched kind. A `Codec`: raises nothing but `Malformed`."""

    def __init__(
        self,
        kind: WatchedKind[W, Obj],
        tables: InternTables,
        find_known: Callable[[str], Obj | None] | None = None,
        on_unread: OnUnread | None = None,
    ) -> None:
        """Read objects of this kind; `find_known` returns one that was read before, by its key.

        Where the `tables` say so, no more is read of a large object than can be evaluated in a
        moment: `on_unread` gets the name of each object of which parts are left out, and these.
        """
        self.kind: Final = kind.kind
        self.path: Final = kind.path
        self.resource: Final = kind.resource
        self._wire: Final = kind.wire
        self._on_unread: Final = on_unread
        self._convert: Final = self._reporting(kind.make_reader(tables), kind.unread_of)
        self._find_known: Final = find_known or _find_none
        self._read_update: Final = (
            None
            if find_known is None or kind.make_update_reader is None
            else kind.make_update_reader(tables)
        )
        self._mark_unread: Final = kind.mark_unread
        self._large_parts: Final = kind.large_parts
        self._large_bytes: Final = _NEVER_LARGE if tables.reads_all else LARGE_OBJECT_BYTES

    @cached_property  # a snapshot has few kinds, and no watch lines
    def _decode(self) -> Callable[[Raw | bytes | memoryview], W]:
        return Decoder(self._wire).decode

    @cached_property
    def _decode_change(self) -> Callable[[bytes | memoryview], ObjectWatchLine[W]]:
        decoder: Decoder[ObjectWatchLine[W]] = Decoder(
            ObjectWatchLine[self._wire]  # type: ignore[name-defined]  # a type held in a variable
        )
        return decoder.decode

    @cached_property
    def _large_objects(self) -> LargeObjectReader:
        wire: Any = self._wire  # each kind has a Struct
        return LargeObjectReader(wire, self._large_parts)

    def decode_object(self, raw: Raw | bytes | memoryview) -> Obj:
        """Decode one object."""
        if len(raw) > self._large_bytes:
            return self._decode_large(raw)[1]
        try:
            return self._convert(self._decode(raw))
        except _DECODE_ERRORS:
            return self._decode_without_nulls(raw)[1]

    def decode_event(self, line: bytes) -> WatchEvent[Obj]:
        """Decode one watch line; a changed object takes one pass, everything else a second."""
        if len(line) > self._large_bytes:
            return self._decode_large_event(line)
        if (update := self._update(line)) is not None:
            return update
        try:
            change = self._decode_change(_without_managed_fields(line, 0, len(line)))
            record = self._convert(change.object)
        except _DECODE_ERRORS:
            return self._decode_uncommon_event(line)
        if change.type not in _CHANGES:
            return self._decode_uncommon_event(line)
        return self._event(change.type, record, change.object.metadata.resource_version, line)

    def _update(self, line: bytes) -> WatchEvent[Obj] | None:
        """Decode a change of a known object with its help; None where that is not possible."""
        if self._read_update is None:
            return None
        try:
            found = self._read_update(line, self._find_known)
        except _DECODE_ERRORS:
            return None
        return None if found is None else self._event("MODIFIED", found[0], found[1], line)

    def _event(self, event_type: str, record: Obj, version: str, line: bytes) -> WatchEvent[Obj]:
        """Return a change; raises Malformed for a version from which no watch can go on."""
        if version and not _is_number(version):
            name = _name_of(_LINE_DECODER.decode(line).object)
            raise Malformed(self.kind, name, _no_number(version))
        return WatchEvent(event_type, record, version)

    def read_page(self, body: Body) -> ListPage:
        """Read the metadata of one list page, from the beginning of the body if it is there."""
        items_at = body.find(_ITEMS, 0, _MAX_HEAD_BYTES) + len(_ITEMS)
        is_plain = body.startswith(_FIRST_ITEM, items_at) and body.endswith(_TAILS)
        if items_at >= len(_ITEMS) and is_plain:
            with suppress(*_DECODE_ERRORS):
                head = _PAGE_DECODER.decode(body[:items_at] + b"]}")
                return _list_page(body, head, items_at)
        return _list_page(body, self._decode_whole_page(body), -1)

    def decode_page(self, page: ListPage) -> Iterator[Obj | Malformed]:
        """Yield the objects of a page, or what is wrong with one.

        An object is cut out where the next one seems to begin, which costs a fraction of reading
        the page twice. When a cut is wrong or an object malformed, the rest of the page is split by
        the JSON parser.
        """
        count = 0
        if page.items_at >= 0:
            with suppress(Malformed):
                for obj in self._decode_cut_items(page.body, page.items_at):
                    yield obj
                    count += 1
                return
        for raw in (self._decode_whole_page(page.body).items or [])[count:]:
            try:
                yield self.decode_object(raw)
            except Malformed as error:
                yield error

    def _decode_cut_items(self, body: Body, start: int) -> Iterator[Obj]:
        """Yield the objects of a list as an API server writes it: each begins with its name.

        Raises Malformed. A few objects are cut and decoded, then converted: both take longer where
        they take turns with every object.
        """
        view, convert, items_end = memoryview(body), self._convert, body.rindex(b"]}")
        cut, skip = list[tuple[W | None, int, int]](), 0
        while start < items_end:
            start, skip = self._cut_items(body, start, skip, items_end, cut)
            for wire, begin, end in cut:
                try:
                    obj = self.decode_object(view[begin:end]) if wire is None else convert(wire)
                except _DECODE_ERRORS:
                    obj = self.decode_object(view[begin:end])
                yield obj
            cut.clear()

    def _cut_items(
        self,
        body: Body,
        start: int,
        skip: int,
        items_end: int,
        into: list[tuple[W | None, int, int]],
    ) -> tuple[int, int]:
        """Cut and decode the next few objects of a list; return where to go on.

        The end of an object is searched for `skip` bytes after its begin, close to where it is if
        the object is as long as the one before: neighbours are mostly siblings. A cut that is too
        long or too short is no JSON object, so it never decodes; the object is then cut again at
        the first possible place, and left undecoded.
        """
        find, decode = body.find, self._decode
        for _ in range(_CUT_AT_ONCE):
            end = find(_NEXT_ITEM, start + skip) + 1 or items_end
            if end - start > self._large_bytes:
                end = find(_NEXT_ITEM, start) + 1 or items_end
            if end - start > self._large_bytes:
                into.append((None, start, end))
                start, skip = end + 1, 0
                if start >= items_end:
                    break
                continue
            try:
                into.append((decode(_without_managed_fields(body, start, end)), start, end))
            except _DECODE_ERRORS:
                end = find(_NEXT_ITEM, start) + 1 or items_end
                into.append((None, start, end))
            skip = (end - start) * 15 // 16
            start = end + 1
            if start >= items_end:
                break
        return start, skip

    def _decode_large_event(self, line: bytes) -> WatchEvent[Obj]:
        """Decode a watch line that is longer than most."""
        try:
            found = _LINE_DECODER.decode(line)
        except _DECODE_ERRORS:
            return self._decode_uncommon_event(line)
        if found.type not in _CHANGES:
            return self._decode_uncommon_event(line)
        wire, record = self._decode_large(found.object)
        return self._event(found.type, record, wire.metadata.resource_version, line)

    def _decode_large(self, raw: Raw | bytes | memoryview) -> tuple[W, Obj]:
        """Decode as much of a large object as is evaluated; raises Malformed."""
        try:
            trimmed = self._large_objects.trim(raw)
        except _DECODE_ERRORS as error:
            raise Malformed(self.kind, _name_of(raw), _error_message(error)) from error
        if trimmed.unread and self._mark_unread is None:
            text = f"too long to be read: {trimmed.unread_text}"
            raise Malformed(self.kind, _name_of(trimmed.json), text)
        try:
            wire = self._decode(trimmed.json)
            record = self._convert(wire)
        except _DECODE_ERRORS:
            wire, record = self._decode_without_nulls(trimmed.json)
        if not trimmed.unread or self._mark_unread is None:
            return wire, record
        if self._on_unread is not None:
            self._on_unread(self.kind, _name_of(trimmed.json), trimmed.unread_text)
        return wire, self._mark_unread(record, trimmed.unread_text)

    def _reporting(
        self, convert: Callable[[W], Obj], unread_of: Callable[[Obj], str] | None
    ) -> Callable[[W], Obj]:
        """Return a reader that reports what a pod has too much of, where that is wanted."""
        report, kind = self._on_unread, self.kind
        if report is None or unread_of is None:
            return convert

        def read(wire: W) -> Obj:
            record = convert(wire)
            if unread := unread_of(record):
                report(kind, str(record), unread)
            return record

        return read

    def _decode_whole_page(self, body: Body) -> WireList:
        try:
            return _PAGE_DECODER.decode(body)
        except _DECODE_ERRORS as error:
            raise Malformed(f"{self.kind} list", "", _error_message(error)) from error

    def _decode_uncommon_event(self, line: bytes) -> WatchEvent[Obj]:
        """Decode a bookmark, an error, or a change that the typed decoder refused."""
        try:
            found = _LINE_DECODER.decode(line)
        except _DECODE_ERRORS as error:
            raise Malformed(f"{self.kind} watch line", "", _error_message(error)) from error
        if found.type in _CHANGES:
            wire, record = self._decode_without_nulls(found.object)
            return self._event(found.type, record, wire.metadata.resource_version, line)
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
        version = metadata.resource_version or ""
        if version and not _is_number(version):
            if not ended:
                raise Malformed(f"{self.kind} bookmark", "", _no_number(version))
            version = ""  # the initial events end, and no watch can go on from here
        return WatchEvent("BOOKMARK", None, version, initial_events_end=ended)

    def _decode_without_nulls(self, raw: Raw | bytes | memoryview) -> tuple[W, Obj]:
        """Decode an object as if its nulls were absent; raises Malformed with the reason."""
        try:
            wire = self._decode(_without_nulls(raw))
            return wire, self._convert(wire)
        except _DECODE_ERRORS as error:
            raise Malformed(self.kind, _name_of(raw), _error_message(error)) from error


AnyCodec = ResourceCodec[Any, Any]  # every kind has JSON and records of its own


def make_codecs(
    tables: InternTables, state: Cluster | None = None, on_unread: OnUnread | None = None
) -> Mapping[str, AnyCodec]:
    """Return the codec of every watched kind, by resource name; all share the same tables.

    With the `state` that keeps the objects, an update is read with the help of the known object;
    `on_unread` is as in ResourceCodec.
    """
    return {
        resource: ResourceCodec(
            kind, tables, None if state is None else state.store(kind.record).get, on_unread
        )
        for resource, kind in WATCHED_KINDS.items()
    }


def _find_none(_: str) -> None:
    return None


def _is_number(version: str) -> bool:
    """Say whether a watch can go on from this version: it is a revision of etcd."""
    return version.isdecimal() and len(version) <= _MAX_VERSION_DIGITS and version.isascii()


def _no_number(version: str) -> str:
    return f"its resourceVersion {version[:_MAX_VERSION_DIGITS]!r} is no number"


def _list_page(body: Body, wire: WireList, items_at: int) -> ListPage:
    metadata = wire.metadata
    return ListPage(body, metadata.resource_version or "", metadata.continue_token or "", items_at)


def _without_managed_fields(body: Body, start: int, end: int) -> bytes | memoryview:
    """Return the JSON from `start` to `end` without its managedFields, up to their first `]`.

    That is their end, nearly always. In an array or a string within them it would leave a bracket
    or a quote too many: what is returned is then no JSON, and the caller reads the whole.
    """
    view = memoryview(body)
    begins = body.find(MANAGED_FIELDS, start, end)
    ends = body.find(b"]", begins, end)
    if begins < 0 or ends < 0:
        return view[start:end]
    return b"".join((view[start:begins], view[ends + 1 : end]))


def _without_nulls(raw: Raw | bytes | memoryview) -> bytes:
    """Return the same JSON without the members that are null.

    Fractions become texts with the same digits, as in a quantity.
    """
    return msgspec.json.encode(_drop_nulls(Decoder(float_hook=Decimal).decode(raw)))


def _drop_nulls(value: Any) -> Any:  # any JSON value
    if isinstance(value, dict):
        return {key: _drop_nulls(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [_drop_nulls(element) for element in value]
    return value


def _name_of(raw: Raw | bytes | memoryview) -> str:
    """Return namespace/name, or as much of it as can be read."""
    try:
        identity = msgspec.json.decode(raw, type=Identity).metadata
    except _DECODE_ERRORS:
        return ""
    parts = (identity.namespace, identity.name)
    return "/".join(bounded_name(part) for part in parts if isinstance(part, str) and part)


def _error_message(error: BaseException) -> str:
    """Return the error's text and, if it is known, the part of the object that it is about."""
    return truncate(" ".join([str(error), *getattr(error, "__notes__", ())]), _MAX_ERROR_CHARS)
