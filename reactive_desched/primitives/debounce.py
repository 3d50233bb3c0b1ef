"""Waits until a key is quiet, but never too long.

A key is due when nothing touched it for the quiet time, or when the maximum wait has passed
since it was first touched. Bursts collapse into one look.
"""

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from typing import Final, Generic, TypeVar

from msgspec import Struct

K = TypeVar("K", bound=Hashable)
C = TypeVar("C")


class DebounceConfig(Struct, frozen=True, gc=False):
    """The waits of a debounce, in seconds; zero looks at once."""

    quiet_s: float = 1.0
    max_wait_s: float = 10.0


class DebounceQueue(Generic[K, C]):
    """Enqueued keys, each with its first cause.

    `keys` has each key once, however often it changes, so the number of objects bounds it. The
    dictionaries are ordered ones: finding the first key of a plain one takes longer with each key
    taken out before.
    """

    def __init__(self, config: DebounceConfig) -> None:
        self._quiet_s = config.quiet_s
        self._max_wait_s = config.max_wait_s
        self._first_enqueued: OrderedDict[K, tuple[float, C]] = OrderedDict()  # by first touch
        self.keys: Final[Mapping[K, object]] = self._first_enqueued
        self._last_enqueued: OrderedDict[K, float] = OrderedDict()  # by last touch

    def __len__(self) -> int:
        return len(self._first_enqueued)

    def __contains__(self, key: K) -> bool:
        return key in self._first_enqueued

    def enqueue(self, key: K, now: float, trigger: C) -> None:
        """Something about this key changed now."""
        if key in self._first_enqueued:
            self._last_enqueued.move_to_end(key)
        else:
            self._first_enqueued[key] = (now, trigger)
        self._last_enqueued[key] = now

    def discard(self, key: K) -> None:
        """Take a key out, if it is here."""
        if key in self._first_enqueued:
            del self._first_enqueued[key], self._last_enqueued[key]

    def pop_due(self, now: float) -> tuple[K, C] | None:
        """Take out one key whose time has come, with its first cause."""
        if not self._first_enqueued:
            return None
        key, last = next(iter(self._last_enqueued.items()))
        if last + self._quiet_s > now:
            key, (first, _) = next(iter(self._first_enqueued.items()))
            if first + self._max_wait_s > now:
                return None
        del self._last_enqueued[key]
        return key, self._first_enqueued.pop(key)[1]

    def next_due(self) -> float | None:
        """Return when the next key comes due, if none is touched meanwhile."""
        if not self._first_enqueued:
            return None
        quiet = next(iter(self._last_enqueued.values())) + self._quiet_s
        longest = next(iter(self._first_enqueued.values()))[0] + self._max_wait_s
        return min(quiet, longest)
