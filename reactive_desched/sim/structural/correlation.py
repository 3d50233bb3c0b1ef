"""Finds the part of an object as it was that a part of the new one comes from."""

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["ABSENT", "field_of", "item_of"]

ABSENT: Final = object()
"""Stands for an old value that is not there, or is not known to be this one's."""


def field_of(old: Any, name: str) -> Any:
    """Return the old value of a field."""
    return old.get(name, ABSENT) if isinstance(old, dict) else ABSENT


def item_of(schema: Mapping[str, Any], old: Any, item: Any) -> Any:
    """Return the old value of an item: only where the items of a list have keys."""
    if schema.get("x-kubernetes-list-type") != "map" or not isinstance(old, list):
        return ABSENT
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    for each in old:
        if (
            isinstance(each, dict)
            and isinstance(item, dict)
            and all(each.get(key) == item.get(key) for key in keys)
        ):
            return each
    return ABSENT
