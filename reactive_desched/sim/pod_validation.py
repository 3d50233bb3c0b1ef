"""The checks of a pod's spec that clients meet: containers and what they ask for."""

from collections.abc import Iterator

from reactive_desched.model.quantities import parse_quantity
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.status import cause

__all__ = ["container_faults"]


def container_faults(spec: Obj, path: str) -> Iterator[Obj]:
    """Yield what is wrong with the containers of a pod's spec, which is found at `path`."""
    if not spec.get("containers"):
        yield cause("FieldValueRequired", f"{path}.containers", "Required value")
    seen: set[str] = set()
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or ()):
            place = f"{path}.{group}[{index}]"
            yield from _identity_faults(container, place, seen)
            yield from _resource_faults(container, place)


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


def _resource_faults(container: Obj, place: str) -> Iterator[Obj]:
    resources = container.get("resources") or {}
    limits = resources.get("limits") or {}
    for name, asked in (resources.get("requests") or {}).items():
        limit = limits.get(name)
        if limit is not None and parse_quantity(str(asked)) > parse_quantity(str(limit)):
            text = (
                f'Invalid value: "{asked}": must be less than or equal to {name} limit of {limit}'
            )
            yield cause("FieldValueInvalid", f"{place}.resources.requests", text)
