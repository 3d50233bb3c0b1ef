"""Finds what is wrong with a definition of a kind; its schemas are taken as they are."""

from collections.abc import Iterator
from typing import Final

import msgspec

from reactive_desched.sim.objects import Obj, name_of
from reactive_desched.sim.status import cause

__all__ = ["definition_faults"]

_SCOPES: Final = ("Cluster", "Namespaced")
_NAMES: Final = ("plural", "singular", "kind", "listKind")


def definition_faults(definition: Obj) -> Iterator[Obj]:
    """Yield the faults of a CustomResourceDefinition."""
    spec = definition.get("spec") or {}
    group, names = str(spec.get("group") or ""), spec.get("names") or {}
    if name_of(definition) != f"{names.get('plural') or ''}.{group}":
        said = 'must be spec.names.plural+"."+spec.group'
        text = f'Invalid value: "{name_of(definition)}": {said}'
        yield cause("FieldValueInvalid", "metadata.name", text)
    if not group:
        yield _required("spec.group")
    if (scope := spec.get("scope")) not in _SCOPES:
        known = ", ".join(f'"{each}"' for each in _SCOPES)
        text = f'Unsupported value: "{scope or ""}": supported values: {known}'
        yield cause("FieldValueNotSupported", "spec.scope", text)
    for each in _NAMES:
        if not names.get(each):
            yield _required(f"spec.names.{each}")
    yield from _version_faults(spec.get("versions") or [])


def _version_faults(versions: list[Obj]) -> Iterator[Obj]:
    if sum(bool(each.get("storage")) for each in versions) != 1:
        shown = msgspec.json.encode(versions).decode()
        said = "must have exactly one version marked as storage version"
        yield cause("FieldValueInvalid", "spec.versions", f"Invalid value: {shown}: {said}")
        said = "must have at least one stored version"
        yield cause("FieldValueInvalid", "status.storedVersions", f"Invalid value: null: {said}")
    for at, version in enumerate(versions):
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            yield _required(f"spec.versions[{at}].schema.openAPIV3Schema")


def _required(field: str) -> Obj:
    return cause("FieldValueRequired", field, "Required value")
