"""Timers by key, and a queue whose keys come due once nothing has touched them for a while."""

import math
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from typing import Final, Generic, TypeAlias, TypeVar

from msgspec import Struct

K = TypeVar("K", bound=Hashable)
C = TypeVar("C")

_Entry: TypeAlias = tuple[int, int, K, float]
"""The millisecond, which timer it was that was set, its key, and when it rings.

By the first two entries are in order.
"""

_TICKS_PER_S: Final = 1000
_ROUNDING: Final = 1e-3
"""The share of a tick by which sums of the same times may differ."""


def earliest(*times: float | None) -> float | None:
    """Return the earliest of these times; None stands for never."""
    first = None
    for time in times:
        if time is not None and (first is None or time < first):
            first = time
    return first


class Timers(Generic[K]):
    """At most one timer per key; a new one replaces the old. Times are monotonic seconds.

    All are on one heap: one wake-up serves them, and resetting one is cheap.

    They ring on whole milliseconds, and of one millisecond in the order in which they were set:
    the rounding of sums, which depends on when the machine was booted, does not decide that.

    The heap has the place of each key, so that a timer that is set anew or cancelled is taken out
    at once. Entries left on it until they come first would be taken out by thousands in one call.
    """

    def __init__(self) -> None:
        self._heap: list[_Entry[K]] = []
        self._places: dict[K, int] = {}
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._heap)

    def set(self, key: K, at: float) -> None:
        """Ring for this key at that time, and not before."""
        self._sequence += 1
        tick = math.ceil(at * _TICKS_PER_S - _ROUNDING)
        entry = tick, self._sequence, key, max(at, tick / _TICKS_PER_S)
        place = self._places.get(key)
        if place is None:
            place = len(self._heap)
            self._heap.append(entry)
        self._put(entry, place)

    def set_if_sooner(self, key: K, at: float) -> None:
        """Ring for this key at that time at the latest."""
        due = self.due(key)
        if due is None or at < due:
            self.set(key, at)

    def cancel(self, key: K) -> None:
        """Do not ring for this key."""
        place = self._places.pop(key, None)
        if place is None:
            return
        last = self._heap.pop()
        if place < len(self._heap):
            self._put(last, place)

    def due(self, key: K) -> float | None:
        """Return when the timer of this key rings; None where it has none."""
        place = self._places.get(key)
        return None if place is None else self._heap[place][3]

    def pop_due(self, now: float) -> K | None:
        """Take out one key whose time has come."""
        due = self.next_due()
        if due is None or due > now:
            return None
        key = self._heap[0][2]
        self.cancel(key)
        return key

    def next_due(self) -> float | None:
        """Return when the next timer rings."""
        return self._heap[0][3] if self._heap else None

    def _put(self, entry: "_Entry[K]", place: int) -> None:
        """Put an entry where it belongs, above or below a place that is free."""
        heap, places = self._heap, self._places
        while place and entry < (parent := heap[(place - 1) // 2]):
            heap[place], places[parent[2]] = parent, place
            place = (place - 1) // 2
        while (below := 2 * place + 1) < len(heap):
            if below + 1 < len(heap) and heap[below + 1] < heap[below]:
                below += 1
            if entry < heap[below]:
                break
            child = heap[below]
            heap[place], places[child[2]] = child, place
            place = below
        heap[place], places[entry[2]] = entry, place


class DebounceConfig(Struct, frozen=True, gc=False):
    """The waits of a debounce, in seconds; zero looks at once."""

    quiet_s: float = 1.0
    max_wait_s: float = 10.0


class DebounceQueue(Generic[K, C]):
    """Keys that wait until they are quiet, but never too long, each with its first cause.

    A key is due when nothing touched it for the quiet time, or when the maximum wait has passed
    since it was first touched: bursts collapse into one look.

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
