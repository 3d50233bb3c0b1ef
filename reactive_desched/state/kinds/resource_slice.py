"""ResourceSlices: the devices that drivers offer on nodes."""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import field

from reactive_desched.model.devices import (
    Attribute,
    CapacityPolicy,
    Counters,
    Device,
    NodeScope,
    PoolName,
    ResourceSlice,
)
from reactive_desched.model.node_affinity import NodeSelector
from reactive_desched.model.quantities import parse_quantity
from reactive_desched.model.taints import Taint
from reactive_desched.state.kinds.interning import InternTables, parse_resource_version
from reactive_desched.state.kinds.kind import (
    Metadata,
    Purpose,
    Timestamp,
    WatchedKind,
    WireStruct,
)

__all__ = ["RESOURCE_SLICE"]


class WireAttribute(WireStruct, frozen=True, gc=False):
    """A value of one of four types."""

    bool_value: bool | None = field(name="bool", default=None)
    int_value: int | None = field(name="int", default=None)
    string: str | None = None
    version: str | None = None


class WireRange(WireStruct, frozen=True, gc=False):
    """The amounts that a claim may ask for."""

    min: str | int | float = ""
    max: str | int | float = ""
    step: str | int | float = ""


NO_RANGE: Final = WireRange()


class WirePolicy(WireStruct, frozen=True, gc=False):
    """The rule by which a claim gets some of a capacity."""

    default: str | int | float = ""
    valid_values: tuple[str | int | float, ...] = ()
    valid_range: WireRange | None = None


class WireCapacity(WireStruct, frozen=True, gc=False):
    """A quantity, and what a claim may have of it."""

    value: str | int | float = ""
    request_policy: WirePolicy | None = None


class WireTaint(WireStruct, frozen=True, gc=False):
    """A taint of a device."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: Timestamp | None = None


class WireCounterSet(WireStruct, frozen=True, gc=False):
    """The counters of a set: those of a pool, or those that a device takes."""

    name: str = ""
    counter_set: str = ""
    counters: Mapping[str, WireCapacity] = {}


class WireDevice(WireStruct, frozen=True, gc=False):
    """A device of a slice."""

    name: str = ""
    attributes: Mapping[str, WireAttribute] = {}
    capacity: Mapping[str, WireCapacity] = {}
    taints: tuple[WireTaint, ...] = ()
    node_name: str | None = None
    all_nodes: bool | None = None
    node_selector: NodeSelector | None = None
    consumes_counters: tuple[WireCounterSet, ...] = ()
    allow_multiple_allocations: bool | None = None
    binding_conditions: tuple[str, ...] | None = None


class WirePool(WireStruct, frozen=True, gc=False):
    """The pool that a slice is a part of."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 1


class SliceSpec(WireStruct, frozen=True, gc=False):
    """A ResourceSlice's spec."""

    driver: str = ""
    pool: WirePool = WirePool()
    node_name: str | None = None
    all_nodes: bool | None = None
    node_selector: NodeSelector | None = None
    per_device_node_selection: bool | None = None
    devices: tuple[WireDevice, ...] | None = ()
    shared_counters: tuple[WireCounterSet, ...] | None = ()


class WireResourceSlice(WireStruct, frozen=True, gc=False):
    """A ResourceSlice's JSON."""

    metadata: Metadata
    spec: SliceSpec = SliceSpec()


def _reader(tables: InternTables) -> Callable[[WireResourceSlice], ResourceSlice]:
    """Return a reader that shares names and values, which are alike on most nodes."""
    text = tables.texts.intern

    def read(wire: WireResourceSlice) -> ResourceSlice:
        metadata, spec = wire.metadata, wire.spec
        return ResourceSlice(
            name=metadata.name,
            uid=metadata.uid,
            resource_version=parse_resource_version(metadata.resource_version),
            pool=PoolName(text(spec.driver), text(spec.pool.name)),
            generation=spec.pool.generation,
            slices_of_pool=spec.pool.resource_slice_count,
            scope=None if spec.per_device_node_selection else _scope(spec),
            devices=tuple(map(device, spec.devices or ())),
            counters=_counters(spec.shared_counters or (), text),
            is_tried_last=any(each.binding_conditions for each in spec.devices or ()),
        )

    def device(wire: WireDevice) -> Device:
        has_scope = wire.node_name or wire.all_nodes or wire.node_selector is not None
        return Device(
            name=text(wire.name),
            attributes={
                text(name): value
                for name, each in wire.attributes.items()
                if (value := value_of(each)) is not None
            },
            capacity={text(name): text(_quantity(c.value)) for name, c in wire.capacity.items()},
            taints=tuple(Taint(text(t.key), text(t.effect), text(t.value)) for t in wire.taints),
            scope=_scope(wire) if has_scope else None,
            takes_counters=bool(wire.consumes_counters),
            is_shared=bool(wire.allow_multiple_allocations),
            taint_times=_taint_times(wire.taints),
            consumes=_counters(wire.consumes_counters, text),
            policies=_policies(wire.capacity, text),
        )

    def value_of(wire: WireAttribute) -> Attribute | None:
        if wire.bool_value is not None:
            return wire.bool_value
        if wire.int_value is not None:
            return wire.int_value
        if wire.version is not None:
            return (text(wire.version),)
        return None if wire.string is None else text(wire.string)

    return read


def _counters(sets: tuple[WireCounterSet, ...], text: Callable[[str], str]) -> Counters:
    """Return the amounts of counters; raises QuantityError for one that is no quantity."""
    found = []
    for each in sets:
        for name, counter in each.counters.items():
            parse_quantity(amount := str(counter.value))
            found.append((text(each.name or each.counter_set), text(name), text(amount)))
    return tuple(found)


def _policies(
    capacity: Mapping[str, WireCapacity], text: Callable[[str], str]
) -> dict[str, CapacityPolicy]:
    return {
        text(name): _policy(each.request_policy)
        for name, each in capacity.items()
        if each.request_policy is not None
    }


def _policy(wire: WirePolicy) -> CapacityPolicy:
    ranged = wire.valid_range or NO_RANGE
    return CapacityPolicy(
        default=_quantity(wire.default),
        values=tuple(map(_quantity, wire.valid_values)),
        minimum=_quantity(ranged.min),
        maximum=_quantity(ranged.max),
        step=_quantity(ranged.step),
    )


def _quantity(amount: str | float) -> str:
    """Return a quantity as text; raises QuantityError for one that is none, and not empty."""
    if amount != "":
        parse_quantity(str(amount))
    return str(amount)


def _taint_times(taints: tuple[WireTaint, ...]) -> tuple[int | None, ...]:
    """Return since when each stands; none at all where no time is known."""
    if all(each.time_added is None for each in taints):
        return ()
    return tuple(
        None if each.time_added is None else int(each.time_added.timestamp()) for each in taints
    )


def _scope(wire: WireDevice | SliceSpec) -> NodeScope:
    return NodeScope(wire.node_name or "", bool(wire.all_nodes), wire.node_selector)


RESOURCE_SLICE: Final = WatchedKind(
    kind="ResourceSlice",
    resource="resourceslices",
    api_version="resource.k8s.io/v1",
    namespaced=False,
    record=ResourceSlice,
    wire=WireResourceSlice,
    make_reader=_reader,
    purpose=Purpose.DEVICES,
    read_for="the devices that nodes have; watched only with `guards.resourceClaims: fit`",
    if_forbidden="pods with ResourceClaims stay where they are",
)
