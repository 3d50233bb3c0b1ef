"""Strategic merge patch: lists whose items have a key merge by it, with directives to delete.

The merge keys are those of the fields clients patch in practice, by field name; every other list
is atomic and replaced whole, as node taints and pod tolerations are in the real schema.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from reactive_desched.sim.objects import Obj
from reactive_desched.sim.status import bad_request

__all__ = ["apply_strategic_patch"]

_MERGE_KEYS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "addresses": ("type",),
        "conditions": ("type",),
        "containers": ("name",),
        "env": ("name",),
        "ephemeralContainers": ("name",),
        "hostAliases": ("ip",),
        "imagePullSecrets": ("name",),
        "initContainers": ("name",),
        "ownerReferences": ("uid",),
        "podIPs": ("ip",),
        # A container's ports go by containerPort, a service's by port.
        "ports": ("containerPort", "port"),
        "resourceClaims": ("name",),
        "schedulingGates": ("name",),
        "secrets": ("name",),
        "topologySpreadConstraints": ("topologyKey",),
        "volumeDevices": ("devicePath",),
        "volumeMounts": ("mountPath",),
        "volumes": ("name",),
    }
)
_MERGED_SETS = ("finalizers", "podCIDRs")
_ORDER, _DELETE = "$setElementOrder/", "$deleteFromPrimitiveList/"


def apply_strategic_patch(target: Obj, patch: Any) -> Obj:
    """Return the patched object; the target is left as it was."""
    if not isinstance(patch, dict):
        raise bad_request("a strategic merge patch must be a JSON object")
    return _merge_map(target, patch)


def _merge_map(target: Obj, patch: Obj) -> Obj:
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    if directive == "delete":
        return {}
    result = dict(target)
    _retain(result, patch.get("$retainKeys"))
    for key, value in patch.items():
        if key.startswith(_DELETE):
            _drop_members(result, key.removeprefix(_DELETE), value)
        elif not key.startswith("$"):
            _set(result, key, value)
    for key, value in patch.items():
        if key.startswith(_ORDER):
            _reorder(result, key.removeprefix(_ORDER), value)
    return result


def _retain(result: Obj, keys: Any) -> None:
    if keys is not None:
        for key in result.keys() - set(keys):
            del result[key]


def _drop_members(result: Obj, field: str, members: list[Any]) -> None:
    if field in result:
        result[field] = [member for member in result[field] if member not in members]


def _set(result: Obj, key: str, value: Any) -> None:
    if value is None:
        result.pop(key, None)
    elif isinstance(value, dict):
        current = result.get(key)
        result[key] = _merge_map(current if isinstance(current, dict) else {}, value)
    elif isinstance(value, list):
        result[key] = _merge_list(key, result.get(key) or [], value)
    else:
        result[key] = value


def _merge_list(field: str, current: list[Any], patch: list[Any]) -> list[Any]:
    if field in _MERGED_SETS:
        return [*current, *(member for member in patch if member not in current)]
    if field not in _MERGE_KEYS or not all(isinstance(item, dict) for item in patch):
        return patch
    if any(item == {"$patch": "replace"} for item in patch):
        return [item for item in patch if "$patch" not in item]
    result = list(current)
    for item in patch:
        _merge_item(field, result, item)
    return result


def _merge_item(field: str, items: list[Any], patch: Obj) -> None:
    key = _key_of(field, patch)
    position = next((i for i, item in enumerate(items) if item.get(key) == patch[key]), None)
    if patch.get("$patch") == "delete":
        if position is not None:
            del items[position]
    elif position is None:
        items.append(_merge_map({}, patch))
    else:
        items[position] = _merge_map(items[position], patch)


def _key_of(field: str, item: Obj) -> str:
    for key in _MERGE_KEYS[field]:
        if key in item:
            return key
    wanted = " or ".join(_MERGE_KEYS[field])
    raise bad_request(f"an item of {field} in a strategic merge patch needs its key: {wanted}")


def _reorder(result: Obj, field: str, order: list[Any]) -> None:
    """Put the named members in the order given; members it does not name keep following."""
    items = result.get(field)
    if not items or not order:
        return
    ranks = {_identity(field, member): rank for rank, member in enumerate(order)}
    result[field] = sorted(items, key=lambda item: ranks.get(_identity(field, item), len(order)))


def _identity(field: str, member: Any) -> Any:
    if not isinstance(member, dict):
        return member
    return tuple(member.get(key) for key in _MERGE_KEYS.get(field, ()))
