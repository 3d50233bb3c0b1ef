"""The checks whose refusal clients rely on; everything else is stored as it comes."""

import re
from collections.abc import Iterator

import msgspec

from reactive_desched.sim.objects import Obj, labels_of, name_of
from reactive_desched.sim.resources import Resource
from reactive_desched.sim.status import cause, invalid

__all__ = ["check_create", "check_update"]

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_NAMED = ("namespaces", "services")
_LONGEST_LABEL, _LONGEST_SUBDOMAIN = 63, 253
_SELECTING = ("deployments", "replicasets", "statefulsets", "daemonsets", "jobs")
_SYSTEM_CLASSES = ("system-cluster-critical", "system-node-critical")
_HIGHEST_USER_PRIORITY = 1_000_000_000
_POD_MAY_CHANGE = (
    "activeDeadlineSeconds",
    "terminationGracePeriodSeconds",
    "tolerations",
    "schedulingGates",
)


def check_create(kind: Resource, obj: Obj) -> None:
    """Raise 422 with every fault found in a new object."""
    faults = [*_name_faults(kind, name_of(obj)), *_shape_faults(kind, obj)]
    if faults:
        raise invalid(kind, name_of(obj), faults)


def check_update(kind: Resource, current: Obj, new: Obj) -> None:
    """Raise 422 when an update is malformed or touches what must stay as created."""
    faults = [*_shape_faults(kind, new), *_immutable_faults(kind, current, new)]
    if faults:
        raise invalid(kind, name_of(current), faults)


def _name_faults(kind: Resource, name: str) -> Iterator[Obj]:
    if not name:
        text = "Required value: name or generateName is required"
        yield cause("FieldValueRequired", "metadata.name", text)
        return
    short = kind.plural in _LABEL_NAMED
    pattern, longest = (_LABEL, _LONGEST_LABEL) if short else (_SUBDOMAIN, _LONGEST_SUBDOMAIN)
    if len(name) > longest or not pattern.fullmatch(name):
        form = "RFC 1123 label" if short else "RFC 1123 subdomain"
        text = (
            f'Invalid value: "{name}": a lowercase {form} must consist of lower case alphanumeric'
            " characters or '-', and must start and end with an alphanumeric character"
        )
        yield cause("FieldValueInvalid", "metadata.name", text)


def _shape_faults(kind: Resource, obj: Obj) -> Iterator[Obj]:
    spec = obj.get("spec") or {}
    if kind.plural == "pods":
        yield from _container_faults(spec, "spec")
    elif kind.plural in _SELECTING:
        yield from _selector_faults(spec)
        yield from _container_faults(spec.get("template", {}).get("spec", {}), "spec.template.spec")
    elif kind.plural == "poddisruptionbudgets" and {"minAvailable", "maxUnavailable"} <= set(spec):
        text = "Invalid value: {}: minAvailable and maxUnavailable cannot be both set"
        yield cause("FieldValueInvalid", "spec", text)
    elif kind.plural == "priorityclasses":
        yield from _priority_faults(obj)
    replicas = spec.get("replicas", 0)
    if isinstance(replicas, int) and replicas < 0:
        text = f"Invalid value: {replicas}: must be greater than or equal to 0"
        yield cause("FieldValueInvalid", "spec.replicas", text)


def _priority_faults(obj: Obj) -> Iterator[Obj]:
    value, system = obj.get("value", 0), name_of(obj) in _SYSTEM_CLASSES
    if not system and isinstance(value, int) and value > _HIGHEST_USER_PRIORITY:
        text = (
            "Forbidden: maximum allowed value of a user defined priority is"
            f" {_HIGHEST_USER_PRIORITY}"
        )
        yield cause("FieldValueForbidden", "value", text)


def _container_faults(spec: Obj, path: str) -> Iterator[Obj]:
    if not spec.get("containers"):
        yield cause("FieldValueRequired", f"{path}.containers", "Required value")
    seen = set()
    for index, container in enumerate(spec.get("containers") or ()):
        name, place = container.get("name"), f"{path}.containers[{index}].name"
        if not name:
            yield cause("FieldValueRequired", place, "Required value")
        elif name in seen:
            yield cause("FieldValueDuplicate", place, f'Duplicate value: "{name}"')
        seen.add(name)


def _selector_faults(spec: Obj) -> Iterator[Obj]:
    wanted = (spec.get("selector") or {}).get("matchLabels") or {}
    if not spec.get("selector"):
        yield cause("FieldValueRequired", "spec.selector", "Required value")
    labels = labels_of(spec.get("template") or {})
    if not spec.get("selector") or not wanted.items() <= labels.items():
        text = f"Invalid value: {_json(labels)}: `selector` does not match template `labels`"
        yield cause("FieldValueInvalid", "spec.template.metadata.labels", text)


def _immutable_faults(kind: Resource, current: Obj, new: Obj) -> Iterator[Obj]:
    before, after = current.get("spec") or {}, new.get("spec") or {}
    if kind.plural in _SELECTING and before.get("selector") != after.get("selector"):
        text = f"Invalid value: {_json(after.get('selector'))}: field is immutable"
        yield cause("FieldValueInvalid", "spec.selector", text)
    elif kind.plural == "priorityclasses" and current.get("value") != new.get("value"):
        text = "Forbidden: may not be changed in an update."
        yield cause("FieldValueForbidden", "value", text)
    elif kind.plural == "nodes" and _replaced(before, after, "providerID"):
        text = "Forbidden: node updates may not change providerID except from empty to valid"
        yield cause("FieldValueForbidden", "spec.providerID", text)
    elif kind.plural == "pods" and _fixed_part(before) != _fixed_part(after):
        text = (
            "Forbidden: pod updates may not change fields other than"
            " `spec.containers[*].image`, `spec.initContainers[*].image`,"
            " `spec.activeDeadlineSeconds`, `spec.tolerations` (only additions to existing"
            " tolerations), `spec.terminationGracePeriodSeconds`"
            " (allow it to be set to 1 if it was previously negative)"
        )
        yield cause("FieldValueForbidden", "spec", text)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _replaced(before: Obj, after: Obj, field: str) -> bool:
    return bool(before.get(field)) and before.get(field) != after.get(field)


def _fixed_part(spec: Obj) -> Obj:
    """Return the part of a pod's spec that no plain update may touch."""
    fixed = {key: value for key, value in spec.items() if key not in _POD_MAY_CHANGE}
    for group in ("containers", "initContainers"):
        if group in fixed:
            fixed[group] = [{**c, "image": ""} for c in fixed[group]]
    return fixed
