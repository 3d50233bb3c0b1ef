"""What a schema says differently than an earlier one that would break a reader of either.

Readers of the earlier must take what is written by the later, and the other way round: so a field
may come, if it is optional, and nothing else may change. Words for people may.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tools.event_schemas import REFS, Json

_ANNOTATIONS: Final = frozenset(("title", "description", "examples", "$comment", "$id", "$schema"))
_STRUCTURE: Final = frozenset(("properties", "required", "items", "additionalProperties", "$defs"))


def breaking_changes(past: Json, now: Json) -> list[str]:
    """Return what breaks readers, each with its place; nothing when the two go together."""
    return list(_breaking_changes(_resolved(past, past), _resolved(now, now), "data"))


def is_equivalent(past: Json, now: Json) -> bool:
    """Say whether two schemas accept the same, whatever their words."""
    return bool(_normalized(_resolved(past, past)) == _normalized(_resolved(now, now)))


def revision_errors(
    past: Mapping[str, Any], past_schemas: Mapping[str, Json], now_schemas: Mapping[str, Json]
) -> list[str]:
    """Return what is wrong with the revisions of types, given the past index of types.

    Schemas are by their names, such as eviction.requested.v1.1.
    """
    errors = []
    for type_, entry in past.items():
        kind, _, revision = entry["schema"].rpartition(".")
        revisions = [name.rpartition(".") for name in now_schemas]
        current = [int(number) for name, _, number in revisions if name == kind]
        if not current:
            errors.append(f"{type_} is gone: older journals hold it")
        elif max(current) < int(revision):
            errors.append(f"{type_} has a lower revision than {revision}")
        elif max(current) == int(revision):
            name = entry["schema"]
            if not is_equivalent(past_schemas[name], now_schemas[name]):
                errors.append(f"{type_} says something else under the same revision {revision}")
    return errors


def _breaking_changes(past: Any, now: Any, path: str) -> Iterator[str]:  # any part of a schema
    if not isinstance(past, dict) or not isinstance(now, dict):
        if past != now:
            yield f"{path}: {past!r} became {now!r}"
        return
    before, after = past.get("properties", {}), now.get("properties", {})
    yield from (f"{path}.{name} is gone" for name in before if name not in after)
    required, needed = set(past.get("required", ())), set(now.get("required", ()))
    yield from (f"{path}.{name} is required now" for name in sorted(needed - required))
    yield from (f"{path}.{name} is no longer required" for name in sorted(required - needed))
    for name in before:
        if name in after:
            yield from _breaking_changes(before[name], after[name], f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        yield from _breaking_changes(past.get(key, True), now.get(key, True), f"{path}.{key}")
    for key in sorted((past.keys() | now.keys()) - _ANNOTATIONS - _STRUCTURE):
        if past.get(key) != now.get(key):
            yield f"{path}: {key} {past.get(key)!r} became {now.get(key)!r}"


def _resolved(node: Any, root: Json) -> Any:  # any part of a schema
    """Put what is referred to in the place of each reference."""
    if isinstance(node, list):
        return [_resolved(each, root) for each in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        rest = {key: value for key, value in node.items() if key != "$ref"}
        target = root["$defs"][node["$ref"].removeprefix(REFS)]
        return _resolved({**target, **rest}, root)
    return {key: _resolved(value, root) for key, value in node.items() if key != "$defs"}


def _normalized(node: Any) -> Any:  # any part of a schema
    """Drop words for people and the order of names; fields may be called like those."""
    if not isinstance(node, dict):
        return sorted(node, key=repr) if isinstance(node, list) else node
    return {
        key: {name: _normalized(shape) for name, shape in value.items()}
        if key == "properties"
        else _normalized(value)
        for key, value in node.items()
        if key not in _ANNOTATIONS
    }
