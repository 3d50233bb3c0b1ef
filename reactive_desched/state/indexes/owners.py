"""Who controls what controls a pod: the way from a ReplicaSet or a Job to what stands above it."""

from collections.abc import Iterable

from reactive_desched.model.objects import Controlled, OwnerReference, controller_of

MOST_OWNERS = 5
"""How long a chain of owners may be; what is further up is left out."""


class Controllers:
    """The controllers of one kind of object, by the object's uid.

    An object that nothing controls is not held, so it costs nothing. Bounded by the number of
    objects in the cluster; siblings share what controls them.
    """

    def __init__(self) -> None:
        self._controllers: dict[str, OwnerReference] = {}

    def of(self, uid: str) -> OwnerReference | None:
        """Return the controller of the object with this uid; None if there is none known."""
        return self._controllers.get(uid)

    def keys(self) -> list[str]:
        """Return a snapshot of the uids."""
        return list(self._controllers)

    def upsert(self, thing: Controlled) -> None:
        """Take in an object; what was told last counts."""
        if thing.controller is not None:
            self._controllers[thing.uid] = thing.controller
        else:
            self._controllers.pop(thing.uid, None)

    def remove(self, uid: str) -> None:
        """Forget an object."""
        self._controllers.pop(uid, None)


def chain(
    owners: Iterable[OwnerReference], tables: Iterable[Controllers]
) -> tuple[OwnerReference, ...]:
    """Return the controller among these owners, that one's controller and so on, nearest first.

    Ends where nothing is known to be above, at `MOST_OWNERS`, or before anybody comes twice.
    """
    tables = tuple(tables)
    found: dict[str, OwnerReference] = {}
    above = controller_of(owners)
    while above is not None and above.uid not in found and len(found) < MOST_OWNERS:
        found[above.uid] = above
        above = _above(above.uid, tables)
    return tuple(found.values())


def _above(uid: str, tables: Iterable[Controllers]) -> OwnerReference | None:
    return next((known for table in tables if (known := table.of(uid)) is not None), None)
