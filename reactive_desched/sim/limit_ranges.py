"""Applies the LimitRanges of a namespace to a pod: defaults first, then the least and the most.

As the API server's plugin LimitRanger for the types Container and Pod; ratios do not count.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from reactive_desched.model.resources import parse_amount
from reactive_desched.sim.amounts import LIMITS, REQUESTS, listed, sum_of, write_amount
from reactive_desched.sim.objects import Obj, name_of
from reactive_desched.sim.resources import RESOURCES
from reactive_desched.sim.status import forbidden

__all__ = ["apply_limit_ranges"]

_CONTAINER, _POD = "Container", "Pod"
_DEFAULTS: Final = {LIMITS: "default", REQUESTS: "defaultRequest"}


def apply_limit_ranges(pod: Obj, ranges: Iterable[Obj]) -> None:
    """Fill in the defaults of a pod's containers in place; refuse a pod outside of a range."""
    spec = pod["spec"]
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    items = [item for each in ranges for item in each.get("spec", {}).get("limits") or ()]
    for item in items:
        if item.get("type") == _CONTAINER:
            for container in containers:
                _fill(container, item)
    faults = list(dict.fromkeys(_faults(spec, containers, items)))
    if faults:
        said = faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
        raise forbidden(RESOURCES["pods"], name_of(pod), said)


def _fill(container: Obj, item: Obj) -> None:
    """Set the limits and requests that a container does not name."""
    resources = dict(container.get("resources") or {})
    for field, default in _DEFAULTS.items():
        if merged := {**(item.get(default) or {}), **listed(container, field)}:
            resources[field] = merged
    container["resources"] = resources


def _faults(spec: Obj, containers: Iterable[Obj], items: Iterable[Obj]) -> Iterator[str]:
    for item in items:
        if item.get("type") == _CONTAINER:
            for each in containers:
                yield from _outside(listed(each, REQUESTS), listed(each, LIMITS), item)
        elif item.get("type") == _POD:
            yield from _outside(_total(spec, REQUESTS), _total(spec, LIMITS), item)


def _total(spec: Obj, field: str) -> dict[str, str]:
    return {name: write_amount(name, amount) for name, amount in sum_of(spec, field).items()}


def _outside(requests: Mapping[str, str], limits: Mapping[str, str], item: Obj) -> Iterator[str]:
    """Yield what is below the least or above the most of a range's item."""
    for name, least in (item.get("min") or {}).items():
        asked, capped = requests.get(name), limits.get(name)
        said = f"minimum {name} usage per {item['type']} is {least}"
        if asked is None:
            yield f"{said}.  No request is specified"
        elif _is_less(name, asked, least):
            yield f"{said}, but request is {asked}"
        elif capped is not None and _is_less(name, capped, least):
            yield f"{said}, but limit is {capped}"
    for name, most in (item.get("max") or {}).items():
        asked, capped = requests.get(name), limits.get(name)
        said = f"maximum {name} usage per {item['type']} is {most}"
        if capped is None:
            yield f"{said}.  No limit is specified"
        elif _is_less(name, most, capped):
            yield f"{said}, but limit is {capped}"
        elif asked is not None and _is_less(name, most, asked):
            yield f"{said}, but request is {asked}"


def _is_less(resource: str, one: str, other: object) -> bool:
    return parse_amount(resource, str(one)) < parse_amount(resource, str(other))
