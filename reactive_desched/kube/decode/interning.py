"""Equal parts of many objects are kept once, and let go when the last object that had them goes.

Pods of one template differ in little more than their names. Parts are looked up by their content,
never by owner or template hash: webhooks and resizes change single pods.
"""

from collections.abc import Hashable
from sys import getrefcount
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from reactive_desched.model.labels import Labels
    from reactive_desched.model.node_affinity import NodeAffinity
    from reactive_desched.model.objects import (
        Annotations,
        HostPort,
        OwnerReference,
        PodAffinityTerm,
        PodCondition,
        PodSpec,
        PodStatus,
        TopologySpreadConstraint,
    )
    from reactive_desched.model.resources import Amounts
    from reactive_desched.model.taints import Tolerations

__all__ = ["Canon", "SharedParts", "Shelf", "Swept"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_LIMIT: Final = 1_000_000


class Swept(Struct, frozen=True, gc=False):
    """What a sweep did."""

    examined: int
    dropped: int


class Shelf(Generic[K, V]):
    """Values by content: whoever asks for the same gets the same one.

    Holds `limit` entries; when full, new values are handed out without being kept (counted in
    `refused`) until a sweep has made room. `get` answers None for what is not there, so no value
    may be None.
    """

    def __init__(self, name: str, limit: int = _LIMIT) -> None:
        self.name: Final = name
        self._entries: dict[K, V] = {}
        self._limit = limit
        self._unswept: list[K] = []
        self._alone = _references_when_alone({object(): object()})
        self.refused = 0
        self.get: Final = self._entries.get  # the dict's own method: nothing is called more often

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def is_swept(self) -> bool:
        """Say whether every entry has been examined since the last round began."""
        return not self._unswept

    def put(self, key: K, value: V) -> V:
        """Keep a value that `get` did not find, and return it."""
        if len(self._entries) >= self._limit:
            self.refused += 1
            return value
        return self._entries.setdefault(key, value)

    def sweep(self, budget: int) -> Swept:
        """Examine up to `budget` entries, going on where the last call stopped.

        An entry is dropped when nothing but this shelf holds its value. A new round begins by
        listing the keys, about a millisecond per 100,000.
        """
        entries = self._entries
        unswept = self._unswept = self._unswept or list(entries)
        before, examined = len(entries), min(budget, len(unswept))
        for _ in range(examined):
            key = unswept.pop()
            if getrefcount(entries[key]) <= self._alone:
                del entries[key]
        return Swept(examined, before - len(entries))


class Canon(Shelf[K, K]):
    """One object for all that are equal to it: here the key is the value itself."""

    def __init__(self, name: str, limit: int = _LIMIT) -> None:
        super().__init__(name, limit)
        self._alone = _references_when_alone({text: text for text in [repr(0.5)]})

    def of(self, value: K) -> K:
        """Return the one that is equal to this."""
        found = self.get(value)
        return self.put(value, value) if found is None else found


def _references_when_alone(entries: dict[Any, Any]) -> int:
    """Count the references to a value that only its dict holds, as `Shelf.sweep` sees them.

    Interpreters differ in what they count, so the count is taken rather than known.
    """
    unswept = list(entries)
    key = unswept.pop()
    return getrefcount(entries[key])


class SharedParts:
    """Every shelf that the readers of one process share. Not for use from several threads."""

    def __init__(self, limit: int = _LIMIT) -> None:
        self.specs: Shelf[Hashable, PodSpec] = Shelf("specs", limit)
        self.statuses: Canon[PodStatus] = Canon("statuses", limit)
        self.texts: Canon[str] = Canon("texts", limit)
        self.labels: Shelf[bytes, Labels] = Shelf("labels", limit)
        self.node_selectors: Shelf[bytes, Labels] = Shelf("nodeSelector", limit)
        self.owners: Shelf[bytes, tuple[OwnerReference, ...]] = Shelf("ownerReferences", limit)
        self.controllers: Canon[OwnerReference] = Canon("controllers", limit)
        self.annotations: Shelf[Hashable, Annotations] = Shelf("annotations", limit)
        self.tolerations: Shelf[bytes, Tolerations] = Shelf("tolerations", limit)
        self.node_affinities: Shelf[bytes, NodeAffinity] = Shelf("nodeAffinity", limit)
        self.pod_terms: Shelf[bytes, tuple[PodAffinityTerm, ...]] = Shelf("podAffinity", limit)
        self.spreads: Shelf[bytes, tuple[TopologySpreadConstraint, ...]] = Shelf(
            "topologySpreadConstraints", limit
        )
        self.host_ports: Shelf[bytes, tuple[HostPort, ...]] = Shelf("ports", limit)
        self.requests: Shelf[Hashable, Amounts] = Shelf("requests", limit)
        self.resizes: Shelf[Hashable, Amounts] = Shelf("resizes", limit)
        self.transitions: Canon[tuple[int | None, ...]] = Canon("transitions", limit)
        self.allocatable: Shelf[bytes, Amounts] = Shelf("allocatable", limit)
        self.conditions: Canon[tuple[PodCondition, ...]] = Canon("conditions", limit)
        # Wholes before their parts, so that one round frees both.
        self._shelves: Final[list[Shelf[Any, Any]]] = [
            shelf for shelf in vars(self).values() if isinstance(shelf, Shelf)
        ]
        self._turn = 0

    def sizes(self) -> dict[str, int]:
        """Count the entries of each shelf."""
        return {shelf.name: len(shelf) for shelf in self._shelves}

    def refused(self) -> dict[str, int]:
        """Count, for each shelf, the values not kept because it was full."""
        return {shelf.name: shelf.refused for shelf in self._shelves}

    def sweep(self, budget: int) -> Swept:
        """Examine up to `budget` entries, shelf after shelf, and drop those nobody uses.

        Takes about a third of a microsecond per entry; call it now and then, forever.
        """
        examined = dropped = 0
        for _ in self._shelves:
            shelf = self._shelves[self._turn]
            swept = shelf.sweep(budget - examined)
            examined += swept.examined
            dropped += swept.dropped
            if not shelf.is_swept:
                break
            self._turn = (self._turn + 1) % len(self._shelves)
        return Swept(examined, dropped)
