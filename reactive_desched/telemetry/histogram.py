"""Durations counted in buckets: a list of integers, because a library's histogram is too slow."""

from bisect import bisect_left
from collections.abc import Sequence


class Histogram:
    """A histogram of seconds; `bounds` are the upper ends of its buckets, in order."""

    __slots__ = ("bounds", "counts", "total_s")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total_s = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total_s += seconds

    def cumulative(self) -> list[tuple[str, float]]:
        """Return (upper bound, how many at most that long) pairs, as Prometheus wants them."""
        bounds = (*(repr(bound) for bound in self.bounds), "+Inf")
        sums, so_far = [], 0
        for bound, count in zip(bounds, self.counts, strict=True):
            so_far += count
            sums.append((bound, float(so_far)))
        return sums
