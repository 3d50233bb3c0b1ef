"""Which slots changed, for those who catch up when they are asked next, and not before."""

from collections.abc import Collection
from typing import Final

KEPT_CHANGES: Final = 4096


class ChangeLog:
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

    def append(self, slot: int) -> None:
        """A slot changed."""
        if len(self._slots) >= 2 * KEPT_CHANGES:
            del self._slots[:KEPT_CHANGES]
            self._first += KEPT_CHANGES
        self._slots.append(slot)

    def since(self, cursor: int) -> Collection[int] | None:
        """Return what changed since someone had caught up, each once; None when that is lost."""
        if cursor == self.end:
            return ()
        if cursor < self._first:
            return None
        return set(self._slots[cursor - self._first :])
