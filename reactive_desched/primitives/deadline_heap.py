"""All timers on one heap: one wake-up serves them, resetting one is cheap."""

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

STALE_PER_LIVE = 4
"""How many outdated heap entries a live one may drag along before the heap is rebuilt."""


def earliest(*times: float | None) -> float | None:
    """Return the earliest of these times; None stands for never."""
    first = None
    for time in times:
        if time is not None and (first is None or time < first):
            first = time
    return first


class Timers(Generic[K]):
    """At most one timer per key; a new one replaces the old. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._deadlines: dict[K, tuple[float, int]] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._deadlines)

    def set(self, key: K, at: float) -> None:
        """Ring for this key at that time, and not before."""
        self._sequence += 1
        self._deadlines[key] = (at, self._sequence)
        heapq.heappush(self._heap, (at, self._sequence, key))
        if len(self._heap) > STALE_PER_LIVE * len(self._deadlines) + 64:
            self._heap = [(at, count, key) for key, (at, count) in self._deadlines.items()]
            heapq.heapify(self._heap)

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
        _, _, key = heapq.heappop(self._heap)
        del self._deadlines[key]
        return key

    def next_due(self) -> float | None:
        """Return when the next timer rings."""
        while self._heap:
            at, count, key = self._heap[0]
            if self._deadlines.get(key) == (at, count):
                return at
            heapq.heappop(self._heap)
        return None
