"""How fast pods may be evicted: token buckets per cluster, node and namespace.

An eviction costs one token in every scope, all or nothing. A refusal names the scope that is
empty and the earliest time it will not be. Times are monotonic seconds, passed in.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from reactive_desched.model.objects import Pod

KEPT_BUCKETS = 20_000
"""Buckets held at most; beyond that those that are full again (so, as new) are dropped."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A steady rate, and how many may go at once after a quiet time."""

    per_second: float
    burst: int


@dataclass(frozen=True, slots=True)
class Spent:
    """The answer "no": which scope has no token, and when it will have one for this asker."""

    scope: str
    until: float


class Bucket:
    """Tokens that refill at a steady rate up to the burst."""

    __slots__ = ("_at", "_promised", "_rate", "_tokens")

    def __init__(self, rate: Rate, now: float) -> None:
        self._rate = rate
        self._tokens = float(rate.burst)
        self._at = now
        self._promised = now

    def level(self, now: float) -> float:
        """Return the tokens there are now."""
        if now > self._at:
            gained = (now - self._at) * self._rate.per_second
            self._tokens = min(self._rate.burst, self._tokens + gained)
            self._at = now
        return self._tokens

    def take(self) -> None:
        """Take one token; the caller has seen that there is one."""
        self._tokens -= 1

    def give_back(self) -> None:
        """Return the token of an eviction that did not happen."""
        self._tokens = min(self._rate.burst, self._tokens + 1)

    def promise(self, now: float) -> float:
        """Return when a token will be there for this asker, behind those who asked before.

        Without the queue, everyone who waits would come back for the same token.
        """
        step = 1 / self._rate.per_second
        missing = max(0.0, 1 - self.level(now))
        self._promised = max(now + missing * step, self._promised + step)
        return self._promised

    def is_new(self, now: float) -> bool:
        """Say whether nothing distinguishes this bucket from a fresh one."""
        return self.level(now) >= self._rate.burst and self._promised <= now


class Budgets:
    """All buckets; a scope without a rate is unlimited."""

    def __init__(self, rates: Mapping[str, Rate | None]) -> None:
        self._rates = {scope: rate for scope, rate in rates.items() if rate is not None}
        self._buckets: dict[tuple[str, str], Bucket] = {}

    def take(self, pod: Pod, now: float) -> Spent | None:
        """Take one token in every scope of the pod, or none and say who refused."""
        buckets = list(self._of(pod, now))
        for scope, bucket in buckets:
            if bucket.level(now) < 1:
                return Spent(scope, bucket.promise(now))
        for _, bucket in buckets:
            bucket.take()
        return None

    def give_back(self, pod: Pod, now: float) -> None:
        """Return what an eviction cost that did not happen."""
        for _, bucket in self._of(pod, now):
            bucket.give_back()

    def lowest(self, now: float) -> dict[str, float]:
        """Return the fewest tokens left in any bucket of each scope."""
        lowest = {scope: float(rate.burst) for scope, rate in self._rates.items()}
        for scope, _, level in self.levels(now):
            lowest[scope] = min(lowest[scope], level)
        return lowest

    def levels(self, now: float) -> Iterator[tuple[str, str, float]]:
        """Yield scope, name and tokens of every bucket in use."""
        for (scope, name), bucket in self._buckets.items():
            yield scope, name, bucket.level(now)

    def _of(self, pod: Pod, now: float) -> Iterator[tuple[str, Bucket]]:
        names = {"cluster": "", "node": pod.node, "namespace": pod.namespace}
        for scope, rate in self._rates.items():
            yield f"{scope} {names[scope]}".rstrip(), self._bucket((scope, names[scope]), rate, now)

    def _bucket(self, key: tuple[str, str], rate: Rate, now: float) -> Bucket:
        bucket = self._buckets.get(key)
        if bucket is None:
            if len(self._buckets) >= KEPT_BUCKETS:
                self._buckets = {k: b for k, b in self._buckets.items() if not b.is_new(now)}
            bucket = self._buckets[key] = Bucket(rate, now)
        return bucket
