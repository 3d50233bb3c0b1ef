"""Keeps what every node has free of each resource, and finds the nodes that have enough."""

from collections.abc import Iterable, Sequence
from typing import Final

from reactive_desched.fit.change_log import ChangeLog
from reactive_desched.model.resources import CPU, MEMORY, PODS, ResourceList
from reactive_desched.primitives import bits

MAX_CACHED_LEVELS: Final = 2_000
"""How many amounts have their nodes cached; at the bound the least recently used is dropped."""

MAX_TRACKED_RESOURCES: Final = 100
"""How many resources are tracked; at the bound the one tracked longest is dropped."""

_ALWAYS_TRACKED: Final = (CPU, MEMORY, PODS)


class _Level:
    """The nodes with at least one amount of a resource, current up to a cursor into the changes."""

    __slots__ = ("cursor", "nodes")

    def __init__(self) -> None:
        self.nodes = 0
        self.cursor = -1


class FreeResources:
    """The free amount in each slot, by resource; negative where a node is over-committed."""

    def __init__(self) -> None:
        self.changes: ChangeLog[int] = ChangeLog()
        self._free: dict[str, list[int]] = {resource: [] for resource in _ALWAYS_TRACKED}
        self._levels: dict[tuple[str, int], _Level] = {}

    @property
    def resources(self) -> Iterable[str]:
        """The tracked resources."""
        return self._free

    def tracks(self, resource: str) -> bool:
        """Say whether a resource is tracked."""
        return resource in self._free

    def track(self, resource: str, free: Iterable[int]) -> None:
        """Track one more resource, given what each slot has free."""
        if len(self._free) >= MAX_TRACKED_RESOURCES:
            oldest = next(name for name in self._free if name not in _ALWAYS_TRACKED)
            del self._free[oldest]
            self._levels = {key: of for key, of in self._levels.items() if key[0] != oldest}
        self._free[resource] = list(free)

    def add_slot(self) -> None:
        """Add a slot; nothing is free in it yet."""
        for free in self._free.values():
            free.append(0)

    def update(self, slot: int, allocatable: ResourceList, taken: Sequence[ResourceList]) -> bool:
        """Update a slot's free resources; say whether it has more of any."""
        grew = differs = False
        for resource, free in self._free.items():
            now = remaining(resource, allocatable, taken)
            if now != free[slot]:
                grew |= now > free[slot]
                free[slot] = now
                differs = True
        if differs:
            self.changes.append(slot)
        return grew

    def free_in(self, resource: str, slot: int) -> int:
        """Return what is free in a slot; 0 of a resource that is not tracked."""
        free = self._free.get(resource)
        return 0 if free is None else free[slot]

    def has_all(self, slot: int, wanted: Iterable[tuple[str, int]]) -> bool:
        """Say whether a slot has all these amounts free; an untracked resource is not free."""
        for resource, amount in wanted:
            free = self._free.get(resource)
            if free is None or free[slot] < amount:
                return False
        return True

    def with_at_least(self, resource: str, amount: int) -> int:
        """Return the slots with at least this amount of a resource free."""
        level = self._levels.pop((resource, amount), None) or _Level()
        self._levels[resource, amount] = level
        if len(self._levels) > MAX_CACHED_LEVELS:
            del self._levels[next(iter(self._levels))]
        self._refresh(level, self._free[resource], amount)
        return level.nodes

    def _refresh(self, level: _Level, free: list[int], amount: int) -> None:
        changed = self.changes.since(level.cursor)
        if changed is None or len(changed) * 8 > len(free):
            level.nodes = bits.of_flags([of_slot >= amount for of_slot in free])
        else:
            for slot in changed:
                level.nodes = bits.with_bit(level.nodes, slot, present=free[slot] >= amount)
        level.cursor = self.changes.end


def remaining(resource: str, allocatable: ResourceList, taken: Iterable[ResourceList]) -> int:
    """Return what is free of a resource; 0 where the node does not offer it."""
    free = allocatable.get(resource, 0)
    for amounts in taken:
        free -= amounts.get(resource, 0)
    return free


def demands(wanted: ResourceList) -> list[tuple[str, int]]:
    """Return the resources a node must have free for a pod, one pod slot included."""
    return [(PODS, 1), *((resource, amount) for resource, amount in wanted.items() if amount > 0)]
