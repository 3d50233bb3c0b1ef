"""What a schema says differently than an earlier one that would break a reader of either.

Readers of the earlier must take what is written by the later, and the other way round: so a field
may come, if it is optional, and nothing else may change. Words for people may.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tools.event_schemas import REFS, Json

_WORDS: Final = frozenset(("title", "description", "examples", "$comment", "$id", "$schema"))
_PLACES: Final = frozenset(("properties", "required", "items", "additionalProperties", "$defs"))


def breaks(past: Json, now: Json) -> list[str]:
    """Return what breaks readers, each with its place; nothing when the two go together."""
    return list(_breaks(_resolved(past, past), _resolved(now, now), "data"))


def says_the_same(past: Json, now: Json) -> bool:
    """Say whether two schemas accept the same, whatever their words."""
    return bool(_meaning(_resolved(past, past)) == _meaning(_resolved(now, now)))


def revision_breaks(
    past: Mapping[str, Any], past_schemas: Mapping[str, Json], now_schemas: Mapping[str, Json]
) -> list[str]:
    """Return what is wrong with the revisions of types, given the past index of types.

    Schemas are by their names, such as eviction.requested.v1.1.
    """
    found = []
    for type_, entry in past.items():
        kind, _, revision = entry["schema"].rpartition(".")
        revisions = [name.rpartition(".") for name in now_schemas]
        current = [int(number) for name, _, number in revisions if name == kind]
        if not current:
            found.append(f"{type_} is gone: older journals hold it")
        elif max(current) < int(revision):
            found.append(f"{type_} has a lower revision than {revision}")
        elif max(current) == int(revision):
            name = entry["schema"]
            if not says_the_same(past_schemas[name], now_schemas[name]):
                found.append(f"{type_} says something else under the same revision {revision}")
    return found


def _breaks(past: Any, now: Any, place: str) -> Iterator[str]:  # any part of a schema
    if not isinstance(past, dict) or not isinstance(now, dict):
        if past != now:
            yield f"{place}: {past!r} became {now!r}"
        return
    before, after = past.get("properties", {}), now.get("properties", {})
    yield from (f"{place}.{name} is gone" for name in before if name not in after)
    required, needed = set(past.get("required", ())), set(now.get("required", ()))
    yield from (f"{place}.{name} is required now" for name in sorted(needed - required))
    yield from (f"{place}.{name} is no longer required" for name in sorted(required - needed))
    for name in before:
        if name in after:
            yield from _breaks(before[name], after[name], f"{place}.{name}")
    for key in ("items", "additionalProperties"):
        yield from _breaks(past.get(key, True), now.get(key, True), f"{place}.{key}")
    for key in sorted((past.keys() | now.keys()) - _WORDS - _PLACES):
        if past.get(key) != now.get(key):
            yield f"{place}: {key} {past.get(key)!r} became {now.get(key)!r}"


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


def _meaning(node: Any) -> Any:  # any part of a schema
    """Drop words for people and the order of names; fields may be called like those."""
    if not isinstance(node, dict):
        return sorted(node, key=repr) if isinstance(node, list) else node
    return {
        key: {name: _meaning(shape) for name, shape in value.items()}
        if key == "properties"
        else _meaning(value)
        for key, value in node.items()
        if key not in _WORDS
    }
