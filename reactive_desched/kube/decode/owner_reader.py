"""Makes records of what stands between pods and their topmost owners; siblings share the owner."""

from typing import Final, Generic, TypeVar

from msgspec.structs import replace

from reactive_desched.kube.decode.fields import version
from reactive_desched.kube.decode.interning import SharedParts
from reactive_desched.kube.decode.wire import WireOwned
from reactive_desched.model.objects import Job, OwnerReference, ReplicaSet, controller_of

__all__ = ["OwnedReader"]

R = TypeVar("R", ReplicaSet, Job)


class OwnedReader(Generic[R]):
    """Turns wire objects into records of one kind, with their controllers alone."""

    def __init__(self, shared: SharedParts, made: type[R]) -> None:
        self._shared: Final = shared
        self._made: Final[type[R]] = made

    def record(self, wire: WireOwned) -> R:
        """Return the record."""
        metadata = wire.metadata
        controller = controller_of(metadata.owner_references)
        return self._made(
            metadata.uid,
            version(metadata.resource_version),
            None if controller is None else self._own(controller),
        )

    def _own(self, given: OwnerReference) -> OwnerReference:
        found = self._shared.controllers.get(given)
        return self._kept(given) if found is None else found

    def _kept(self, given: OwnerReference) -> OwnerReference:
        """Keep a new one, made of words that all of its kind share."""
        text = self._shared.texts.of
        return self._shared.controllers.of(
            replace(given, kind=text(given.kind), api_version=text(given.api_version))
        )
