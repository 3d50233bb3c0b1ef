"""ReplicaSets: their size, what controls them, and whether they keep their pods from eviction."""

from collections.abc import Callable, Iterable
from typing import Final

from reactive_desched.model.objects import OwnerReference, ReplicaSet, controller_of
from reactive_desched.primitives.bounded_text import bounded_name
from reactive_desched.state.kinds.interning import InternTables, parse_resource_version
from reactive_desched.state.kinds.kind import (
    NO_OPT_OUT,
    Identifier,
    OptOutAnnotation,
    Purpose,
    Timestamp,
    WatchedKind,
    WireStruct,
)

__all__ = [
    "NO_TOPMOST_OWNER",
    "REPLICA_SET",
    "OwnerMetadata",
    "bounded_owner",
    "controller_reader",
]


class OwnerMetadata(WireStruct, frozen=True, gc=False):
    """The identity of an object and its owners, and whether it is being deleted."""

    uid: Identifier
    resource_version: str = ""
    owner_references: tuple[OwnerReference, ...] = ()
    annotations: OptOutAnnotation = NO_OPT_OUT
    deletion_timestamp: Timestamp | None = None


class OwnerSpec(WireStruct, frozen=True, gc=False):
    """The number of pods that a ReplicaSet wants."""

    replicas: int | None = None


class WireOwner(WireStruct, frozen=True, gc=False):
    """A ReplicaSet's JSON."""

    metadata: OwnerMetadata
    spec: OwnerSpec = OwnerSpec()


def bounded_owner(owner: OwnerReference, text: Callable[[str], str]) -> OwnerReference:
    """Return the owner with names of a length: the API server takes any for an owner's.

    `text` returns the shared text for one that many objects have.
    """
    return OwnerReference(
        text(owner.kind),
        bounded_name(owner.name),
        bounded_name(owner.uid),
        owner.controller,
        text(owner.api_version),
    )


def controller_reader(
    tables: InternTables,
) -> Callable[[Iterable[OwnerReference]], OwnerReference | None]:
    """Return what reads the controller of an object, which siblings share."""
    text, controllers = tables.texts.intern, tables.controllers

    def read(owners: Iterable[OwnerReference]) -> OwnerReference | None:
        reference = controller_of(owners)
        if reference is None or (found := controllers.get(reference)) is not None:
            return None if reference is None else found
        return controllers.intern(bounded_owner(reference, text))

    return read


def _reader(tables: InternTables) -> Callable[[WireOwner], ReplicaSet]:
    """Return a reader that keeps the controller, the opt-out and the size."""
    read_controller = controller_reader(tables)

    def read(wire: WireOwner) -> ReplicaSet:
        metadata = wire.metadata
        return ReplicaSet(
            metadata.uid,
            parse_resource_version(metadata.resource_version),
            read_controller(metadata.owner_references),
            metadata.annotations.do_not_evict,
            wire.spec.replicas,
            metadata.annotations.answer,
            metadata.deletion_timestamp is not None,
        )

    return read


NO_TOPMOST_OWNER: Final = (
    "records name a pod's own controller instead of the topmost owner, and guards do not know the"
    " workload above it"
)

REPLICA_SET: Final = WatchedKind(
    kind="ReplicaSet",
    resource="replicasets",
    api_version="apps/v1",
    namespaced=True,
    record=ReplicaSet,
    wire=WireOwner,
    make_reader=_reader,
    purpose=Purpose.OWNERS,
    read_for="the Deployment above a pod's ReplicaSet, and the size of one without",
    if_forbidden=NO_TOPMOST_OWNER,
)
