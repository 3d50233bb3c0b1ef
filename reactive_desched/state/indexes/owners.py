"""Who controls what controls a pod: the way from a ReplicaSet or a Job to what stands above it."""

from collections.abc import Iterable

from reactive_desched.model.objects import IntermediateOwner, OwnerReference, controller_of

MAX_OWNER_CHAIN = 5
"""How long a chain of owners may be; what is further up is left out."""


class OwnerIndex:
    """The controllers of one kind of object, by the object's uid.

    An object that nothing controls is not held, so it costs nothing. Bounded by the number of
    objects in the cluster; siblings share what controls them.
    """

    def __init__(self) -> None:
        self._controllers: dict[str, OwnerReference] = {}

    def get(self, uid: str) -> OwnerReference | None:
        """Return the controller of the object with this uid; None if there is none known."""
        return self._controllers.get(uid)

    def keys(self) -> list[str]:
        """Return a snapshot of the uids."""
        return list(self._controllers)

    def upsert(self, obj: IntermediateOwner) -> None:
        """Take in an object; what was told last counts."""
        if obj.controller is not None:
            self._controllers[obj.uid] = obj.controller
        else:
            self._controllers.pop(obj.uid, None)

    def remove(self, uid: str) -> None:
        """Forget an object."""
        self._controllers.pop(uid, None)


def resolve_owner_chain(
    owners: Iterable[OwnerReference], indexes: Iterable[OwnerIndex]
) -> tuple[OwnerReference, ...]:
    """Return the controller among these owners, that one's controller and so on, nearest first.

    Ends where nothing is known to be above, at `MOST_OWNERS`, or before anybody comes twice.
    """
    indexes = tuple(indexes)
    found: dict[str, OwnerReference] = {}
    above = controller_of(owners)
    while above is not None and above.uid not in found and len(found) < MAX_OWNER_CHAIN:
        found[above.uid] = above
        above = _controller_of_uid(above.uid, indexes)
    return tuple(found.values())


def _controller_of_uid(uid: str, indexes: Iterable[OwnerIndex]) -> OwnerReference | None:
    return next((found for table in indexes if (found := table.get(uid)) is not None), None)
