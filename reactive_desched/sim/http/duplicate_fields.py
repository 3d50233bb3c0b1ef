"""Names the fields that a JSON text has twice in one object, which decoding does not show."""

import json
from collections.abc import Iterator

__all__ = ["fields_twice"]


class _Pairs(list[tuple[str, object]]):
    """The fields of an object, in their order, those that come again among them."""


def fields_twice(body: bytes) -> tuple[str, ...]:
    """Return the paths of the fields that come again, such as spec.containers[0].image."""
    found = False

    def note(pairs: list[tuple[str, object]]) -> _Pairs:
        nonlocal found
        found = found or len(dict(pairs)) < len(pairs)
        return _Pairs(pairs)

    tree = json.loads(body, object_pairs_hook=note)
    return tuple(dict.fromkeys(_below(tree, ""))) if found else ()


def _below(value: object, path: str) -> Iterator[str]:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for name, each in value:
            inside = f"{path}.{name}" if path else name
            if name in seen:
                yield inside
            seen.add(name)
            yield from _below(each, inside)
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _below(each, f"{path}[{number}]")
