"""ResourceClaims: the devices that pods ask for, and those that are allocated to them."""

from collections.abc import Mapping
from typing import Final

from msgspec import field

from reactive_desched.model.devices import (
    EXACT_COUNT,
    Amounts,
    DeviceAllocation,
    DeviceAlternatives,
    DeviceConstraint,
    DeviceId,
    DeviceRequest,
    ResourceClaim,
)
from reactive_desched.model.node_affinity import NodeSelector
from reactive_desched.model.objects import OwnerReference
from reactive_desched.model.quantities import parse_quantity
from reactive_desched.model.taints import Toleration
from reactive_desched.state.kinds.device_class import WireSelector, expressions_of
from reactive_desched.state.kinds.interning import parse_resource_version
from reactive_desched.state.kinds.kind import (
    Metadata,
    Purpose,
    Timestamp,
    WatchedKind,
    WireStruct,
)

__all__ = ["RESOURCE_CLAIM"]


class ClaimMetadata(Metadata, frozen=True, gc=False):
    """A ResourceClaim's metadata: one from a template is owned by its pod."""

    owner_references: tuple[OwnerReference, ...] = ()
    deletion_timestamp: Timestamp | None = None


class WireCapacityRequest(WireStruct, frozen=True, gc=False):
    """The amounts of each device's capacities that a request asks for."""

    requests: Mapping[str, str | int | float] = {}


class WireRequest(WireStruct, frozen=True, gc=False):
    """Devices of one class: the request itself, or one of its alternatives."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[WireSelector, ...] = ()
    allocation_mode: str = EXACT_COUNT
    count: int = 1
    admin_access: bool | None = None
    tolerations: tuple[Toleration, ...] = ()
    capacity: WireCapacityRequest | None = None


class WireDeviceRequest(WireStruct, frozen=True, gc=False):
    """A request for devices in one way, or in the first of several."""

    name: str = ""
    exactly: WireRequest | None = None
    first_available: tuple[WireRequest, ...] = ()


class WireConstraint(WireStruct, frozen=True, gc=False):
    """An attribute that devices have in common, or in which they differ."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaim(WireStruct, frozen=True, gc=False):
    """The devices that are asked for."""

    requests: tuple[WireDeviceRequest, ...] = ()
    constraints: tuple[WireConstraint, ...] = ()


class ClaimSpec(WireStruct, frozen=True, gc=False):
    """A ResourceClaim's spec."""

    devices: DeviceClaim = DeviceClaim()


class WireResult(WireStruct, frozen=True, gc=False):
    """One allocated device."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    share_id: str | None = field(name="shareID", default=None)
    tolerations: tuple[Toleration, ...] = ()
    consumed_capacity: Mapping[str, str | int | float] = {}
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()


class WireResults(WireStruct, frozen=True, gc=False):
    """The allocated devices."""

    results: tuple[WireResult, ...] = ()


class WireAllocation(WireStruct, frozen=True, gc=False):
    """The allocated devices, and from which nodes they can be used."""

    devices: WireResults = WireResults()
    node_selector: NodeSelector | None = None


class WireUser(WireStruct, frozen=True, gc=False):
    """A user of a claim: a pod, as a rule."""

    uid: str = ""


class WireCondition(WireStruct, frozen=True, gc=False):
    """A condition of an allocated device."""

    type: str = ""
    status: str = ""


class WireDeviceStatus(WireStruct, frozen=True, gc=False):
    """An allocated device, as its driver reports it."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    conditions: tuple[WireCondition, ...] = ()


class ClaimStatus(WireStruct, frozen=True, gc=False):
    """A ResourceClaim's status."""

    allocation: WireAllocation | None = None
    reserved_for: tuple[WireUser, ...] = ()
    devices: tuple[WireDeviceStatus, ...] = ()


class WireResourceClaim(WireStruct, frozen=True, gc=False):
    """A ResourceClaim's JSON."""

    metadata: ClaimMetadata
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


def _read(wire: WireResourceClaim) -> ResourceClaim:
    metadata, devices, status = wire.metadata, wire.spec.devices, wire.status
    owners = (each for each in metadata.owner_references if each.controller)
    return ResourceClaim(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=parse_resource_version(metadata.resource_version),
        requests=tuple(_alternatives(each) for each in devices.requests),
        constraints=tuple(
            DeviceConstraint(
                each.requests, each.match_attribute or "", each.distinct_attribute or ""
            )
            for each in devices.constraints
        ),
        allocation=None if status.allocation is None else _allocation(status.allocation, status),
        users=tuple(each.uid for each in status.reserved_for),
        pod=next((each.uid for each in owners if each.kind == "Pod" and not each.group), ""),
        is_terminating=metadata.deletion_timestamp is not None,
    )


def _alternatives(wire: WireDeviceRequest) -> DeviceAlternatives:
    if wire.exactly is not None:
        return DeviceAlternatives(wire.name, (_request(wire.exactly),))
    return DeviceAlternatives(wire.name, tuple(map(_request, wire.first_available)))


def _request(wire: WireRequest) -> DeviceRequest:
    return DeviceRequest(
        device_class=wire.device_class_name,
        selectors=expressions_of(wire.selectors),
        mode=wire.allocation_mode,
        count=wire.count,
        tolerations=wire.tolerations,
        is_admin=bool(wire.admin_access),
        name=wire.name,
        capacity=() if wire.capacity is None else _amounts(wire.capacity.requests),
    )


def _allocation(wire: WireAllocation, status: ClaimStatus) -> DeviceAllocation:
    taken = [each for each in wire.devices.results if not each.admin_access]
    whole = [each for each in taken if not each.share_id]
    shares = [each for each in taken if each.share_id]
    return DeviceAllocation(
        devices=tuple(map(_device_id, whole)),
        node_selector=wire.node_selector,
        shares=tuple(map(_device_id, shares)),
        tolerations=tuple(each.tolerations for each in (*whole, *shares))
        if any(each.tolerations for each in taken)
        else (),
        amounts=tuple(_amounts(each.consumed_capacity) for each in shares),
        is_awaited=any(_is_awaited(each, status) for each in wire.devices.results),
    )


def _is_awaited(wire: WireResult, status: ClaimStatus) -> bool:
    """Say whether a device is not ready to be bound, by what its driver reports of it first."""
    if not wire.binding_conditions:
        return False
    own = (wire.driver, wire.pool, wire.device)
    reported = (e for e in status.devices if (e.driver, e.pool, e.device) == own)
    first = next(reported, None)
    found = () if first is None else first.conditions
    true = {each.type for each in found if each.status == "True"}
    return not true.issuperset(wire.binding_conditions) or not true.isdisjoint(
        wire.binding_failure_conditions
    )


def _amounts(wire: Mapping[str, str | int | float]) -> Amounts:
    """Return quantities by their names; raises QuantityError for one that is none."""
    found = tuple((name, str(amount)) for name, amount in sorted(wire.items()))
    for _, amount in found:
        parse_quantity(amount)
    return found


def _device_id(wire: WireResult) -> DeviceId:
    return DeviceId(wire.driver, wire.pool, wire.device)


RESOURCE_CLAIM: Final = WatchedKind(
    kind="ResourceClaim",
    resource="resourceclaims",
    api_version="resource.k8s.io/v1",
    namespaced=True,
    record=ResourceClaim,
    wire=WireResourceClaim,
    make_reader=lambda _: _read,
    purpose=Purpose.DEVICES,
    read_for="the devices that pods claim; watched only with `guards.resourceClaims: fit`",
    if_forbidden="pods with ResourceClaims stay where they are",
)
