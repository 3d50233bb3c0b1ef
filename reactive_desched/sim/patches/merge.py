"""JSON merge patch, RFC 7386: maps merge, everything else is replaced, null deletes."""

from typing import Any

from reactive_desched.sim.objects import Obj
from reactive_desched.sim.status import bad_request

__all__ = ["apply_merge_patch"]


def apply_merge_patch(target: Obj, patch: Any) -> Obj:
    """Return the patched object; the target is left as it was."""
    if not isinstance(patch, dict):
        raise bad_request("a merge patch must be a JSON object")
    result: Obj = _merged(target, patch)
    return result


def _merged(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result
