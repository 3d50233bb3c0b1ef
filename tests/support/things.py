"""A resource nobody has, `things`: its codec and a feed that remembers."""

import msgspec
from msgspec import Raw, Struct

from reactive_desched.errors import Malformed
from reactive_desched.kube.client.responses import parse_status
from reactive_desched.kube.decode.codec import WHOLE, Page, WatchEvent

__all__ = ["RememberingFeed", "Thing", "ThingCodec"]

_END_MARK = "k8s.io/initial-events-end"


class Thing(Struct, frozen=True, gc=False):
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


class ThingCodec:
    """Reads things; an object whose value is no text is malformed."""

    path = "/apis/testing/v1/things"
    kind = "Thing"
    forms = WHOLE

    def event(self, line: bytes) -> WatchEvent[Thing]:
        """Decode one watch line."""
        try:
            told = msgspec.json.decode(line, type=_Line)
            if told.type == "ERROR":
                return WatchEvent("ERROR", None, "", status=parse_status(told.object))
            wire = msgspec.json.decode(told.object, type=_Wire)
        except msgspec.MsgspecError as error:
            raise Malformed(self.kind, "", str(error)) from error
        meta = wire.metadata
        if told.type == "BOOKMARK":
            ended = meta.annotations.get(_END_MARK) == "true"
            return WatchEvent("BOOKMARK", None, meta.resource_version, ended)
        return WatchEvent(told.type, Thing(meta.name, wire.value), meta.resource_version)

    def page(self, body: bytes) -> Page:
        """Split one page."""
        try:
            page = msgspec.json.decode(body, type=_List)
        except msgspec.MsgspecError as error:
            raise Malformed("ThingList", "", str(error)) from error
        meta = page.metadata
        return Page(page.items, meta.resource_version, meta.continue_token)

    def item(self, raw: Raw | bytes) -> Thing:
        """Decode one object."""
        try:
            wire = msgspec.json.decode(raw, type=_Wire)
        except msgspec.MsgspecError as error:
            raise Malformed(self.kind, "", str(error)) from error
        return Thing(wire.metadata.name, wire.value)


class RememberingFeed:
    """Holds what it was given, and a `story` of every call in order."""

    def __init__(self) -> None:
        self.things: dict[str, str] = {}
        self.story: list[str] = []
        self.synced = False
        self.is_fresh = False
        self.reason = ""
        self.unreadable: list[str] = []
        self._kept: set[str] | None = None

    def upsert(self, obj: Thing, /) -> None:
        """Take an object."""
        self.things[obj.name] = obj.value
        if self._kept is not None:
            self._kept.add(obj.name)
        self.story.append(f"upsert {obj.name}={obj.value}")

    def remove(self, obj: Thing, /) -> None:
        """Forget an object."""
        self.things.pop(obj.name, None)
        if self._kept is not None:
            self._kept.discard(obj.name)
        self.story.append(f"remove {obj.name}")

    def begin_replace(self) -> None:
        """Prepare for a whole new picture."""
        self._kept = set()
        self.synced = False
        self.story.append("begin")

    def end_replace(self) -> None:
        """Forget what the new picture does not hold."""
        assert self._kept is not None, "end_replace without begin_replace"
        self.things = {name: self.things[name] for name in self._kept}
        self._kept = None
        self.synced = True
        self.story.append("end")

    def stale(self, reason: str, /) -> None:
        """Know that the link is lost."""
        self.is_fresh = False
        self.reason = reason
        self.story.append("stale")

    def denied(self, reason: str, /) -> None:
        """Know that the server refuses."""
        self.reason = reason
        self.story.append("denied")

    def fresh(self) -> None:
        """Know that the link is up."""
        self.is_fresh = True
        self.story.append("fresh")

    def malformed(self, error: Malformed, /) -> None:
        """Note what could not be read."""
        self.unreadable.append(str(error))
