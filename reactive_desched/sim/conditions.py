"""Status conditions: found by type, replaced by type, their transition time kept."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reactive_desched.sim.objects import Obj

__all__ = ["condition_status", "find_condition", "with_condition", "with_conditions"]


def find_condition(obj: Mapping[str, Any], kind: str) -> Obj | None:
    """Return the condition of this type from an object's status, or None."""
    for condition in obj.get("status", {}).get("conditions") or ():
        if condition.get("type") == kind:
            found: Obj = condition
            return found
    return None


def condition_status(obj: Mapping[str, Any], kind: str) -> str | None:
    """Return "True", "False" or "Unknown", or None when the condition is absent."""
    found = find_condition(obj, kind)
    return None if found is None else str(found.get("status"))


def with_condition(conditions: Sequence[Obj], new: Obj, at: str) -> list[Obj]:
    """Return the conditions with one replaced or added; its time moves only with its status."""
    kept: list[Obj] = []
    fresh: Obj = {"lastTransitionTime": at, **new}
    placed = False
    for old in conditions:
        if old.get("type") != new["type"]:
            kept.append(old)
            continue
        if old.get("status") == new["status"]:
            fresh["lastTransitionTime"] = old.get("lastTransitionTime", at)
        kept.append({**_carried(old, fresh), **fresh})
        placed = True
    return kept if placed else [*kept, fresh]


def with_conditions(conditions: Sequence[Obj], new: Iterable[Obj], at: str) -> list[Obj]:
    """Replace or add several conditions."""
    result = list(conditions)
    for condition in new:
        result = with_condition(result, condition, at)
    return result


def _carried(old: Obj, fresh: Obj) -> Obj:
    """Keep the fields that the writer leaves out, except the reasons of another status."""
    spoken = {"reason", "message"} | set(fresh)
    return {key: value for key, value in old.items() if key not in spoken}
