"""DeviceClasses: which devices belong to a class that claims ask for."""

from collections.abc import Iterable
from typing import Final

from reactive_desched.model.devices import DeviceClass
from reactive_desched.state.kinds.interning import epoch_seconds, parse_resource_version
from reactive_desched.state.kinds.kind import (
    Metadata,
    Purpose,
    Timestamp,
    WatchedKind,
    WireStruct,
)

__all__ = ["DEVICE_CLASS", "WireSelector", "expressions_of"]


class WireCELSelector(WireStruct, frozen=True, gc=False):
    """An expression over a device."""

    expression: str = ""


class WireSelector(WireStruct, frozen=True, gc=False):
    """A condition on devices; CEL is the only language of the API by now."""

    cel: WireCELSelector | None = None


class ClassMetadata(Metadata, frozen=True, gc=False):
    """A DeviceClass's metadata: of two for one resource the younger one is taken."""

    creation_timestamp: Timestamp | None = None


class ClassSpec(WireStruct, frozen=True, gc=False):
    """A DeviceClass's spec."""

    selectors: tuple[WireSelector, ...] = ()
    extended_resource_name: str | None = None


class WireDeviceClass(WireStruct, frozen=True, gc=False):
    """A DeviceClass's JSON."""

    metadata: ClassMetadata
    spec: ClassSpec = ClassSpec()


def expressions_of(selectors: Iterable[WireSelector]) -> tuple[str, ...]:
    """Return the expressions; an empty one, which selects nothing, for an unknown language."""
    return tuple("" if each.cel is None else each.cel.expression for each in selectors)


def _read(wire: WireDeviceClass) -> DeviceClass:
    metadata = wire.metadata
    return DeviceClass(
        name=metadata.name,
        uid=metadata.uid,
        resource_version=parse_resource_version(metadata.resource_version),
        selectors=expressions_of(wire.spec.selectors),
        extended_resource=wire.spec.extended_resource_name or "",
        created_s=epoch_seconds(metadata.creation_timestamp) or 0,
    )


DEVICE_CLASS: Final = WatchedKind(
    kind="DeviceClass",
    resource="deviceclasses",
    api_version="resource.k8s.io/v1",
    namespaced=False,
    record=DeviceClass,
    wire=WireDeviceClass,
    make_reader=lambda _: _read,
    purpose=Purpose.DEVICES,
    read_for="which devices suit a claim; watched only with `guards.resourceClaims: fit`",
    if_forbidden="pods with ResourceClaims stay where they are",
)
