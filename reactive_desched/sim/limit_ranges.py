"""Applies the LimitRanges of a namespace to a pod: defaults first, then the least and the most.

As the API server's plugin LimitRanger.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from reactive_desched.model.quantities import parse_quantity
from reactive_desched.model.resources import parse_amount
from reactive_desched.sim.amounts import LIMITS, REQUESTS, listed, sum_of, write_amount
from reactive_desched.sim.objects import Obj, name_of
from reactive_desched.sim.resources import RESOURCES
from reactive_desched.sim.status import forbidden

__all__ = ["apply_limit_ranges", "check_claim"]

_CONTAINER, _POD = "Container", "Pod"
_DEFAULTS: Final = {REQUESTS: "defaultRequest", LIMITS: "default"}
_MARK: Final = "kubernetes.io/limit-ranger"


def apply_limit_ranges(pod: Obj, ranges: Iterable[Obj]) -> None:
    """Fill in the defaults of a pod's containers in place; refuse a pod outside of a range."""
    spec = pod["spec"]
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    items = [item for each in ranges for item in each.get("spec", {}).get("limits") or ()]
    noted: list[str] = []
    for item in items:
        if item.get("type") == _CONTAINER:
            for container in containers:
                noted += _fill(container, item)
    if noted:
        marks = pod["metadata"].setdefault("annotations", {})
        marks[_MARK] = f"LimitRanger plugin set: {'; '.join(noted)}"
    faults = list(dict.fromkeys(_faults(spec, containers, items)))
    if faults:
        said = faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
        raise forbidden(RESOURCES["pods"], name_of(pod), said)


def check_claim(claim: Obj, ranges: Iterable[Obj]) -> None:
    """Refuse a claim that asks for less or more storage than a range allows."""
    asked = {
        name: str(amount)
        for name, amount in (claim["spec"].get("resources", {}).get("requests") or {}).items()
    }
    items = [item for each in ranges for item in each.get("spec", {}).get("limits") or ()]
    faults = [
        fault
        for item in items
        if item.get("type") == "PersistentVolumeClaim"
        for fault in _outside(asked, {}, item, has_limits=False)
    ]
    if faults:
        said = faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
        raise forbidden(RESOURCES["persistentvolumeclaims"], name_of(claim), said)


def _fill(container: Obj, item: Obj) -> Iterator[str]:
    """Set the limits and requests that a container does not name; yield what was set."""
    resources = dict(container.get("resources") or {})
    for field, default in _DEFAULTS.items():
        own = listed(container, field)
        if added := sorted((item.get(default) or {}).keys() - own.keys()):
            yield f"{', '.join(added)} {field.removesuffix('s')} for container {container['name']}"
        if merged := {**(item.get(default) or {}), **own}:
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


def _outside(
    requests: Mapping[str, str],
    limits: Mapping[str, str],
    item: Obj,
    *,
    has_limits: bool = True,
) -> Iterator[str]:
    """Yield what is below the least or above the most of a range's item, or too far apart."""
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
        said = f"maximum {name} usage per {item['type']} is {most}"
        if has_limits and name not in limits:
            yield f"{said}.  No limit is specified"
        else:
            yield from _above(name, most, requests, limits, said)
    yield from _too_wide(requests, limits, item)


def _above(
    name: str, most: object, requests: Mapping[str, str], limits: Mapping[str, str], said: str
) -> Iterator[str]:
    for what, amounts in (("limit", limits), ("request", requests)):
        if name in amounts and _is_less(name, str(most), amounts[name]):
            yield f"{said}, but {what} is {amounts[name]}"
            return


def _too_wide(requests: Mapping[str, str], limits: Mapping[str, str], item: Obj) -> Iterator[str]:
    """Yield limits that are too many times the request."""
    for name, most in (item.get("maxLimitRequestRatio") or {}).items():
        asked, capped = requests.get(name), limits.get(name)
        said = f"{name} max limit to request ratio per {item['type']} is {most}"
        if not asked or not parse_amount(name, asked):
            yield f"{said}, but no request is specified or request is 0"
        elif not capped or not parse_amount(name, capped):
            yield f"{said}, but no limit is specified or limit is 0"
        else:
            ratio = parse_amount(name, capped) / parse_amount(name, asked)
            if ratio > float(parse_quantity(str(most))):
                yield f"{said}, but provided ratio is {ratio:.6f}"


def _is_less(resource: str, one: str, other: object) -> bool:
    return parse_amount(resource, str(one)) < parse_amount(resource, str(other))
