"""Makes records of what stands between pods and their topmost owners; siblings share the owner."""

from typing import Final, Generic, TypeVar

from msgspec.structs import replace

from reactive_desched.kube.decode.fields import parse_resource_version
from reactive_desched.kube.decode.interning import InternTables
from reactive_desched.kube.decode.wire import WireOwner
from reactive_desched.model.objects import Job, OwnerReference, ReplicaSet, controller_of

__all__ = ["OwnerReader"]

R = TypeVar("R", ReplicaSet, Job)


class OwnerReader(Generic[R]):
    """Turns wire objects into records of one kind, with their controllers alone."""

    def __init__(self, tables: InternTables, record_type: type[R]) -> None:
        self._tables: Final = tables
        self._record_type: Final[type[R]] = record_type

    def record(self, wire: WireOwner) -> R:
        """Return the record."""
        metadata = wire.metadata
        controller = controller_of(metadata.owner_references)
        return self._record_type(
            metadata.uid,
            parse_resource_version(metadata.resource_version),
            None if controller is None else self._interned(controller),
        )

    def _interned(self, reference: OwnerReference) -> OwnerReference:
        found = self._tables.controllers.get(reference)
        return self._intern_new(reference) if found is None else found

    def _intern_new(self, reference: OwnerReference) -> OwnerReference:
        """Keep a new one, made of words that all of its kind share."""
        text = self._tables.texts.intern
        return self._tables.controllers.intern(
            replace(reference, kind=text(reference.kind), api_version=text(reference.api_version))
        )
