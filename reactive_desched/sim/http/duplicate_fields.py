"""Names the keys that a text has twice in one object, which decoding does not show.

The words are those of the API server, which differ by the format.
"""

import json
from collections.abc import Callable, Iterable, Iterator

import yaml  # type: ignore[import-untyped]  # PyYAML ships no types
from msgspec import Struct

__all__ = ["NOTHING_TWICE", "Twice", "twice_in_json", "twice_in_patch", "twice_in_yaml"]

_OF_OPERATIONS = ("op", "path", "from", "value")


class Twice(Struct, frozen=True):
    """Names what comes twice: in a warning for each, and in what a refusal says of it."""

    warnings: tuple[str, ...] = ()
    refusal: tuple[str, ...] = ()


NOTHING_TWICE = Twice()


class _Pairs(list[tuple[str, object]]):
    """The fields of an object, in their order, those that come again among them."""


def twice_in_json(body: bytes) -> Twice:
    """Return the paths of the fields that come again, such as spec.containers[0].image."""
    found = False

    def note(pairs: list[tuple[str, object]]) -> _Pairs:
        nonlocal found
        found = found or len(dict(pairs)) < len(pairs)
        return _Pairs(pairs)

    tree = _read(body, note)
    return _twice(_below(tree, "")) if found else NOTHING_TWICE


def twice_in_patch(body: bytes) -> Twice:
    """Return the same of a JSON patch, and the fields that no operation has."""
    tree = _read(body, _Pairs)
    return _twice(f"json patch {each}" for each in _of_operations(tree))


def _read(body: bytes, pairs: Callable[[list[tuple[str, object]]], _Pairs]) -> object:
    try:
        return json.loads(body, object_pairs_hook=pairs)
    except (ValueError, RecursionError):  # who reads the body says what is wrong
        return None


def _twice(complaints: Iterable[str]) -> Twice:
    found = tuple(dict.fromkeys(complaints))
    return Twice(found, found)


def _below(value: object, path: str) -> Iterator[str]:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for name, each in value:
            inside = f"{path}.{name}" if path else name
            if name in seen:
                yield f'duplicate field "{inside}"'
            seen.add(name)
            yield from _below(each, inside)
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _below(each, f"{path}[{number}]")


def _of_operations(tree: object) -> Iterator[str]:
    for number, operation in enumerate(tree if isinstance(tree, list) else ()):
        seen: set[str] = set()
        for name, each in operation if isinstance(operation, _Pairs) else ():
            path = f"[{number}].{name}"
            if name in seen:
                yield f'duplicate field "{path}"'
            elif name not in _OF_OPERATIONS:
                yield f'unknown field "{path}"'
                continue
            seen.add(name)
            yield from _below(each, path)


def twice_in_yaml(body: bytes) -> Twice:
    """Return the lines of the keys that come again, as go-yaml names them."""
    try:
        found = tuple(_of_node(yaml.compose(body, yaml.CSafeLoader)))
    except (yaml.YAMLError, RecursionError):  # who reads it says what is wrong
        return NOTHING_TWICE
    return Twice(found, ("\n  ".join(("yaml: unmarshal errors:", *found)),) if found else ())


def _of_node(node: yaml.Node | None) -> Iterator[str]:
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            yield from _of_node(value)
            if key.value in seen:  # the line is that of the value
                line = value.start_mark.line + 1
                yield f"line {line}: key {json.dumps(key.value)} already set in map"
            seen.add(key.value)
    elif isinstance(node, yaml.SequenceNode):
        for each in node.value:
            yield from _of_node(each)
