"""Timers by key, and a queue whose keys come due once nothing has touched them for a while."""

import heapq
import math
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from typing import Final, Generic, TypeAlias, TypeVar

from msgspec import Struct

K = TypeVar("K", bound=Hashable)
C = TypeVar("C")

STALE_PER_LIVE: Final = 4
"""How many outdated heap entries a live one may drag along before they are sorted out."""

SORTED_OUT_AT_ONCE: Final = 8
"""So many entries are sorted out with each timer that is set: all at once would take 80 ms for the
100,000 of a large cluster."""


_Entry: TypeAlias = tuple[int, int, K]
"""The millisecond, which timer it was that was set, and its key: by these it is in order."""

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
    """

    def __init__(self) -> None:
        self._deadlines: dict[K, tuple[float, int]] = {}
        self._heap: list[_Entry[K]] = []
        self._older: list[_Entry[K]] = []  # a heap, too: what is being sorted out
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._deadlines)

    def set(self, key: K, at: float) -> None:
        """Ring for this key at that time, and not before."""
        self._sequence += 1
        tick = math.ceil(at * _TICKS_PER_S - _ROUNDING)
        self._deadlines[key] = (max(at, tick / _TICKS_PER_S), self._sequence)
        heapq.heappush(self._heap, (tick, self._sequence, key))
        if self._older:
            self._sort_out()
        elif len(self._heap) > STALE_PER_LIVE * len(self._deadlines) + 64:
            self._older, self._heap = self._heap, []

    def set_if_sooner(self, key: K, at: float) -> None:
        """Ring for this key at that time at the latest."""
        if key not in self._deadlines or at < self._deadlines[key][0]:
            self.set(key, at)

    def cancel(self, key: K) -> None:
        """Do not ring for this key."""
        self._deadlines.pop(key, None)

    def due(self, key: K) -> float | None:
        """Return when the timer of this key rings; None where it has none."""
        return self._deadlines[key][0] if key in self._deadlines else None

    def pop_due(self, now: float) -> K | None:
        """Take out one key whose time has come."""
        due = self.next_due()
        if due is None or due > now:
            return None
        _, _, key = heapq.heappop(self._next_heap())
        del self._deadlines[key]
        return key

    def next_due(self) -> float | None:
        """Return when the next timer rings."""
        due = self._first_due(self._heap)
        if self._older and self._first_due(self._older) is not None:
            _, _, key = self._next_heap()[0]
            return self._deadlines[key][0]
        return due

    def _first_due(self, heap: "list[_Entry[K]]") -> float | None:
        """Return when the first timer of a heap rings; what is outdated before it is taken out."""
        while heap:
            _, sequence, key = heap[0]
            deadline = self._deadlines.get(key)
            if deadline is not None and deadline[1] == sequence:
                return deadline[0]
            heapq.heappop(heap)
        return None

    def _next_heap(self) -> "list[_Entry[K]]":
        """Return the heap with the next timer, of two whose first timers ring."""
        heap, older = self._heap, self._older
        return older if older and (not heap or older[0] < heap[0]) else heap

    def _sort_out(self) -> None:
        """Move some entries of the older heap to the other one, unless they are outdated.

        Without its last entry a heap is still one.
        """
        for _ in range(min(SORTED_OUT_AT_ONCE, len(self._older))):
            entry = self._older.pop()
            if self._is_live(entry):
                heapq.heappush(self._heap, entry)

    def _is_live(self, entry: "_Entry[K]") -> bool:
        """Say whether the timer of an entry was neither replaced nor cancelled."""
        _, sequence, key = entry
        deadline = self._deadlines.get(key)
        return deadline is not None and deadline[1] == sequence


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
