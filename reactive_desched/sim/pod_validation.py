"""The checks of a pod's spec that clients meet: containers and what they ask for."""

from collections.abc import Iterator

from reactive_desched.model.resources import is_extended
from reactive_desched.model.taints import NO_EXECUTE
from reactive_desched.sim.amounts import exact
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.status import cause

__all__ = ["container_faults", "spec_faults"]

_RESTARTS = ("Always", "OnFailure", "Never")
_PULLS = ("Always", "IfNotPresent", "Never")
_HIGHEST_PORT = 65_535
_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")


def container_faults(spec: Obj, path: str) -> Iterator[Obj]:
    """Yield what is wrong with the containers of a pod's spec, which is found at `path`."""
    if not spec.get("containers"):
        yield cause("FieldValueRequired", f"{path}.containers", "Required value")
    seen: set[str] = set()
    volumes = {volume.get("name") for volume in spec.get("volumes") or ()}
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or ()):
            place = f"{path}.{group}[{index}]"
            yield from _identity_faults(container, place, seen)
            yield from _port_faults(container, place)
            yield from _mount_faults(container, place, volumes)
            if (pulls := container.get("imagePullPolicy")) is not None and pulls not in _PULLS:
                yield _unsupported(f"{place}.imagePullPolicy", pulls, _PULLS)
            yield from _resource_faults(container, place)
            if group == "initContainers":
                yield from _restart_faults(container, place)


def _restart_faults(container: Obj, place: str) -> Iterator[Obj]:
    """Yield a fault where an init container that is no sidecar restarts to be resized."""
    if container.get("restartPolicy") == "Always":
        return
    for index, policy in enumerate(container.get("resizePolicy") or ()):
        if policy.get("restartPolicy") == "RestartContainer":
            why = "must not be set to 'RestartContainer' for non-sidecar initContainers"
            text = f'Invalid value: "RestartContainer": {why}'
            yield cause("FieldValueInvalid", f"{place}.resizePolicy[{index}].restartPolicy", text)


def spec_faults(spec: Obj, path: str) -> Iterator[Obj]:
    """Yield what is wrong with a pod's spec besides its containers."""
    policy = spec.get("restartPolicy")
    if policy not in _RESTARTS:
        yield _unsupported(f"{path}.restartPolicy", policy, _RESTARTS)
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        if toleration.get("operator") == "Exists" and (value := toleration.get("value")):
            text = f"Invalid value: \"{value}\": value must be empty when `operator` is 'Exists'"
            yield cause("FieldValueInvalid", f"{path}.tolerations[{index}].operator", text)
        effect = toleration.get("effect", "")
        if toleration.get("tolerationSeconds") is not None and effect != NO_EXECUTE:
            why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            text = f'Invalid value: "{effect}": {why}'
            yield cause("FieldValueInvalid", f"{path}.tolerations[{index}].effect", text)
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        yield from _spread_faults(constraint, f"{path}.topologySpreadConstraints[{index}]")


def _spread_faults(constraint: Obj, place: str) -> Iterator[Obj]:
    if int(constraint.get("maxSkew") or 0) <= 0:
        text = f"Invalid value: {constraint.get('maxSkew') or 0}: must be greater than zero"
        yield cause("FieldValueInvalid", f"{place}.maxSkew", text)
    if not constraint.get("topologyKey"):
        text = "Required value: can not be empty"
        yield cause("FieldValueRequired", f"{place}.topologyKey", text)
    if constraint.get("whenUnsatisfiable") not in _UNSATISFIABLE:
        asked = constraint.get("whenUnsatisfiable")
        yield _unsupported(f"{place}.whenUnsatisfiable", asked, _UNSATISFIABLE)


def _unsupported(place: str, value: object, known: tuple[str, ...]) -> Obj:
    said = ", ".join(f'"{each}"' for each in known)
    text = f'Unsupported value: "{value or ""}": supported values: {said}'
    return cause("FieldValueNotSupported", place, text)


def _identity_faults(container: Obj, place: str, seen: set[str]) -> Iterator[Obj]:
    name = container.get("name")
    if not name:
        yield cause("FieldValueRequired", f"{place}.name", "Required value")
    elif name in seen:
        yield cause("FieldValueDuplicate", f"{place}.name", f'Duplicate value: "{name}"')
    else:
        seen.add(name)
    if not container.get("image"):
        yield cause("FieldValueRequired", f"{place}.image", "Required value")


def _port_faults(container: Obj, place: str) -> Iterator[Obj]:
    for index, port in enumerate(container.get("ports") or ()):
        at, number = f"{place}.ports[{index}].containerPort", port.get("containerPort") or 0
        if not number:
            yield cause("FieldValueRequired", at, "Required value")
        elif not 0 < number <= _HIGHEST_PORT:
            text = f"Invalid value: {number}: must be between 1 and {_HIGHEST_PORT}, inclusive"
            yield cause("FieldValueInvalid", at, text)


def _mount_faults(container: Obj, place: str, volumes: set[str | None]) -> Iterator[Obj]:
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        at, name = f"{place}.volumeMounts[{index}]", mount.get("name") or ""
        if not name:
            yield cause("FieldValueRequired", f"{at}.name", "Required value")
        if name not in volumes:
            yield cause("FieldValueNotFound", f"{at}.name", f'Not found: "{name}"')
        if not mount.get("mountPath"):
            yield cause("FieldValueRequired", f"{at}.mountPath", "Required value")


def _resource_faults(container: Obj, place: str) -> Iterator[Obj]:
    resources = container.get("resources") or {}
    limits = resources.get("limits") or {}
    for name, asked in (resources.get("requests") or {}).items():
        limit = limits.get(name)
        if limit is None and is_extended(name):
            text = "Required value: Limit must be set for non overcommitable resources"
            yield cause("FieldValueRequired", f"{place}.resources.limits", text)
        if limit is not None and exact(str(asked)) > exact(str(limit)):
            text = (
                f'Invalid value: "{asked}": must be less than or equal to {name} limit of {limit}'
            )
            yield cause("FieldValueInvalid", f"{place}.resources.requests", text)
