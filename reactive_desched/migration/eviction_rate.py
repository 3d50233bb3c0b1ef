"""How fast the pods of migration jobs are evicted: koordinator's evictQPS and evictBurst."""

from collections.abc import Iterable
from typing import Final

from reactive_desched.model.decisions import Defer, GateReason
from reactive_desched.model.findings import Finding
from reactive_desched.model.history import PastEviction
from reactive_desched.model.migration_jobs import MIGRATION_PROFILE
from reactive_desched.model.objects import PodKey
from reactive_desched.primitives.token_bucket import TokenBucket, TokenRate

TOO_MANY_EVICTIONS: Final = GateReason(
    "JobEvictionRate",
    "TooManyEvictions",
    "Migration jobs evicted as many pods as `evictQPS` and `evictBurst` allow.",
    "migration.evictQPS",
)


class JobEvictionRate:
    """One token bucket for the evictions of all jobs, an `EvictionLimit`.

    As in koordinator an eviction takes its token when it is requested, whatever comes of it.
    Times are monotonic seconds.
    """

    name = TOO_MANY_EVICTIONS.gate

    def __init__(self, rate: TokenRate) -> None:
        self._bucket = TokenBucket(rate, 0.0)
        self._now = 0.0

    def check(self, finding: Finding, now: float) -> Defer | None:
        """Let a pod wait while there is no token."""
        self._now = now
        if self._bucket.has_token(now):
            return None
        at = self._bucket.next_available(now)
        message = f"migration jobs evicted as many pods as they may, {self._bucket.rate}"
        return TOO_MANY_EVICTIONS.defer(finding, message, at)

    def reserve(self, finding: Finding) -> None:
        """Spend the token of an eviction that was decided just now."""
        del finding
        self._bucket.reserve(self._now)
        self._bucket.release(self._now, consumed=True)

    def release(self, pod: PodKey, now: float, *, evicted: bool) -> None:
        """Give nothing back: the request was made."""

    def restore(self, past: Iterable[PastEviction], now: float, wall_now: float) -> None:
        """Spend the tokens of earlier processes' jobs."""
        times = sorted(
            each.ended_at(now, wall_now) or now
            for each in past
            if each.profile == MIGRATION_PROFILE
        )
        self._bucket = TokenBucket(self._bucket.rate, min([now, *times]))
        for at in times:
            self._bucket.spend(at)

    def count_late(self, past: PastEviction, now: float) -> None:
        """Spend the token of an eviction that happened after its outcome had freed it."""
        if past.profile == MIGRATION_PROFILE:
            self._bucket.spend(now)
