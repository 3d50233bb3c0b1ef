"""Counts the evictions within a window, by whatever they are limited by."""

from collections import Counter, OrderedDict, deque
from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)


class EvictionCounts(Generic[KeyT]):
    """Evictions by key: those under way, and those that ended less than `window_s` ago.

    For each key with an eviction within the window at most as many times are kept as its limit
    allows. Times are monotonic seconds.
    """

    def __init__(self, window_s: float) -> None:
        self.window_s = window_s
        self._times: OrderedDict[KeyT, deque[float]] = OrderedDict()
        self._in_flight: Counter[KeyT] = Counter()

    def reconfigure(self, window_s: float) -> None:
        """Count in a window of so many seconds; of a longer one, what was not forgotten."""
        self.window_s = window_s

    def count(self, key: KeyT, now: float) -> int:
        """Return how many evictions count for a key."""
        times = self._times.get(key, deque())
        while times and times[0] + self.window_s <= now:
            times.popleft()
        return len(times) + self._in_flight[key]

    def counts(self, now: float) -> Iterator[tuple[KeyT, int]]:
        """Yield each key for which evictions count, and how many do."""
        for key in [*self._times, *(key for key in self._in_flight if key not in self._times)]:
            if count := self.count(key, now):
                yield key, count

    def retry_at(self, key: KeyT, limit: int, now: float) -> float:
        """Return when fewer than `limit` count, if none are added; ask right after `count`."""
        times = self._times.get(key, deque())
        surplus = len(times) + self._in_flight[key] - limit
        first = times[surplus] if surplus < len(times) else now
        return first + self.window_s

    def begin(self, key: KeyT) -> None:
        """Count an eviction that was decided."""
        self._in_flight[key] += 1

    def end(self, key: KeyT, now: float, *, evicted: bool) -> None:
        """Start the window of an eviction that happened; uncount one that did not."""
        self._in_flight[key] -= 1
        if not self._in_flight[key]:
            del self._in_flight[key]
        if evicted:
            times = self._times[key] = self._times.pop(key, deque())
            times.append(now)

    def replace_in_flight(self, keys: Iterable[KeyT]) -> None:
        """Count these evictions as those under way."""
        self._in_flight = Counter(keys)

    def drop_expired(self, now: float) -> None:
        """Drop the keys whose window has passed; they are in the order of their last eviction."""
        while self._times:
            key, times = next(iter(self._times.items()))
            if times and times[-1] + self.window_s > now:
                return
            del self._times[key]
