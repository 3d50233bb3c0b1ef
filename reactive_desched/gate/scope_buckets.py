"""The token buckets of one scope: of each zone, node, namespace, owner or plugin.

The rate grows while it warms up, and with the cluster. A bucket follows when it is asked: it is
filled by each pace for as long as that counted.
"""

from bisect import bisect_left, bisect_right
from math import inf
from typing import Final

from reactive_desched.gate.turns import BucketLevel
from reactive_desched.primitives.token_bucket import TokenBucket, TokenRate

SWEEP_SIZE: Final = 1000
"""A scope with so many buckets drops those that are full again, and so as new."""

_MAX_PACES: Final = 256
"""So many paces of a scope are kept, for the buckets that were last asked when they counted."""


class ScopeBuckets:
    """The rate of one scope and its buckets; `rate_limits.py` says which eviction uses which.

    `pace` is the rate as it counts now, and `unused` a bucket that no eviction used since all
    were empty; None where such a bucket is full.
    """

    __slots__ = (
        "_paces",
        "_since",
        "buckets",
        "full_rate",
        "grows",
        "index",
        "name",
        "pace",
        "rate",
        "sweep_at",
        "unused",
    )

    def __init__(self, name: str, index: int, rate: TokenRate, *, grows: bool) -> None:
        self.name = name
        self.index = index
        self.rate = self.pace = self.full_rate = rate
        self.grows = grows
        self.buckets: dict[str, TokenBucket] = {}
        self.unused: TokenBucket | None = None
        self.sweep_at = SWEEP_SIZE
        self._paces = [rate]
        self._since = [-inf]

    def pace_at(self, ratio: float, growth: float) -> TokenRate:
        """Return a share of the rate, in a cluster that has grown so far."""
        return self.rate.times(ratio * (growth if self.grows else 1.0))

    def set_pace(self, ratio: float, growth: float, at: float) -> None:
        """Let such a pace count from a time on."""
        full, pace = self.pace_at(1.0, growth), self.pace_at(ratio, growth)
        if full != self.full_rate:
            self.full_rate = full
        if pace == self.pace:
            return  # a bucket compares by identity: each pace has one object
        keep = bisect_left(self._since, at)
        del self._paces[keep:], self._since[keep:]
        del self._paces[: 1 - _MAX_PACES], self._since[: 1 - _MAX_PACES]
        self.pace = pace
        self._paces.append(pace)
        self._since.append(at)

    def fill(self, bucket: TokenBucket, now: float) -> TokenBucket:
        """Fill a bucket until now, by each pace for as long as it counted; returns it."""
        if bucket.rate is self.pace:
            return bucket
        at = bucket.updated_at
        first = max(0, bisect_right(self._since, at) - 1)
        if bucket.rate is not self._paces[first]:
            bucket.adjust(self._paces[first], at)
        for number in range(first + 1, len(self._paces)):
            if self._since[number] > now:
                break
            bucket.adjust(self._paces[number], self._since[number])
        return bucket

    def bucket(self, name: str) -> TokenBucket | None:
        """Return a bucket to look at; None for a full one, and for the name ""."""
        return (self.buckets.get(name) or self.unused) if name else None

    def available(self, name: str, now: float) -> float:
        """Return the free tokens of a bucket; "" is one that no eviction has used."""
        bucket = self.buckets.get(name) or self.unused
        burst = float(self.pace.burst)
        return burst if bucket is None else min(self.fill(bucket, now).available(now), burst)

    def level(self, name: str, now: float) -> BucketLevel:
        """Return how full a bucket is, and how fast it fills."""
        return BucketLevel(self.name, name, self.pace, self.full_rate, self.available(name, now))

    def begin_empty(self, now: float) -> None:
        """Let the buckets that are made later have no token now, and fill from now on."""
        self.unused = TokenBucket(self.pace, now)
        self.unused.empty(now)

    def begin_full(self) -> None:
        """Let the buckets that are made later be full."""
        self.unused = None

    def is_unused_full(self, now: float) -> bool:
        """Say whether a bucket that no eviction has used is full."""
        return self.available("", now) >= self.pace.burst

    def hold(self, name: str, now: float) -> None:
        """Reserve a token of a bucket, made when first needed; the name "" has no bucket."""
        if name:
            (self.buckets.get(name) or self.open(name, now, now)).reserve(now)

    def open(self, name: str, now: float, since: float) -> TokenBucket:
        """Make a bucket that was full then; at the bound drop the buckets that are full again."""
        if len(self.buckets) >= self.sweep_at:
            self.buckets = {
                key: b for key, b in self.buckets.items() if not self.fill(b, now).is_idle(now)
            }
            self.sweep_at = max(SWEEP_SIZE, 2 * len(self.buckets))
        pace = self._paces[max(0, bisect_right(self._since, since) - 1)]
        bucket = self.buckets[name] = TokenBucket(pace, since)
        return bucket

    def spend(self, name: str, at: float) -> None:
        """Spend a token of a bucket at a time in the past; "" has none."""
        if not name:
            return
        if (bucket := self.buckets.get(name)) is None:
            bucket = self.buckets[name] = TokenBucket(self.rate, at)
        self.fill(bucket, at).spend(at)

    def take_buckets(self, old: "ScopeBuckets", now: float) -> None:
        """Go on with the buckets of the scope's former rate: what was spent stays spent."""
        self.buckets, self.unused = old.buckets, old.unused
        more = self.rate.burst - old.rate.burst
        unused = () if self.unused is None else (self.unused,)
        for bucket in (*self.buckets.values(), *unused):
            old.fill(bucket, now).add(more, now)
            bucket.adjust(self.rate, now)
