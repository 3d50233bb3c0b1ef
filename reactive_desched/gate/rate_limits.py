"""How fast pods may be evicted: token buckets per cluster, node and namespace.

An eviction costs one token in every scope, all or nothing. Its tokens are held while it is under
way and spent when it has happened, so that neither a slow server nor tokens that come back late
let more pods go at once than the burst. A refusal names the scope that is empty and the earliest
time it will not be. Times are monotonic seconds, passed in.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from reactive_desched.model.objects import Pod
from reactive_desched.primitives.token_bucket import TokenBucket, TokenRate
from reactive_desched.telemetry.metrics import gauge

__all__ = ["TOKENS", "BucketEmpty", "EvictionRateLimiter", "TokenRate"]

TOKENS = gauge("tokens_available", "Evictions a scope allows at this moment.", "scope")

MAX_BUCKETS = 20_000
"""Buckets kept at most; beyond that those that are full again (so, as new) are dropped."""


class BucketEmpty(Struct, frozen=True):
    """The answer "no": which scope has no token, and when it will have one for this asker."""

    scope: str
    available_at: float


class EvictionRateLimiter:
    """All buckets; a scope without a rate is unlimited."""

    def __init__(self, rates: Mapping[str, TokenRate | None]) -> None:
        self._rates = _rates_set(rates)
        self._buckets: dict[tuple[str, str], TokenBucket] = {}

    def reconfigure(
        self, rates: Mapping[str, TokenRate | None], in_flight: Iterable[Pod], now: float
    ) -> None:
        """Apply new rates without a fresh burst; evictions under way keep holding their tokens.

        The buckets of a scope that becomes unlimited are forgotten.
        """
        self._rates = _rates_set(rates)
        self._buckets = {key: b for key, b in self._buckets.items() if key[0] in self._rates}
        for (scope, _), bucket in self._buckets.items():
            bucket.reconfigure(self._rates[scope], now)
        for pod in in_flight:
            for _, bucket in self._buckets_of(pod, now):
                bucket.reserve(now)

    def reserve(self, pod: Pod, now: float) -> BucketEmpty | None:
        """Reserve one token in every scope of the pod, or none and return the scope without one."""
        buckets = list(self._buckets_of(pod, now))
        for scope, bucket in buckets:
            if not bucket.has_token(now):
                return BucketEmpty(scope, bucket.next_available(now))
        for _, bucket in buckets:
            bucket.reserve(now)
        return None

    def release(self, pod: Pod, now: float, *, consumed: bool) -> None:
        """Spend what is held for a pod that was evicted, or free it for others."""
        for _, bucket in self._buckets_of(pod, now):
            bucket.release(now, consumed=consumed)

    def min_available(self, now: float) -> dict[str, float]:
        """Return the fewest free tokens in any bucket of each scope."""
        lowest = {scope: float(rate.burst) for scope, rate in self._rates.items()}
        for scope, _, level in self.available(now):
            lowest[scope] = min(lowest[scope], level)
        return lowest

    def available(self, now: float) -> Iterator[tuple[str, str, float]]:
        """Yield scope, name and free tokens of every bucket in use."""
        for (scope, name), bucket in self._buckets.items():
            yield scope, name, bucket.available(now)

    def _buckets_of(self, pod: Pod, now: float) -> Iterator[tuple[str, TokenBucket]]:
        names = {"cluster": "", "node": pod.node, "namespace": pod.namespace}
        for scope, rate in self._rates.items():
            yield f"{scope} {names[scope]}".rstrip(), self._bucket((scope, names[scope]), rate, now)

    def _bucket(self, key: tuple[str, str], rate: TokenRate, now: float) -> TokenBucket:
        bucket = self._buckets.get(key)
        if bucket is None:
            if len(self._buckets) >= MAX_BUCKETS:
                self._buckets = {k: b for k, b in self._buckets.items() if not b.is_idle(now)}
            bucket = self._buckets[key] = TokenBucket(rate, now)
        return bucket


def _rates_set(rates: Mapping[str, TokenRate | None]) -> dict[str, TokenRate]:
    return {scope: rate for scope, rate in rates.items() if rate is not None}
