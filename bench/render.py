"""Fills holes in the bytes of one object, since encoding 150,000 dicts takes minutes."""

import re
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import msgspec

Obj = dict[str, Any]  # Any: an object of the API as plain JSON
_MARK = re.compile(rb'"@@#(\w+)@@"|@@(\w+)@@')


def mark(field: str) -> str:
    """Return the text that stands for a field inside a string."""
    return f"@@{field}@@"


def unquoted_mark(field: str) -> str:
    """Return the text that stands for a field which is not a string, such as a number."""
    return f"@@#{field}@@"


class Template:
    """The bytes of an object with holes; filling them costs two microseconds per 10 KB."""

    def __init__(self, obj: Mapping[str, Any], fields: Sequence[str]) -> None:
        """Compile `obj`, whose marks name `fields`; values are later given in that order."""
        pieces = _MARK.split(msgspec.json.encode(obj))
        names = [
            (number or text).decode()
            for number, text in zip(pieces[1::3], pieces[2::3], strict=True)
        ]
        self._format = b"%b".join(piece.replace(b"%", b"%%") for piece in pieces[::3])
        self._pick = _picker([fields.index(name) for name in names])

    def fill(self, values: Sequence[bytes]) -> bytes:
        """Return the object with every mark replaced by its value."""
        return self._format % self._pick(values)


def _picker(positions: list[int]) -> Callable[[Sequence[bytes]], tuple[bytes, ...]]:
    """Return a function that repeats and reorders values as the marks do."""
    if len(positions) < 2:  # noqa: PLR2004  # itemgetter makes tuples only from two items on
        return lambda values: tuple(values[position] for position in positions)
    return itemgetter(*positions)


def managed_fields(obj: Mapping[str, Any]) -> Obj:
    """Return what `managedFields` says of an object: its members, recursively, without values."""
    owned: Obj = {".": {}}
    for name, value in obj.items():
        owned[f"f:{name}"] = _managed_value(name, value)
    return owned


_LIST_KEYS = ("name", "mountPath", "containerPort", "type", "uid", "ip", "topologyKey")


def _managed_value(name: str, value: object) -> Obj:
    """Describe one member; lists of keyed objects name their items by key."""
    if isinstance(value, dict):
        return managed_fields(value)
    if not isinstance(value, list) or name == "tolerations":
        return {}
    keyed = [(key, item) for item in value if (key := _key_of(item)) is not None]
    return {".": {}} | {f'k:{{"{key}":"{item[key]}"}}': managed_fields(item) for key, item in keyed}


def _key_of(item: object) -> str | None:
    """Name the member that identifies an item of a list, as server-side apply does."""
    if not isinstance(item, dict):
        return None
    return next((key for key in _LIST_KEYS if key in item), None)
