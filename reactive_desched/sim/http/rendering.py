"""The form objects take on the wire: as they are, as metadata only, or as a printed table."""

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct

from reactive_desched.sim.http.negotiate import Accepted
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.status import StatusError, bad_request
from reactive_desched.sim.tables import columns, row_cells
from reactive_desched.sim.views import View

__all__ = ["Rendering", "encode", "rendering_for"]

_INCLUDE = ("Metadata", "Object", "None")

encode = msgspec.json.Encoder().encode
"""JSON as compact as it gets."""


class Rendering(Struct, frozen=True):
    """One way to show the objects of one view; equal renderings share encoded events."""

    view: View
    accepted: Accepted
    include: str = "Metadata"

    def one(self, obj: Obj, now: float) -> Obj:
        """Show a single object, as get, write and watch answers do."""
        match self.accepted.form:
            case "Table":
                return self._table([obj], {"resourceVersion": _version(obj)}, now)
            case "PartialObjectMetadata" | "PartialObjectMetadataList":
                return self._partial(obj)
            case _:
                return self.view.shown(obj)

    def bookmark(self, rv: int, *, ends_initial: bool) -> Obj:
        """Show nothing but a version."""
        meta: Obj = {"resourceVersion": str(rv)}
        if ends_initial:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        match self.accepted.form:
            case "Table":
                return self._table([], meta, 0.0)
            case "PartialObjectMetadata" | "PartialObjectMetadataList":
                return {**self._partial_type(""), "metadata": meta}
        kind = self.view.resource
        # The empty parts are what a real server sends too: readers must not choke on them.
        empty: Obj = {"spec": {}, "status": {}} if kind.has_status else {}
        return {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": meta, **empty}

    def collection(self, objects: list[Obj], meta: Obj, now: float) -> Obj | None:
        """Show a list in one piece, or None when its items can be sent as they come."""
        match self.accepted.form:
            case "Table":
                return self._table(objects, meta, now)
            case "PartialObjectMetadataList":
                items = [self._partial(obj) for obj in objects]
                return {**self._partial_type("List"), "metadata": meta, "items": items}
            case "PartialObjectMetadata":
                raise StatusError(
                    406,
                    "NotAcceptable",
                    "you requested PartialObjectMetadata, but the requested object is a list:"
                    " ask for PartialObjectMetadataList",
                )
        return None

    def items(self, objects: Iterable[Obj]) -> Iterator[Obj]:
        """Show objects as members of a list, where only custom ones carry a kind of their own."""
        for obj in objects:
            shown = dict(self.view.shown(obj))
            if not self.view.resource.is_custom:
                shown.pop("apiVersion", None)
                shown.pop("kind", None)
            yield shown

    def _partial_type(self, suffix: str) -> Obj:
        version = f"meta.k8s.io/{self.accepted.version}"
        return {"kind": f"PartialObjectMetadata{suffix}", "apiVersion": version}

    def _partial(self, obj: Obj) -> Obj:
        return {**self._partial_type(""), "metadata": obj["metadata"]}

    def _table(self, objects: list[Obj], meta: Obj, now: float) -> Obj:
        return {
            "kind": "Table",
            "apiVersion": f"meta.k8s.io/{self.accepted.version}",
            "metadata": meta,
            "columnDefinitions": columns(self.view),
            "rows": [self._row(obj, now) for obj in objects],
        }

    def _row(self, obj: Obj, now: float) -> Obj:
        row: Obj = {"cells": row_cells(self.view, obj, now)}
        match self.include:
            case "Metadata":
                partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
                row["object"] = {**partial, "metadata": obj["metadata"]}
            case "Object":
                row["object"] = self.view.shown(obj)
        return row


def rendering_for(view: View, accepted: Accepted, include: str) -> Rendering:
    """Combine what the client asked for; raise 400 for an unknown `includeObject`."""
    include = include or "Metadata"
    if include not in _INCLUDE:
        raise bad_request(f"unrecognized includeObject value: {include!r}: use {_INCLUDE}")
    return Rendering(view, accepted, include)


def _version(obj: Obj) -> str:
    return str(obj["metadata"].get("resourceVersion", ""))
