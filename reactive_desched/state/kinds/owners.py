"""ReplicaSets and Jobs: what controls them, and whether they keep their pods from eviction."""

from collections.abc import Callable
from typing import Final, TypeVar

from msgspec.structs import replace

from reactive_desched.model.objects import Job, OwnerReference, ReplicaSet, controller_of
from reactive_desched.state.kinds.interning import InternTables, parse_resource_version
from reactive_desched.state.kinds.kind import (
    NO_OPT_OUT,
    NonEmptyStr,
    OptOutAnnotation,
    Purpose,
    WatchedKind,
    WireStruct,
)

__all__ = ["JOB", "REPLICA_SET"]

R = TypeVar("R", ReplicaSet, Job)


class OwnerMetadata(WireStruct, frozen=True, gc=False):
    """The identity of an object and its owners."""

    uid: NonEmptyStr
    resource_version: str = ""
    owner_references: tuple[OwnerReference, ...] = ()
    annotations: OptOutAnnotation = NO_OPT_OUT


class OwnerSpec(WireStruct, frozen=True, gc=False):
    """How many pods a ReplicaSet wants; of a Job nothing."""

    replicas: int | None = None


class WireOwner(WireStruct, frozen=True, gc=False):
    """A ReplicaSet's or Job's JSON, whole or as PartialObjectMetadata."""

    metadata: OwnerMetadata
    spec: OwnerSpec = OwnerSpec()


def _reader(record: type[R], tables: InternTables) -> Callable[[WireOwner], R]:
    """Return a reader that keeps the controller, which siblings share, the opt-out and the size."""
    text, controllers = tables.texts.intern, tables.controllers

    def interned(reference: OwnerReference) -> OwnerReference:
        found = controllers.get(reference)
        if found is not None:
            return found
        return controllers.intern(
            replace(reference, kind=text(reference.kind), api_version=text(reference.api_version))
        )

    def read(wire: WireOwner) -> R:
        metadata = wire.metadata
        controller = controller_of(metadata.owner_references)
        return record(
            metadata.uid,
            parse_resource_version(metadata.resource_version),
            None if controller is None else interned(controller),
            metadata.annotations.do_not_evict,
            wire.spec.replicas,
        )

    return read


_NO_TOPMOST_OWNER: Final = (
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
    make_reader=lambda tables: _reader(ReplicaSet, tables),
    purpose=Purpose.OWNERS,
    read_for="the Deployment above a pod's ReplicaSet",
    if_forbidden=_NO_TOPMOST_OWNER,
    metadata_only=True,
)
JOB: Final = WatchedKind(
    kind="Job",
    resource="jobs",
    api_version="batch/v1",
    namespaced=True,
    record=Job,
    wire=WireOwner,
    make_reader=lambda tables: _reader(Job, tables),
    purpose=Purpose.OWNERS,
    read_for="the CronJob above a pod's Job",
    if_forbidden=_NO_TOPMOST_OWNER,
    metadata_only=True,
)
