"""The checks of an update of a pod: most of its spec stays as it was created."""

from collections.abc import Iterator

from reactive_desched.model.taints import NO_EXECUTE
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.status import cause

__all__ = ["CONTAINER_GROUPS", "resize_faults", "update_faults"]

_MAY_CHANGE = ("activeDeadlineSeconds", "tolerations", "schedulingGates")
_RESIZED = ("cpu", "memory")
RESTARTED = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
CONTAINER_GROUPS = ("containers", "initContainers")


def update_faults(before: Obj, after: Obj) -> Iterator[Obj]:
    """Yield what an update of a pod's spec may not do."""
    for group in CONTAINER_GROUPS:
        if len(before.get(group) or ()) != len(after.get(group) or ()):
            text = "Forbidden: pod updates may not add or remove containers"
            yield cause("FieldValueForbidden", f"spec.{group}", text)
            return
    yield from _deadline_faults(before, after)
    yield from _toleration_faults(before, after)
    yield from _gate_faults(before, after)
    yield from _selector_faults(before, after)
    has_gates = bool(before.get("schedulingGates"))
    fixed = [_fixed_part(each, after, has_gates=has_gates) for each in (before, after)]
    if fixed[0] != fixed[1]:
        text = (
            "Forbidden: pod updates may not change fields other than"
            " `spec.containers[*].image`,`spec.initContainers[*].image`,"
            "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing"
            " tolerations),`spec.terminationGracePeriodSeconds`"
            " (allow it to be set to 1 if it was previously negative)"
        )
        yield cause("FieldValueForbidden", "spec", text)


def _deadline_faults(before: Obj, after: Obj) -> Iterator[Obj]:
    """Yield a fault where a deadline becomes later, or goes."""
    old, new = before.get("activeDeadlineSeconds"), after.get("activeDeadlineSeconds")
    if old is None:
        return
    why = ""
    if new is None:
        why = "must not update from a positive integer to nil value"
    elif new > old:
        why = f"must be less than or equal to previous value of {old}"
    if why:
        text = f"Invalid value: {'null' if new is None else new}: {why}"
        yield cause("FieldValueInvalid", "spec.activeDeadlineSeconds", text)


def _toleration_faults(before: Obj, after: Obj) -> Iterator[Obj]:
    """Yield a fault where a toleration goes, or tolerates for another time what does not evict."""
    left = [_timeless(each) for each in after.get("tolerations") or ()]
    if any(_timeless(each) not in left for each in before.get("tolerations") or ()):
        why = "existing toleration can not be modified except its tolerationSeconds"
        yield _forbidden("spec.tolerations", why)


def _timeless(toleration: Obj) -> Obj:
    if toleration.get("effect") != NO_EXECUTE:
        return toleration
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}


def _gate_faults(before: Obj, after: Obj) -> Iterator[Obj]:
    known = [each.get("name") for each in before.get("schedulingGates") or ()]
    for index, gate in enumerate(after.get("schedulingGates") or ()):
        if gate.get("name") not in known:
            why = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            place = f"spec.schedulingGates[{index}].name"
            yield _forbidden(place, why)


def _selector_faults(before: Obj, after: Obj) -> Iterator[Obj]:
    """Yield a fault where a pod with gates loses what it selects nodes by."""
    selected, wanted = before.get("nodeSelector") or {}, after.get("nodeSelector") or {}
    if before.get("schedulingGates") and not selected.items() <= wanted.items():
        text = "Invalid value: only additions to spec.nodeSelector are allowed (no mutations or"
        yield cause("FieldValueInvalid", "spec.nodeSelector", f"{text} deletions)")


def _fixed_part(spec: Obj, wanted: Obj, *, has_gates: bool) -> Obj:
    """Return the part of a pod's spec that an update to what is wanted may not touch.

    While it has gates, it may select fewer nodes.
    """
    fixed = {key: value for key, value in spec.items() if key not in _MAY_CHANGE}
    grace = spec.get("terminationGracePeriodSeconds")
    if isinstance(grace, int) and grace < 0 and wanted.get("terminationGracePeriodSeconds") == 1:
        fixed["terminationGracePeriodSeconds"] = 1
    for group in CONTAINER_GROUPS:
        if group in fixed:
            fixed[group] = [{**c, "image": ""} for c in fixed[group]]
    if has_gates:
        fixed.pop("nodeSelector", None)
    return fixed


def resize_faults(before: Obj, after: Obj) -> Iterator[Obj]:
    """Yield a fault where a resize touches more than cpu and memory, or takes an amount away."""
    for group in CONTAINER_GROUPS:
        is_init = group == "initContainers"
        pairs = zip(before.get(group) or (), after.get(group) or (), strict=True)
        for index, (old, new) in enumerate(pairs):
            where = f"spec.{group}[{index}]"
            yield from _removal_faults(old, new, f"{where}.resources")
            if _other_amounts(old) != _other_amounts(new):
                which = " for init or sidecar containers" if is_init else ""
                why = f"only cpu and memory resources{which} are mutable"
                yield _forbidden(where if is_init else "spec", why)


def _removal_faults(old: Obj, new: Obj, where: str) -> Iterator[Obj]:
    for field in ("requests", "limits"):
        had, has = ((each.get("resources") or {}).get(field) or {} for each in (old, new))
        if had.keys() - has.keys():
            yield _forbidden(f"{where}.{field}", f"resource {field} cannot be removed")


def _forbidden(where: str, why: str) -> Obj:
    return cause("FieldValueForbidden", where, f"Forbidden: {why}")


def _other_amounts(container: Obj) -> Obj:
    resources = container.get("resources") or {}
    return {
        field: {name: n for name, n in (resources.get(field) or {}).items() if name not in _RESIZED}
        for field in ("limits", "requests")
    }
