"""Strategic merge patches, for the kinds of objects that a recording keeps.

As apimachinery's strategicpatch: lists of objects with a merge key are merged, all others replaced.
"""

from typing import Any, Final

__all__ = ["MERGE_KEYS", "merge"]

MERGE_KEYS: Final = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "imagePullSecrets": "name",
    "env": "name",
    "resourceClaims": "name",
    "resourceClaimStatuses": "name",
    "schedulingGates": "name",
    "conditions": "type",
    "addresses": "type",
    "ownerReferences": "uid",
    "ports": "containerPort",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "hostAliases": "ip",
    "podIPs": "ip",
    "hostIPs": "ip",
    "topologySpreadConstraints": "topologyKey",
}
"""The merge keys of lists, by field: the patchMergeKey of the API's types."""

_SETS: Final = frozenset({"finalizers", "podCIDRs"})
_ORDER, _DELETE_FROM, _RETAIN, _PATCH = (
    "$setElementOrder/",
    "$deleteFromPrimitiveList/",
    "$retainKeys",
    "$patch",
)


def merge(original: Any, patch: Any) -> Any:
    """Return an object with a patch applied; neither is changed. Raises TypeError."""
    if not isinstance(patch, dict):
        return patch
    if patch.get(_PATCH) == "replace":
        return {key: value for key, value in patch.items() if key != _PATCH}
    if patch.get(_PATCH) == "delete":
        return {}
    before = original if isinstance(original, dict) else {}
    merged = dict(before)
    if isinstance(retained := patch.get(_RETAIN), list):
        merged = {key: value for key, value in merged.items() if key in retained}
    for key, value in patch.items():
        if key in (_PATCH, _RETAIN) or key.startswith(_ORDER):
            continue
        if key.startswith(_DELETE_FROM):
            field = key.removeprefix(_DELETE_FROM)
            gone = _list(value, key)
            merged[field] = [each for each in _list(merged.get(field), field) if each not in gone]
        elif value is None:
            merged.pop(key, None)
        elif isinstance(value, list):
            merged[key] = _merge_list(key, before.get(key), value, patch.get(_ORDER + key))
        else:
            merged[key] = merge(before.get(key), value)
    return merged


def _merge_list(field: str, before: Any, patch: list[Any], order: Any) -> list[Any]:
    if field in _SETS:
        kept = _list(before, field)
        return kept + [each for each in patch if each not in kept]
    if (merge_key := MERGE_KEYS.get(field)) is None:
        return patch
    if any(isinstance(each, dict) and each.get(_PATCH) == "replace" for each in patch):
        return [each for each in patch if each.get(_PATCH) != "replace"]
    by_key: dict[Any, Any] = {}
    for each in _list(before, field):
        by_key[_key_of(each, merge_key, field)] = each
    for each in patch:
        key = _key_of(each, merge_key, field)
        if each.get(_PATCH) == "delete":
            by_key.pop(key, None)
        else:
            by_key[key] = merge(by_key.get(key), each)
    if not isinstance(order, list):
        return list(by_key.values())
    wanted = [_key_of(each, merge_key, field) for each in order]
    first = [by_key.pop(key) for key in wanted if key in by_key]
    return first + list(by_key.values())


def _key_of(element: Any, merge_key: str, field: str) -> Any:
    if not isinstance(element, dict) or isinstance(element.get(merge_key), (dict, list)):
        raise TypeError(f"an element of {field} has no {merge_key} to merge by")
    return element.get(merge_key)


def _list(value: Any, field: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise TypeError(f"{field} is no list")
    return value
