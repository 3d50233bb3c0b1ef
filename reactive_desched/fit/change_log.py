"""A bounded log of changed keys, read by followers that each keep a cursor."""

from collections.abc import Collection, Hashable
from typing import Final, Generic, TypeVar

KEPT_CHANGES: Final = 4096

K = TypeVar("K", bound=Hashable)


class ChangeLog(Generic[K]):
    """Keys in the order in which they changed.

    It keeps the last `kept` changes at least, and twice as many at most. A follower that is
    further behind gets None from `since` and must look at everything again.
    """

    __slots__ = ("_first", "_kept", "_keys")

    def __init__(self, kept: int = KEPT_CHANGES) -> None:
        self._kept = kept
        self._first = 0
        self._keys: list[K] = []

    @property
    def end(self) -> int:
        """The cursor of a follower that has read everything."""
        return self._first + len(self._keys)

    def append(self, key: K) -> None:
        """Add a changed key."""
        keys = self._keys
        if len(keys) >= 2 * self._kept:
            del keys[: self._kept]
            self._first += self._kept
        keys.append(key)

    def since(self, cursor: int) -> Collection[K] | None:
        """Return what changed since a cursor, each key once; None where that has been dropped."""
        if cursor == self.end:
            return ()
        if cursor < self._first:
            return None
        return dict.fromkeys(self._keys[cursor - self._first :]).keys()
