"""Which slots changed, for those who catch up when they are asked next, and not before."""

from collections.abc import Collection
from typing import Final

KEPT: Final = 4096


class Trail:
    """Slots in the order in which they changed.

    Keeps the last 4,096 at least, twice as many at most; whoever is further behind is told so
    (None) and begins anew.
    """

    __slots__ = ("_first", "_slots")

    def __init__(self) -> None:
        self._first = 0
        self._slots: list[int] = []

    @property
    def end(self) -> int:
        """Where whoever has caught up stands."""
        return self._first + len(self._slots)

    def note(self, slot: int) -> None:
        """A slot changed."""
        if len(self._slots) >= 2 * KEPT:
            del self._slots[:KEPT]
            self._first += KEPT
        self._slots.append(slot)

    def since(self, stand: int) -> Collection[int] | None:
        """Return what changed since someone had caught up, each once; None when that is lost."""
        if stand == self.end:
            return ()
        if stand < self._first:
            return None
        return set(self._slots[stand - self._first :])
