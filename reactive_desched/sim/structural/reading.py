"""Reads values along a schema: drops what it does not have, and fills in its defaults."""

from collections.abc import Mapping
from typing import Any, Final

from reactive_desched.sim.objects import clone

__all__ = ["PRESERVES", "TYPE_AND_METADATA", "filled", "inner_of", "pruned"]

Schema = Mapping[str, Any]
TYPE_AND_METADATA: Final = ("apiVersion", "kind", "metadata")
PRESERVES: Final = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"


def inner_of(schema: Schema, name: str) -> Schema | None:
    """Return the schema of a field, or of a value of a map; None where nothing is said of it."""
    found = (schema.get("properties") or {}).get(name)
    if found is None:
        found = schema.get("additionalProperties")
    return found if isinstance(found, Mapping) else None


def pruned(
    schema: Schema | None, value: Any, path: str, unknown: list[str], *, is_object: bool = False
) -> Any:
    """Return a value without the fields that its schema does not have, whose paths are noted.

    Of an object, as one embedded in another is, type and metadata stay as they are.
    """
    if schema is not None and schema.get(PRESERVES):
        return _preserved(schema, value, path, unknown, is_object=is_object)
    if isinstance(value, list):
        items = None if schema is None else schema.get("items")
        return [pruned(items, item, f"{path}[{at}]", unknown) for at, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if schema is None:
        unknown.extend(_below(path, name) for name in value)
        return {}
    found, is_object = {}, is_object or bool(schema.get(_EMBEDDED))
    for name, part in value.items():
        place = _below(path, name)
        if is_object and name in TYPE_AND_METADATA:
            found[name] = part
        elif name in (schema.get("properties") or {}) or schema.get("additionalProperties"):
            found[name] = pruned(inner_of(schema, name), part, place, unknown)
        else:
            unknown.append(place)
    return found


def _preserved(
    schema: Schema, value: Any, path: str, unknown: list[str], *, is_object: bool
) -> Any:
    """Return a value with its unknown fields; those that the schema has are read along it."""
    if isinstance(value, list):
        items = {PRESERVES: True, **(schema.get("items") or {})}
        return [pruned(items, item, f"{path}[{at}]", unknown) for at, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    is_object = is_object or bool(schema.get(_EMBEDDED))
    found = {}
    for name, part in value.items():
        inner = inner_of(schema, name)
        if inner is None or (is_object and name in TYPE_AND_METADATA):
            found[name] = part
        else:
            found[name] = pruned(inner, part, _below(path, name), unknown)
    return found


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def filled(schema: Schema, value: Any) -> Any:
    """Return a value with the defaults for absent fields; a null counts as absent."""
    if isinstance(value, list) and isinstance(items := schema.get("items"), Mapping):
        return [filled(items, item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {
        name: part
        for name, part in value.items()
        if part is not None or _may_be_null(inner_of(schema, name))
    }
    for name, field in (schema.get("properties") or {}).items():
        if name not in found and "default" in field:
            found[name] = clone(field["default"])
    return {
        name: part if (inner := inner_of(schema, name)) is None else filled(inner, part)
        for name, part in found.items()
    }


def _may_be_null(schema: Schema | None) -> bool:
    return schema is None or bool(schema.get("nullable"))
