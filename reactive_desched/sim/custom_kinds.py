"""The kinds that a server has now: the built-in ones, and those that clients define."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from reactive_desched.sim.objects import Obj, clone
from reactive_desched.sim.resources import RESOURCES, Resource, served
from reactive_desched.sim.views import VIEWS, View

__all__ = ["Kinds", "is_built_in"]

_PARTS: Final = ("status",)
"""The subresources that custom resources may have here: no scale."""


class Kinds:
    """Kinds by their plural: a custom one cannot have the plural of another, whatever its group.

    Bounded by the CustomResourceDefinitions.
    """

    def __init__(self) -> None:
        self._stored: dict[str, Resource] = dict(RESOURCES)
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
        self._stored[plural] = _resource(spec, stored)
        views = (_view(spec, each) for each in spec["versions"] if each.get("served"))
        self._custom[plural] = {
            (view.resource.group, view.resource.version, plural): view for view in views
        }

    def forget(self, plural: str) -> None:
        """Serve a kind no more whose definition is gone."""
        if self._custom.pop(plural, None) is not None:
            del self._stored[plural]


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
        has_generation=True,
        blind_update=False,
        is_custom=True,
    )


def _view(spec: Obj, version: Obj) -> View:
    resource = _resource(spec, version)
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    # Versions differ in their name alone, as without a webhook for conversion.
    return View(resource, partial(_as, resource.api_version), partial(_with_defaults, schema))


def _as(api_version: str, obj: Obj) -> Obj:
    return {**obj, "apiVersion": api_version}


def _with_defaults(schema: Obj, obj: Obj) -> Obj:
    filled: Obj = _filled(schema, obj)
    return filled


def _filled(schema: Mapping[str, Any], value: Any) -> Any:
    """Return a value with the defaults that its schema has for absent fields."""
    if isinstance(value, list) and isinstance(items := schema.get("items"), dict):
        return [_filled(items, item) for item in value]
    if not isinstance(value, dict):
        return value
    found = dict(value)
    for name, field in (schema.get("properties") or {}).items():
        if name not in found and "default" in field:
            found[name] = clone(field["default"])
        if name in found:
            found[name] = _filled(field, found[name])
    if isinstance(inner := schema.get("additionalProperties"), dict):
        named = schema.get("properties") or {}
        found |= {key: _filled(inner, part) for key, part in found.items() if key not in named}
    return found
