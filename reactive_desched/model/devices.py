"""Devices that pods claim, as the API group resource.k8s.io describes them.

ResourceSlices list the devices of drivers, DeviceClasses and ResourceClaims say which of them suit,
and the status of a claim which are allocated to it. Only what decides whether the kube-scheduler
could allocate devices on another node is kept.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import Final, NamedTuple

from msgspec import Struct

from reactive_desched.model.node_affinity import NodeSelector
from reactive_desched.model.objects import Node, Pod, PodKey
from reactive_desched.model.taints import HARD_EFFECTS, Taint, Tolerations, untolerated

MAX_DEVICES_OF_CLAIM: Final = 32
"""As many devices as the API allows in the allocation of a claim."""

MAX_USERS_OF_CLAIM: Final = 256
"""For as many pods as the API allows a claim can be reserved."""

ALL_DEVICES: Final = "All"
EXACT_COUNT: Final = "ExactCount"


class DeviceId(NamedTuple):
    """A device by its names; unique in the cluster."""

    driver: str
    pool: str
    device: str


Amounts = tuple[tuple[str, str], ...]
"""Quantities as texts, by the names of capacities."""


class DeviceRequest(Struct, frozen=True, gc=False):
    """Devices of one class that a claim asks for; `selectors` are CEL expressions.

    `capacity` is what it asks for of each device's capacities.
    """

    device_class: str
    selectors: tuple[str, ...] = ()
    mode: str = EXACT_COUNT
    count: int = 1
    tolerations: Tolerations = ()
    is_admin: bool = False
    name: str = ""
    capacity: Amounts = ()


class DeviceAlternatives(Struct, frozen=True, gc=False):
    """One request of a claim: the first of these that can be had, of a list or the only one."""

    name: str
    choices: tuple[DeviceRequest, ...]

    @property
    def has_ranks(self) -> bool:
        """Say whether it is a list of which the first is the best, if only of one."""
        return len(self.choices) > 1 or any(choice.name for choice in self.choices)


class DeviceConstraint(Struct, frozen=True, gc=False):
    """An attribute that is the same for the devices of some requests, or differs.

    Without `requests` it is about all of the claim. A constraint with neither attribute is of a
    kind that is not known.
    """

    requests: tuple[str, ...] = ()
    match_attribute: str = ""
    distinct_attribute: str = ""

    def is_about(self, request: str, choice: str) -> bool:
        """Say whether it holds for devices of a request, or of one of its alternatives."""
        names = self.requests
        return not names or request in names or (choice != "" and f"{request}/{choice}" in names)


class DeviceAllocation(Struct, frozen=True, gc=False):
    """The devices of a claim, and the nodes that they can be used from.

    No other claim may have one of `devices`; of a device in `shares` others may have shares, too.
    Devices with admin access are left out: they are not taken away. `tolerations` are those of each
    of `devices` and then of `shares`, in their order, and `amounts` what each of `shares` takes of
    the device's capacities; none where there are fewer. With `is_awaited` a device lacks a
    condition without which the kube-scheduler binds no pod, or reports that it cannot be had.
    """

    devices: tuple[DeviceId, ...] = ()
    node_selector: NodeSelector | None = None
    shares: tuple[DeviceId, ...] = ()
    tolerations: tuple[Tolerations, ...] = ()
    amounts: tuple[Amounts, ...] = ()
    is_awaited: bool = False

    def shares_of(self, device: DeviceId) -> Iterator[Amounts]:
        """Yield what each share takes that the claim has of a device."""
        for share, amounts in zip_longest(self.shares, self.amounts[: len(self.shares)]):
            if share == device:
                yield amounts or ()


class ResourceClaim(Struct, frozen=True, gc=False):
    """One claim; `users` are the uids of what it is reserved for, pods as a rule.

    `pod` is the uid of the pod that it was made for from a template, and ends with.
    """

    namespace: str
    name: str
    uid: str = ""
    resource_version: int = 0
    requests: tuple[DeviceAlternatives, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    allocation: DeviceAllocation | None = None
    users: tuple[str, ...] = ()
    pod: PodKey = ""
    is_terminating: bool = False

    @property
    def key(self) -> str:
        """The namespace and name."""
        return f"{self.namespace}/{self.name}"

    def ends_with(self, pod: PodKey) -> bool:
        """Say whether its devices are free again once a pod is gone.

        A claim from a template is deleted with its pod. Any other is deallocated when the last
        pod that it is reserved for has ended.
        """
        return self.pod == pod or not any(user != pod for user in self.users)


IMPLICIT_RESOURCE: Final = "deviceclass.resource.kubernetes.io/"
"""Before the name of a DeviceClass it makes the name of an extended resource."""


class DeviceClass(Struct, frozen=True, gc=False):
    """The CEL expressions that the devices of a class satisfy.

    A pod that requests the extended resource gets devices of the class on a node that does not have
    this resource itself.
    """

    name: str
    uid: str = ""
    resource_version: int = 0
    selectors: tuple[str, ...] = ()
    extended_resource: str = ""
    created_s: int = 0

    @property
    def key(self) -> str:
        """The name."""
        return self.name


class NodeScope(Struct, frozen=True, gc=False):
    """The nodes from which devices can be used; by none of the three they cannot be used at all."""

    node: str = ""
    all_nodes: bool = False
    selector: NodeSelector | None = None

    def covers(self, node: Node) -> bool:
        """Say whether a node is one of them."""
        if self.node:
            return self.node == node.name
        if self.all_nodes:
            return True
        return self.selector is not None and self.selector.matches(node.name, node.labels)


Attribute = bool | int | str | tuple[str, ...]
"""A value; a version is a tuple of its text, which makes it differ from any text."""


Counters = tuple[tuple[str, str, str], ...]
"""Amounts of counters: the set, the counter's name, and the quantity as text."""


class CapacityPolicy(Struct, frozen=True, gc=False):
    """The amounts of a capacity that a claim can have: quantities as texts; empty ones say nothing.

    One that asks for none gets the `default`. Any other gets the next of `values`, which ascend, or
    at least the `minimum`, in steps from there, and at most the `maximum`.
    """

    default: str = ""
    values: tuple[str, ...] = ()
    minimum: str = ""
    maximum: str = ""
    step: str = ""


class Device(Struct, frozen=True, gc=False):
    """One device of a slice.

    `taint_times` says of each taint since when it stands, in seconds since the epoch, where that is
    known. `capacity` has quantities as texts. `scope` is its own where the slice leaves it to
    devices. `takes_counters` says that it is a part of a larger one, and `consumes` which counters
    of its pool it takes. Several claims may have shares of one that `is_shared`, of its capacities
    what the `policies` allow.
    """

    name: str
    attributes: Mapping[str, Attribute] = {}
    capacity: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    scope: NodeScope | None = None
    takes_counters: bool = False
    is_shared: bool = False
    taint_times: tuple[int | None, ...] = ()
    consumes: Counters = ()
    policies: Mapping[str, CapacityPolicy] = {}

    def attribute(self, driver: str, name: str) -> Attribute | None:
        """Return an attribute by its full name: without a domain it is one of the driver's own."""
        if (found := self.attributes.get(name)) is not None:
            return found
        domain, slash, own = name.partition("/")
        return self.attributes.get(own) if slash and domain == driver else None

    def repels(self, request: DeviceRequest, by_rules: Iterable[Taint] = ()) -> bool:
        """Say whether a taint keeps it from a request, one of its own or one that rules add."""
        taints = [taint for taint in (*self.taints, *by_rules) if taint.effect in HARD_EFFECTS]
        return next(untolerated(request.tolerations, taints), None) is not None


class DeviceTaintRule(Struct, frozen=True, gc=False):
    """A taint that an administrator adds to devices, by their names; an empty one is any.

    It stands since `since_s`, in seconds since the epoch, if that is known.
    """

    name: str
    uid: str = ""
    resource_version: int = 0
    taint: Taint = Taint("", "None")
    driver: str = ""
    pool: str = ""
    device: str = ""
    since_s: int | None = None

    @property
    def key(self) -> str:
        """The name."""
        return self.name

    def covers(self, device: DeviceId) -> bool:
        """Say whether a device has the taint."""
        wanted = (self.driver, self.pool, self.device)
        return all(each in ("", own) for each, own in zip(wanted, device, strict=True))


class PoolName(NamedTuple):
    """A pool of devices by its driver and name."""

    driver: str
    name: str


class ResourceSlice(Struct, frozen=True, gc=False):
    """A part of a pool: the newest generation is in force, once all its slices are there.

    `scope` is None where each device has its own. A slice with the `counters` of the pool has no
    devices, and counts for every node. With a device that has binding conditions its pool
    `is_tried_last`.
    """

    name: str
    uid: str = ""
    resource_version: int = 0
    pool: PoolName = PoolName("", "")
    generation: int = 0
    slices_of_pool: int = 1
    scope: NodeScope | None = None
    devices: tuple[Device, ...] = ()
    counters: Counters = ()
    is_tried_last: bool = False

    @property
    def key(self) -> str:
        """The name."""
        return self.name

    def covers(self, node: Node) -> bool:
        """Say whether some of its devices can be used from a node."""
        if self.scope is not None:
            return self.scope.covers(node)
        return any(d.scope is not None and d.scope.covers(node) for d in self.devices)

    def devices_for(self, node: Node) -> Iterator[Device]:
        """Yield the devices that can be used from a node, if the slice covers it."""
        for device in self.devices:
            if self.scope is not None or (device.scope is not None and device.scope.covers(node)):
                yield device


def claim_names(pod: Pod) -> Iterator[str]:
    """Yield the names of a pod's claims; an empty one for a claim that is still to be made."""
    made = dict(pod.made_claims)
    for name, claim in pod.spec.resource_claims:
        if claim:
            yield claim
        elif name not in made:
            yield ""
        elif made[name]:
            yield made[name]
