"""Keeps what each simulated controller has to look at, and when."""

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

__all__ = ["AT_ONCE", "WorkSet"]

AT_ONCE = 0.0
"""A moment before every moment of a simulated clock."""

_SLACK = 64

K = TypeVar("K", bound=Hashable)


class WorkSet(Generic[K]):
    """Each key at most once, at the earliest moment asked for; equal moments in order of arrival.

    Holds one entry per key, so it is bounded by the objects its owner watches; superseded heap
    entries are removed when they outnumber the live ones.
    """

    def __init__(self) -> None:
        self._moments: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._moments)

    def __contains__(self, key: K) -> bool:
        return key in self._moments

    def add(self, key: K, at: float = AT_ONCE) -> None:
        """Look at the key no later than `at`."""
        if at >= self._moments.get(key, float("inf")):
            return
        self._moments[key] = at
        self._arrivals += 1
        heappush(self._heap, (at, self._arrivals, key))
        if len(self._heap) > 2 * len(self._moments) + _SLACK:
            self._sweep()

    def drop(self, key: K) -> None:
        """Forget the key; unknown keys are fine."""
        self._moments.pop(key, None)

    def due(self) -> float | None:
        """Return the earliest moment at which there is work, or None."""
        while self._heap:
            at, _, key = self._heap[0]
            if self._moments.get(key) == at:
                return at
            heappop(self._heap)
        return None

    def take_due(self, now: float, limit: int) -> Iterator[K]:
        """Remove and yield up to `limit` keys that are due."""
        for _ in range(limit):
            at = self.due()
            if at is None or at > now:
                return
            key = heappop(self._heap)[2]
            del self._moments[key]
            yield key

    def _sweep(self) -> None:
        self._heap = [entry for entry in self._heap if self._moments.get(entry[2]) == entry[0]]
        heapify(self._heap)
