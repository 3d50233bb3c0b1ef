"""The order in which a StatefulSet creates pods again, by their ordinals."""

from collections import defaultdict
from typing import Generic, TypeVar

__all__ = ["OrderedTurns"]

T = TypeVar("T")


class OrderedTurns(Generic[T]):
    """Lets a pod be created when those of lower ordinals that were to come are Ready.

    `begin` notes a pod of an owner that leaves; a pod whose turn has not come waits as a `T`.
    """

    def __init__(self) -> None:
        self._unready: defaultdict[str, set[int]] = defaultdict(set)
        self._waiting: defaultdict[str, dict[int, T]] = defaultdict(dict)

    def begin(self, owner: str, ordinal: int) -> None:
        """Note that a pod leaves: until the next one is Ready those of higher ordinals wait."""
        self._unready[owner].add(ordinal)

    def has_come(self, owner: str, ordinal: int) -> bool:
        """Say whether a pod can be created now."""
        return not any(each < ordinal for each in self._unready.get(owner, ()))

    def wait(self, owner: str, ordinal: int, new: T) -> None:
        """Keep a pod until its turn has come."""
        self._waiting[owner][ordinal] = new

    def end(self, owner: str, ordinal: int) -> list[T]:
        """Note that a pod is Ready, or comes no more; return those whose turn has come by that."""
        if ordinal not in self._unready.get(owner, ()):
            return []
        self._unready[owner].discard(ordinal)
        self._waiting[owner].pop(ordinal, None)
        come = [each for each in sorted(self._waiting[owner]) if self.has_come(owner, each)]
        found = [self._waiting[owner].pop(each) for each in come]
        for kept in (self._unready, self._waiting):
            if not kept[owner]:
                del kept[owner]
        return found
