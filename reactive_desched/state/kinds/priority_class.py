"""PriorityClasses: a policy may name the class whose value is the priority threshold."""

from typing import Final

from reactive_desched.model.changes import PriorityClassChanged
from reactive_desched.model.objects import PriorityClass
from reactive_desched.state.kinds.interning import parse_resource_version
from reactive_desched.state.kinds.kind import Metadata, WatchedKind, WireStruct

__all__ = ["PRIORITY_CLASS"]


class WirePriorityClass(WireStruct, frozen=True, gc=False):
    """A PriorityClass's JSON."""

    metadata: Metadata
    value: int = 0


def _read(wire: WirePriorityClass) -> PriorityClass:
    metadata = wire.metadata
    return PriorityClass(
        name=metadata.name,
        uid=metadata.uid,
        resource_version=parse_resource_version(metadata.resource_version),
        value=wire.value,
    )


PRIORITY_CLASS: Final = WatchedKind(
    kind="PriorityClass",
    resource="priorityclasses",
    api_version="scheduling.k8s.io/v1",
    namespaced=False,
    record=PriorityClass,
    wire=WirePriorityClass,
    make_reader=lambda _: _read,
    make_change=lambda priority_class: PriorityClassChanged(priority_class.name),
    read_for="the value of the class that `priorityThreshold.name` names",
)
