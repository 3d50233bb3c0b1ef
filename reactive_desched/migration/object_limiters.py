"""Limits how often pods of migration jobs are evicted: koordinator's limiters.

Each workload and each namespace has a token bucket of its own; an accepted eviction of a migration
job takes a token. No job is made for a pod without a token, and the pod of one waits for it. All
jobs together have one bucket more, `evictQPS` and `evictBurst`.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from reactive_desched.ledger.eviction import Eviction
from reactive_desched.ledger.participant import EvictionParticipant
from reactive_desched.migration.limits import SizeOf, workload_limit
from reactive_desched.migration.settings import WorkloadLimit
from reactive_desched.model.decisions import Defer, GateReason, WaitEnd
from reactive_desched.model.findings import Finding
from reactive_desched.model.migration_jobs import MIGRATION_PROFILE
from reactive_desched.model.objects import Pod
from reactive_desched.model.outcomes import Outcome
from reactive_desched.policy.settings.migration import LimitedObject, ObjectLimiterSettings
from reactive_desched.primitives.bucket_queue import BucketQueue, QueuePlace
from reactive_desched.primitives.token_bucket import TokenBucket, TokenRate
from reactive_desched.text.counts import place_in_queue

OBJECT_LIMITED: Final = GateReason(
    "ObjectLimiter",
    "ObjectLimiter",
    "As many pods of the workload, or of the namespace, were moved as `objectLimiters` allows.",
    "objectLimiters",
)

MAX_OBJECTS: Final = 10_000
"""So many workloads and namespaces have a bucket; the one not used for longest is dropped first.

A dropped bucket begins full.
"""

KEPT_DURATIONS: Final = 1.5
"""A bucket is dropped so many times its limiter's duration after its last eviction."""

Key = tuple[LimitedObject, str]
OwnerOf = Callable[[Pod], str]
"""Returns the uid of the owner whose new pods replace a pod; empty for a bare pod."""


class Spent(Struct):
    """The tokens of one object; `in_flight` of them are held by evictions under way.

    Until the first question the size of the workload, and so the rate, is not known: `times` keeps
    the evictions of earlier processes until then.
    """

    times: deque[float]
    in_flight: int = 0
    last_s: float = 0.0
    bucket: TokenBucket | None = None

    def at_rate(self, rate: TokenRate, now: float) -> TokenBucket:
        """Return the bucket, with this rate from now on."""
        if self.bucket is None:
            self.bucket = TokenBucket(rate, min([now, *self.times]))
            for at in self.times:
                self.bucket.spend(at)
            self.times.clear()
            for _ in range(self.in_flight):
                self.bucket.reserve(now)
        elif self.bucket.rate != rate:
            self.bucket.adjust(rate, now)
        return self.bucket

    def end(self, now: float, *, evicted: bool) -> None:
        """Spend a token that is held, or give it back."""
        self.in_flight -= 1
        if self.bucket is not None:
            self.bucket.release(now, consumed=evicted)
        elif evicted:
            self.times.append(now)
        if evicted:
            self.last_s = now


class ObjectLimiters(EvictionParticipant):
    """Counts the evictions of jobs by workload and namespace; `now` is monotonic seconds.

    `per_workload` is `maxMigratingPerWorkload`, which holds where a limiter says no number of its
    own. `is_exempt` says whether a finding is of a job that no limiter holds up.
    """

    name = OBJECT_LIMITED.gate

    def __init__(
        self,
        settings: Mapping[LimitedObject, ObjectLimiterSettings],
        per_workload: WorkloadLimit,
        size_of: SizeOf,
        owner_of: OwnerOf,
        is_exempt: Callable[[Finding], bool],
    ) -> None:
        self._settings: Final = {
            kind: limiter for kind, limiter in settings.items() if limiter.duration_s > 0
        }
        self._per_workload: Final = per_workload
        self._size_of: Final = size_of
        self._owner_of: Final = owner_of
        self._is_exempt: Final = is_exempt
        self._spent: Final[OrderedDict[Key, Spent]] = OrderedDict()

    def check(self, finding: Finding, now: float) -> Defer | None:
        """Let a pod wait whose workload or namespace has no token left."""
        return None if self._is_exempt(finding) else self.lacks_token(finding, now)

    def lacks_token(self, finding: Finding, now: float) -> Defer | None:
        """Let a pod wait as `check` does, whatever its job says; nothing is reserved."""
        for key, rate in self._rates(finding.pod):
            if (spent := self._spent.get(key)) is None:
                continue
            bucket = spent.at_rate(rate, now)
            if not bucket.has_token(now):
                kind, name = key
                at = bucket.next_unclaimed(now)
                where = f"namespace {name}" if kind == "namespace" else "its workload"
                message = f"{where} may move {rate}"
                setting = f"migration.objectLimiters.{kind}"
                end = WaitEnd("; the next is possible", at)
                return OBJECT_LIMITED.defer(finding, message, at, setting=setting, end=end)
        return None

    def decided(self, eviction: Eviction) -> None:
        """Hold a token in each bucket of a job's pod."""
        for key in self._keys(eviction):
            spent = self._spent.pop(key, None) or Spent(deque())
            self._spent[key] = spent
            spent.in_flight += 1
            if spent.bucket is not None:
                spent.bucket.reserve(spent.last_s)
        while len(self._spent) > MAX_OBJECTS:
            self._spent.popitem(last=False)

    def ended(self, eviction: Eviction, outcome: Outcome) -> None:
        """Spend the tokens that are held for a pod, or give them back."""
        del outcome
        assert eviction.ended_at is not None
        for key in self._keys(eviction):
            if (spent := self._spent.get(key)) is not None:
                spent.end(eviction.ended_at, evicted=eviction.counts)
        self._drop_unused(eviction.ended_at)

    def restored(self, eviction: Eviction, now: float) -> None:
        """Spend the tokens of an earlier process's job; without an outcome it holds them."""
        del now
        if eviction.counts:
            self.decided(eviction)
            if eviction.outcome is not None:
                self.ended(eviction, eviction.outcome)

    def _keys(self, eviction: Eviction) -> Iterator[Key]:
        """Yield the buckets in which a job's eviction counts."""
        if eviction.profile == MIGRATION_PROFILE:
            for kind in self._settings:
                is_namespace = kind == "namespace"
                name = eviction.scopes.namespace if is_namespace else eviction.replacing_uid
                if name:
                    yield kind, name

    def _drop_unused(self, now: float) -> None:
        while self._spent:
            (kind, _), spent = next(iter(self._spent.items()))
            kept_s = KEPT_DURATIONS * self._settings[kind].duration_s
            if spent.in_flight or now - spent.last_s < kept_s:
                break
            self._spent.popitem(last=False)

    def _rates(self, pod: Pod) -> Iterator[tuple[Key, TokenRate]]:
        """Yield what limits a pod, and how many may move in which time; the rate is in seconds."""
        for kind, limiter in self._settings.items():
            name = pod.namespace if kind == "namespace" else self._owner_of(pod)
            if name and (limit := self._limit(kind, limiter, pod)) > 0:
                yield (kind, name), TokenRate(limit / limiter.duration_s, limiter.burst or 1)

    def _limit(self, kind: LimitedObject, limiter: ObjectLimiterSettings, pod: Pod) -> int:
        """Return how many pods may move in the limiter's time; 0 where it limits none."""
        written = limiter.max_migrating
        if kind == "namespace":
            return written if isinstance(written, int) else 0
        size = self._size_of(pod)
        replicas = 0 if size is None else size.replicas
        return workload_limit(replicas, self._per_workload if written is None else written)


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
        self._queue = BucketQueue()
        self._is_used = False

    def check(self, finding: Finding, now: float) -> Defer | None:
        """Let a pod wait while there is no token."""
        if self._bucket.has_token(now):
            return None
        return self._defer(finding, self._queue.wait(finding.pod.uid, self._bucket, now))

    def explain(self, finding: Finding, now: float) -> Defer | None:
        """Return what `check` would; takes no place in the queue."""
        if self._bucket.has_token(now):
            return None
        return self._defer(finding, self._queue.look(finding.pod.uid, self._bucket, now))

    def _defer(self, finding: Finding, place: QueuePlace) -> Defer:
        message = place_in_queue(place.place, place.of, "the rate of migration jobs")
        end = WaitEnd(": about", place.at, f" at {self._bucket.rate}", is_bare=True)
        return TOO_MANY_EVICTIONS.defer(finding, message, place.look_at, end=end)

    def decided(self, eviction: Eviction) -> None:
        """Spend the token of a job's eviction; nothing gives it back."""
        if eviction.profile == MIGRATION_PROFILE:
            self._is_used = True
            self._queue.leave(eviction.pod_uid)
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
