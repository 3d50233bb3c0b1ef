"""All timers on one heap: one wake-up serves them, resetting one is cheap."""

import heapq
import math
from collections.abc import Hashable
from typing import Final, Generic, TypeAlias, TypeVar

K = TypeVar("K", bound=Hashable)

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
