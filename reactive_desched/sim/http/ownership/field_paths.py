"""Paths of fields, and the sets of them in the form of FieldsV1."""

from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

import msgspec

from reactive_desched.sim.objects import Obj

__all__ = ["FIELD", "ITEM", "MEMBER", "Path", "as_text", "closed", "from_tree", "to_tree"]

Path: TypeAlias = tuple[str, ...]
"""The elements of a path as FieldsV1 writes them: `f:spec`, `k:{"name":"main"}`, `v:"a"`."""

FIELD: Final = "f:"
ITEM: Final = "k:"
MEMBER: Final = "v:"
_ITSELF: Final = "."


def from_tree(tree: Obj, above: Path = ()) -> Iterator[Path]:
    """Yield the paths of a FieldsV1."""
    for element, inner in tree.items():
        if element == _ITSELF:
            yield above
        elif isinstance(inner, dict):
            path = (*above, element)
            if inner:
                yield from from_tree(inner, path)
            else:
                yield path


def to_tree(paths: Iterable[Path]) -> Obj:
    """Return paths as FieldsV1."""
    tree: Obj = {}
    for path in sorted(paths, key=len, reverse=True):  # what lies below comes first
        place = tree
        for element in path:
            place = place.setdefault(element, {})
        if place:
            place[_ITSELF] = {}
    return tree


def closed(paths: Iterable[Path]) -> frozenset[Path]:
    """Return paths with the fields that they lie in; items of lists are not fields."""
    found = set(paths)
    for path in paths:
        found |= {path[:end] for end in range(1, len(path)) if path[end - 1].startswith(FIELD)}
    return frozenset(found)


def as_text(path: Path) -> str:
    """Return a path as messages have it: `.spec.containers[name="main"].image`."""
    return "".join(map(_element_text, path))


def _element_text(element: str) -> str:
    form, rest = element[:2], element[2:]
    if form == FIELD:
        return f".{rest}"
    if form == ITEM:
        keys: dict[str, Any] = msgspec.json.decode(rest)
        inner = ",".join(f"{key}={msgspec.json.encode(keys[key]).decode()}" for key in sorted(keys))
        return f"[{inner}]"
    return f"[={rest}]"
