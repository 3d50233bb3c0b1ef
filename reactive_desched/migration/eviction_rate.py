"""Limits how fast pods of migration jobs are evicted: koordinator's evictQPS and evictBurst."""

from typing import Final

from reactive_desched.ledger.eviction import Eviction
from reactive_desched.ledger.participant import EvictionParticipant
from reactive_desched.model.decisions import Defer, GateReason
from reactive_desched.model.findings import Finding
from reactive_desched.model.migration_jobs import MIGRATION_PROFILE
from reactive_desched.primitives.token_bucket import TokenBucket, TokenRate

TOO_MANY_EVICTIONS: Final = GateReason(
    "JobEvictionRate",
    "TooManyEvictions",
    "Migration jobs evicted as many pods as `evictQPS` and `evictBurst` allow.",
    "migration.evictQPS",
)


class JobEvictionRate(EvictionParticipant):
    """One token bucket for the evictions of all jobs.

    As in koordinator an eviction takes its token when it is requested, whatever comes of it.
    Times are monotonic seconds.
    """

    name = TOO_MANY_EVICTIONS.gate

    def __init__(self, rate: TokenRate) -> None:
        self._bucket = TokenBucket(rate, 0.0)
        self._is_used = False

    def check(self, finding: Finding, now: float) -> Defer | None:
        """Let a pod wait while there is no token."""
        if self._bucket.has_token(now):
            return None
        at = self._bucket.next_available(now)
        message = f"migration jobs evicted as many pods as they may, {self._bucket.rate}"
        return TOO_MANY_EVICTIONS.defer(finding, message, at)

    def decided(self, eviction: Eviction) -> None:
        """Spend the token of a job's eviction; nothing gives it back."""
        if eviction.profile == MIGRATION_PROFILE:
            self._is_used = True
            self._bucket.reserve(eviction.decided_at)
            self._bucket.release(eviction.decided_at, consumed=True)

    def restored(self, eviction: Eviction, now: float) -> None:
        """Spend the token of an earlier process's job."""
        if eviction.profile != MIGRATION_PROFILE:
            return
        at = now if eviction.ended_at is None else eviction.ended_at
        if not self._is_used:
            self._bucket, self._is_used = TokenBucket(self._bucket.rate, at), True
        self._bucket.spend(at)
