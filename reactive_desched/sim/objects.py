"""Reads and changes plain JSON objects, for every part of the simulator."""

from collections.abc import Mapping
from typing import Any, TypeAlias

__all__ = ["Obj", "clone", "labels_of", "merged", "name_of", "namespace_of", "storage_key"]

# Any: objects here are JSON as clients wrote it; the model package has the typed forms.
Obj: TypeAlias = dict[str, Any]


def clone(value: Any) -> Any:
    """Copy a JSON value deeply; several times faster than `copy.deepcopy`."""
    if isinstance(value, dict):
        return {key: clone(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [clone(inner) for inner in value]
    return value


def merged(obj: Mapping[str, Any], **changes: Any) -> Obj:
    """Return a shallow copy with some fields replaced; a field set to None is left out."""
    return {key: value for key, value in {**obj, **changes}.items() if value is not None}


def name_of(obj: Mapping[str, Any]) -> str:
    """Return `metadata.name`, or "" when there is none."""
    return str(obj.get("metadata", {}).get("name") or "")


def namespace_of(obj: Mapping[str, Any]) -> str:
    """Return `metadata.namespace`; "" for cluster-scoped objects."""
    return str(obj.get("metadata", {}).get("namespace") or "")


def labels_of(obj: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels, an empty dict when there are none."""
    return obj.get("metadata", {}).get("labels") or {}


def storage_key(namespace: str, name: str) -> str:
    """Return the key objects are stored and ordered by."""
    return f"{namespace}/{name}"
