"""The kinds that a server has now: the built-in ones, and those that clients define."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from reactive_desched.sim.objects import Obj
from reactive_desched.sim.resources import RESOURCES, Resource, ScalePaths, served
from reactive_desched.sim.structural import StructuralSchema
from reactive_desched.sim.views import VIEWS, PrintedColumn, View

__all__ = ["Kinds", "is_built_in"]

_PARTS: Final = ("status", "scale")
"""The subresources that custom resources may have."""
_ANYTHING: Final[Obj] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


class Kinds:
    """Kinds by their plural: a custom one cannot have the plural of another, whatever its group.

    Bounded by the CustomResourceDefinitions.
    """

    def __init__(self) -> None:
        self._stored: dict[str, Resource] = dict(RESOURCES)
        self._by_name = {(kind.group, kind.kind): kind for kind in RESOURCES.values()}
        self._custom: dict[str, dict[tuple[str, str, str], View]] = {}

    def __getitem__(self, plural: str) -> Resource:
        return self._stored[plural]

    def __iter__(self) -> Iterator[Resource]:
        return iter(tuple(self._stored.values()))

    def served(self) -> Iterator[Resource]:
        """Yield every kind with an endpoint, once for each of its versions."""
        yield from served()
        for views in tuple(self._custom.values()):
            yield from (view.resource for view in views.values())

    def view(self, group: str, version: str, plural: str) -> View | None:
        """Return a kind as a group and version serves it; None where it does not."""
        found = self._custom.get(plural, {}).get((group, version, plural))
        return found or VIEWS.get((group, version, plural))

    def of_kind(self, group: str, kind: str) -> Resource | None:
        """Return a kind by its name; None where there is none."""
        return self._by_name.get((group, kind))

    def conflict(self, definition: Obj) -> str:
        """Return why the names of a definition cannot be accepted; empty where they can."""
        group, plural = definition["spec"]["group"], definition["spec"]["names"]["plural"]
        known = self._stored.get(plural)
        if known is None or known.group == group:
            return ""
        return f'"{plural}" is already in use'

    def define(self, definition: Obj) -> None:
        """Serve a definition's kind, unless it is built in; its names were accepted."""
        spec = definition["spec"]
        plural = spec["names"]["plural"]
        if plural in RESOURCES:
            return
        stored = next(each for each in spec["versions"] if each.get("storage"))
        kind = self._stored[plural] = _resource(spec, stored)
        self._by_name[kind.group, kind.kind] = kind
        views = (_view(spec, each) for each in spec["versions"] if each.get("served"))
        self._custom[plural] = {
            (view.resource.group, view.resource.version, plural): view for view in views
        }

    def forget(self, plural: str) -> None:
        """Serve a kind no more whose definition is gone."""
        if self._custom.pop(plural, None) is not None:
            kind = self._stored.pop(plural)
            del self._by_name[kind.group, kind.kind]


def is_built_in(definition: Obj) -> bool:
    """Say whether the server has a definition's kind without it."""
    known = RESOURCES.get(definition["spec"]["names"]["plural"])
    return known is not None and known.group == definition["spec"]["group"]


def _resource(spec: Obj, version: Obj) -> Resource:
    names, parts = spec["names"], version.get("subresources") or {}
    return Resource(
        plural=names["plural"],
        kind=names["kind"],
        group=spec["group"],
        version=version["name"],
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=tuple(part for part in _PARTS if part in parts),
        named_singular=str(names.get("singular") or ""),
        has_generation=True,
        blind_update=False,
        is_custom=True,
        selectable=tuple(
            str(each["jsonPath"]).removeprefix(".")
            for each in version.get("selectableFields") or ()
        ),
        scale=_scale_paths(parts.get("scale") or {}),
    )


def _scale_paths(scale: Obj) -> ScalePaths:
    paths = ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")
    return ScalePaths(*(str(scale.get(each) or "") for each in paths))


def _view(spec: Obj, version: Obj) -> View:
    resource = _resource(spec, version)
    schema = StructuralSchema((version.get("schema") or {}).get("openAPIV3Schema") or _ANYTHING)
    printed = tuple(
        PrintedColumn(
            name=str(each.get("name")),
            path=str(each.get("jsonPath")),
            type=str(each.get("type")),
            form=str(each.get("format") or ""),
            description=str(each.get("description") or ""),
            priority=int(each.get("priority") or 0),
        )
        for each in version.get("additionalPrinterColumns") or ()
    )
    # Versions differ in their name and schema alone, as without a webhook for conversion.
    outward = partial(_as, resource.api_version, schema)
    return View(resource, outward, schema.filled, schema, printed)


def _as(api_version: str, schema: StructuralSchema, obj: Obj) -> Obj:
    return {**schema.filled(obj), "apiVersion": api_version}
