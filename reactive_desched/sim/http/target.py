"""Parses a URL into an object, a collection or a subresource."""

from msgspec import Struct

from reactive_desched.sim.custom_kinds import Kinds
from reactive_desched.sim.resources import Resource
from reactive_desched.sim.views import View

__all__ = ["Target", "parse_target"]

_MOST_PARTS = 3


class Target(Struct, frozen=True):
    """The object, collection or subresource that a URL names."""

    view: View
    namespace: str | None = None
    """None on a namespaced kind means all namespaces; "" on a cluster-scoped one."""
    name: str = ""
    subresource: str = ""

    @property
    def resource(self) -> Resource:
        """The kind that the URL names."""
        return self.view.resource

    @property
    def key_namespace(self) -> str:
        """The namespace part of the object's key."""
        return self.namespace or ""


def parse_target(path: str, kinds: Kinds) -> Target | None:
    """Read `/api/v1/...` or `/apis/{group}/{version}/...`; None when nothing is served there."""
    parts = [part for part in path.split("/") if part]
    match parts:
        case ["api", version, *rest] if rest:
            return _resolved(kinds, "", version, rest)
        case ["apis", group, version, *rest] if rest:
            return _resolved(kinds, group, version, rest)
    return None


def _resolved(kinds: Kinds, group: str, version: str, parts: list[str]) -> Target | None:
    namespace: str | None = None
    match parts:
        case ["namespaces", within, plural, *rest] if (
            view := kinds.view(group, version, plural)
        ) is not None:
            if not view.resource.namespaced:
                return None
            namespace, parts = within, [plural, *rest]
        case [plural, *_] if (view := kinds.view(group, version, plural)) is not None:
            pass
        case _:
            return None
    if len(parts) > _MOST_PARTS:
        return None
    return _target(view, namespace, parts)


def _target(view: View, namespace: str | None, parts: list[str]) -> Target | None:
    name = parts[1] if len(parts) > 1 else ""
    subresource = parts[2] if len(parts) > 2 else ""  # noqa: PLR2004 -- resource, name, subresource
    if not view.resource.namespaced:
        namespace = ""
    elif name and namespace is None:
        return None
    if subresource and subresource not in view.resource.subresources:
        return None
    return Target(view, namespace, name, subresource)
