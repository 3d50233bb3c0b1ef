"""Sums up what a pod requests, by the kube-scheduler's formula.

Amounts are integers: cpu in milli-cores, everything else in whole units, rounded up.
As component-helpers' PodRequests over the spec alone, which is what the SIG descheduler counts.
What an in-place resize adds is `Pod.resize_delta`; `Pod.held` and `NodeInfo.held` have both, as the
kube-scheduler counts them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from reactive_desched.model.quantities import integer_value, milli_value

ResourceList = Mapping[str, int]

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"
_HUGE_PAGES: Final = "hugepages-"


MAX_AMOUNT: Final = 2**63 - 1
"""Kubernetes counts in 64 bits, as recordings do; the API server admits more of a pod."""

_NATIVE_DOMAIN: Final = "kubernetes.io/"


class ContainerRequests(Struct, frozen=True, gc=False):
    """The part of a container that counts; a sidecar is an init container that restarts."""

    requests: dict[str, str] = {}
    is_sidecar: bool = False


def is_extended(resource: str) -> bool:
    """Say whether a resource is an extended one, such as a GPU, as the API server has it."""
    return "/" in resource and _NATIVE_DOMAIN not in resource


def is_scalar(resource: str) -> bool:
    """Say whether a resource is one that few pods have, as IsScalarResourceName.

    Extended resources, huge pages and attachable volumes: where a pod requests none of it, the
    kube-scheduler does not score nodes by it.
    """
    return "/" in resource or resource.startswith((_HUGE_PAGES, "attachable-volumes-"))


def parse_amount(resource: str, quantity: str) -> int:
    """Return milli-cores for cpu and whole units for everything else, MAX_AMOUNT at most."""
    amount = milli_value(quantity) if resource == CPU else integer_value(quantity)
    return max(-MAX_AMOUNT, min(amount, MAX_AMOUNT))


def parse_resource_list(quantities: Mapping[str, str]) -> dict[str, int]:
    """Convert a resource list, for example a node's allocatable."""
    return {resource: parse_amount(resource, text) for resource, text in quantities.items()}


def pod_requests(
    containers: Iterable[Mapping[str, str]],
    init_containers: Iterable[ContainerRequests] = (),
    pod_level: Mapping[str, str] | None = None,
    overhead: Mapping[str, str] | None = None,
) -> dict[str, int]:
    """Sum what the scheduler reserves for a pod.

    Containers add up; sidecars join them; each ordinary init container competes as a peak on
    top of the sidecars before it; pod-level requests replace cpu, memory and huge pages;
    overhead comes on top.
    """
    total: dict[str, int] = {}
    for requests in containers:
        add_resources(total, parse_resource_list(requests))
    peak = _with_sidecars(total, init_containers)
    for resource, value in peak.items():
        total[resource] = max(total.get(resource, 0), value)
    total |= {
        resource: value
        for resource, value in parse_resource_list(pod_level or {}).items()
        if resource in (CPU, MEMORY) or resource.startswith(_HUGE_PAGES)
    }
    add_resources(total, parse_resource_list(overhead or {}))
    return {resource: min(value, MAX_AMOUNT) for resource, value in total.items()}


def _with_sidecars(
    total: dict[str, int], init_containers: Iterable[ContainerRequests]
) -> dict[str, int]:
    """Add sidecars to the total and return the highest start-up peak per resource."""
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in init_containers:
        own = parse_resource_list(container.requests)
        if container.is_sidecar:
            add_resources(total, own)
            add_resources(sidecars, own)
            step = sidecars
        else:
            step = dict(sidecars)
            add_resources(step, own)
        for resource, value in step.items():
            peak[resource] = max(peak.get(resource, 0), value)
    return peak


def device_requests(
    containers: Sequence[Mapping[str, str]], init_containers: Sequence[ContainerRequests] = ()
) -> tuple[tuple[str, int], ...]:
    """Return the requests of the claim that the kube-scheduler makes for extended resources.

    Each container and sidecar has its own, in the claim's order. Of the other init containers the
    one that wants most beside what those after it have anyway has one for the rest.
    """
    wanted = [(parse_resource_list(each.requests), each.is_sidecar) for each in init_containers]
    wanted += [(parse_resource_list(each), True) for each in containers]
    resources = {name for each, _ in wanted for name, n in each.items() if n and "/" in name}
    found = [
        (str(place), resource, number)
        for resource in resources
        for place, number in _device_requests(
            [(each.get(resource, 0), stays) for each, stays in wanted]
        )
    ]
    return tuple((resource, number) for _, resource, number in sorted(found))


def _device_requests(wanted: Sequence[tuple[int, bool]]) -> Iterator[tuple[int, int]]:
    """Yield which containers have a request for a resource, and for how many devices.

    `wanted` says of each container how many it wants, and whether it stays.
    """
    rest = 0, 0
    for place, (number, stays) in enumerate(wanted):
        if stays and number:
            yield place, number
        elif number:
            beside = sum(more for more, follows in wanted[place:] if follows)
            rest = max(rest, (number - beside, -place))
    if rest[0] > 0:
        yield -rest[1], rest[0]


def add_resources(total: dict[str, int], more: ResourceList) -> None:
    """Add one set of amounts to another in place."""
    for resource, value in more.items():
        total[resource] = total.get(resource, 0) + value


def with_more(amounts: ResourceList, more: ResourceList) -> ResourceList:
    """Return a sum of amounts; the first ones themselves where there is nothing to add."""
    if not more:
        return amounts
    total = dict(amounts)
    add_resources(total, more)
    return total


def subtract_resources(total: dict[str, int], less: ResourceList) -> None:
    """Take amounts away in place; a resource that reaches zero is dropped."""
    for resource, value in less.items():
        left = total.get(resource, 0) - value
        if left:
            total[resource] = left
        else:
            total.pop(resource, None)


_BINARY_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_STEP: Final = 1024
_MAX_DIGITS: Final = 100
"""From here on no decimals are written."""

_MILLI: Final = 1000


def format_quantity(resource: str, amount: int) -> str:
    """Write an amount as an exact quantity; cpu is given in milli-cores."""
    if resource == CPU:
        return str(amount // _MILLI) if amount % _MILLI == 0 else f"{amount}m"
    return str(amount)


def format_rounded(resource: str, amount: int) -> str:
    """Write an amount for people: bytes in the largest binary unit, everything else exactly."""
    if resource != MEMORY and not resource.endswith("-storage"):
        return format_quantity(resource, amount)
    value, power = float(amount), 0
    while abs(value) >= _STEP and power < len(_BINARY_SUFFIXES) - 1:
        value, power = value / _STEP, power + 1
    digits = 0 if value >= _MAX_DIGITS or value == int(value) else 1
    return f"{value:.{digits}f}{_BINARY_SUFFIXES[power]}"
