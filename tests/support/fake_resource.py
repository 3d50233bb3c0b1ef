"""A resource of the tests' own, `things`: its codec, and an event handler that records."""

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Raw, Struct

from reactive_desched.errors import Malformed
from reactive_desched.kube.client.responses import Body, parse_status
from reactive_desched.kube.codec import ListPage, WatchEvent

__all__ = ["FakeCodec", "FakeObject", "RecordingEventHandler"]

_END_MARK = "k8s.io/initial-events-end"


class FakeObject(Struct, frozen=True, gc=False):
    """One object, as small as an object can be."""

    name: str
    value: str


class _Meta(Struct, rename="camel"):
    resource_version: str = ""
    name: str = ""
    annotations: dict[str, str] = {}


class _Wire(Struct):
    metadata: _Meta
    value: str = ""


class _Line(Struct):
    type: str
    object: Raw


class _ListMeta(Struct, rename="camel"):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class _List(Struct):
    metadata: _ListMeta
    items: list[Raw]


class FakeCodec:
    """Reads things; an object whose value is no text is malformed."""

    path = "/apis/testing/v1/things"
    kind = "Thing"
    resource = "things"

    def decode_event(self, line: bytes) -> WatchEvent[FakeObject]:
        """Decode one watch line."""
        try:
            line_data = msgspec.json.decode(line, type=_Line)
            if line_data.type == "ERROR":
                return WatchEvent("ERROR", None, "", status=parse_status(line_data.object))
            wire = msgspec.json.decode(line_data.object, type=_Wire)
        except msgspec.MsgspecError as error:
            raise Malformed(self.kind, "", str(error)) from error
        meta = wire.metadata
        if line_data.type == "BOOKMARK":
            ended = meta.annotations.get(_END_MARK) == "true"
            return WatchEvent("BOOKMARK", None, meta.resource_version, ended)
        return WatchEvent(line_data.type, FakeObject(meta.name, wire.value), meta.resource_version)

    def read_page(self, body: Body) -> ListPage:
        """Read the metadata of one page."""
        meta = self._page(body).metadata
        return ListPage(body, meta.resource_version, meta.continue_token)

    def decode_page(self, page: ListPage) -> Iterator[FakeObject | Malformed]:
        """Yield the objects of one page."""
        for raw in self._page(page.body).items:
            try:
                yield self.decode_object(raw)
            except Malformed as error:
                yield error

    def _page(self, body: Body) -> _List:
        try:
            return msgspec.json.decode(body, type=_List)
        except msgspec.MsgspecError as error:
            raise Malformed("ThingList", "", str(error)) from error

    def decode_object(self, raw: Raw | bytes | memoryview) -> FakeObject:
        """Decode one object."""
        try:
            wire = msgspec.json.decode(raw, type=_Wire)
        except msgspec.MsgspecError as error:
            raise Malformed(self.kind, "", str(error)) from error
        return FakeObject(wire.metadata.name, wire.value)


class RecordingEventHandler:
    """Holds what it was given, and every one of its `calls` in order."""

    def __init__(self) -> None:
        self.objects: dict[str, str] = {}
        self.calls: list[str] = []
        self.synced = False
        self.is_fresh = False
        self.reason = ""
        self.is_dispensable = False
        self.unreadable: list[str] = []
        self._listed_names: set[str] | None = None

    def reuse(self, obj: FakeObject, /) -> FakeObject:
        """Return the object as it is."""
        return obj

    def upsert(self, obj: FakeObject, /) -> None:
        """Take an object."""
        self.objects[obj.name] = obj.value
        if self._listed_names is not None:
            self._listed_names.add(obj.name)
        self.calls.append(f"upsert {obj.name}={obj.value}")

    def upsert_many(self, objs: Sequence[FakeObject], /) -> None:
        """Take objects of a list."""
        for obj in objs:
            self.upsert(obj)

    def remove(self, obj: FakeObject, /) -> None:
        """Forget an object."""
        self.objects.pop(obj.name, None)
        if self._listed_names is not None:
            self._listed_names.discard(obj.name)
        self.calls.append(f"remove {obj.name}")

    def begin_replace(self) -> None:
        """Prepare for a whole new picture."""
        self._listed_names = set()
        self.synced = False
        self.calls.append("begin")

    def remove_unlisted(self) -> Iterator[None]:
        """Leave it all to `end_replace`."""
        return iter(())

    def end_replace(self) -> None:
        """Forget what the new picture does not hold."""
        assert self._listed_names is not None, "end_replace without begin_replace"
        self.objects = {name: self.objects[name] for name in self._listed_names}
        self._listed_names = None
        self.synced = True
        self.calls.append("end")

    def mark_stale(self, reason: str, /) -> None:
        """Know that the link is lost."""
        self.is_fresh = False
        self.reason = reason
        self.calls.append("stale")

    def mark_denied(self, reason: str, /) -> bool:
        """Know that the server refuses."""
        self.reason = reason
        self.calls.append("denied")
        return self.is_dispensable

    def mark_synced(self) -> None:
        """Know that the link is up."""
        self.is_fresh = True
        self.calls.append("fresh")

    def report_malformed(self, error: Malformed, /) -> None:
        """Note what could not be read."""
        self.unreadable.append(str(error))
