"""Limits how fast pods are evicted: token buckets in six scopes, from the cluster to the plugin.

An eviction costs one token in every scope, all or nothing; that of a pod that has ended ends no
work, and costs one of a bucket of its own instead. Its tokens are held while it is under
way and spent when it has happened, so that neither a slow server nor tokens that come back late
let more pods go at once than the burst. A refusal names the scope that is empty for longest, and
the earliest time it will not be. Times are monotonic seconds, passed in.

While the rates warm up they grow in steps, each at its own time, and a bucket fills through all of
them whenever it is asked: what it holds does not depend on who asked before.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from math import floor, inf
from typing import Final

from msgspec import Struct

from reactive_desched.gate.scope_buckets import ScopeBuckets
from reactive_desched.gate.turns import (
    WARM,
    Bucket,
    Ticket,
    Turn,
    TurnSchedule,
    WaitingPod,
    WaitingPods,
    WarmUpPace,
    schedule_turns,
)
from reactive_desched.ledger.eviction import SCOPES, Eviction, EvictionScopes
from reactive_desched.ledger.participant import EvictionParticipant
from reactive_desched.model.decisions import TURN_COMES_S, Defer, GateReason, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import PodKey
from reactive_desched.model.outcomes import Outcome
from reactive_desched.policy.settings.guards import GuardName
from reactive_desched.policy.settings.limits import EvictionRateLimits
from reactive_desched.primitives.long_answers import lazily_sorted
from reactive_desched.primitives.token_bucket import MAX_WAIT_S, TokenBucket, TokenRate
from reactive_desched.telemetry.metrics import Metric, counter, gauge

__all__ = ["BucketEmpty", "EvictionRateLimiter", "TokenRate"]

RATE_LIMITED: Final = GateReason(
    "EvictionRateLimit",
    "EvictionRateLimited",
    "The rate limit of the cluster, of the pod's zone, node, namespace or topmost controller, or "
    "of the plugin, or that of pods that have ended, has no token left; the message names it.",
    "budgets",
)

_EXHAUSTED_FOR_PLUGINS: Final = {
    "cluster": "cluster",
    "plugin": "cluster",  # nothing more for this plugin, wherever it looks
    "zone": "node",
    "node": "node",
    "namespace": "namespace",
    "owner": "",
    "ended": "",
}
"""What an empty bucket of a scope means to a balance plugin, which goes by three kinds of scope."""

TOKENS = gauge(
    "tokens_available", "Evictions a scope allows now, in the emptiest of its buckets.", "scope"
)
RATES = gauge(
    "eviction_rate_limit_per_minute",
    "Evictions a scope allows per minute now, as the size of the cluster and the warm-up have it.",
    "scope",
)
WARM_UP = gauge("warm_up_ratio", "The share of the rates that counts now: 1 when warmed up.")
REFUSALS = counter("rate_limited", "Evictions deferred for want of a token.", "scope")

FINDINGS_PER_SLICE: Final = 64
"""The buckets of so many findings are looked up before the event loop may have its turn."""

_GROWTH_INTERVAL_S: Final = 10.0
"""How often the rates follow the size of the cluster."""
_WARM_UP_STEPS: Final = 60
_FULL: Final = 1.0


class BucketEmpty(Struct, frozen=True):
    """The answer "no": which bucket has no token, and when the pod is evaluated again.

    `turn` is the pod's place in the bucket whose queue takes longest, and when its turn is there.
    """

    scope: str
    name: str
    rate: TokenRate
    available_at: float
    turn: Turn


class EvictionRateLimiter(EvictionParticipant):
    """All buckets; a scope without a rate is unlimited.

    `scopes_of` returns the scopes of a finding's eviction; `node_count` is how many nodes there
    are.
    """

    name = RATE_LIMITED.gate

    def __init__(
        self,
        limits: EvictionRateLimits,
        scopes_of: Callable[[Finding], EvictionScopes],
        node_count: Callable[[], int],
    ) -> None:
        self._scopes_of = scopes_of
        self._node_count = node_count
        self._waiting = WaitingPods()
        self._schedule: TurnSchedule | None = None
        self._refusals = dict.fromkeys(SCOPES, 0)
        self._warming_since: float | None = None
        self._empty_since: float | None = None
        self._grown, self._grows_at = _FULL, -inf
        self._ratio, self._step, self._next_step_at = _FULL, 0, inf
        self._limited: list[ScopeBuckets] = []
        self._take_limits(limits)

    def begin_warm_up(self, now: float) -> None:
        """Begin low from now on, and let the rates grow to full ones as the settings say."""
        self._follow(now)
        self._warming_since, self._schedule = now, None
        self._begin_paces(now)

    def begin_empty(self, now: float) -> None:
        """Let every bucket, also those made later, have no token now and fill from now on.

        That is for a process that does not know what the one before it has evicted.
        """
        self._follow(now)
        self._empty_since = now
        self._empty_buckets()
        for scope in self._limited:
            scope.begin_empty(now)

    def reconfigure(
        self, limits: EvictionRateLimits, now: float, under_way: Iterable[Eviction]
    ) -> None:
        """Apply new rates without a fresh burst; evictions `under_way` keep holding their tokens.

        The buckets of a scope that becomes unlimited are forgotten. One that becomes limited
        counts from now on, including the evictions under way.
        """
        self._follow(now)
        before, held = {scope.name: scope for scope in self._limited}, tuple(under_way)
        self._take_limits(limits)
        for scope in self._limited:
            if (old := before.get(scope.name)) is not None:
                scope.take_buckets(old, now)
            else:
                if self._empty_since is not None:
                    scope.begin_empty(self._empty_since)
                for eviction in held:
                    scope.hold(eviction.scopes.buckets[scope.index], now)
        self._begin_paces(now)

    def check(self, finding: Finding, now: float) -> Defer | None:
        """Defer a pod until every scope has a token for it; it waits in the queue of each scope."""
        empty = self.enter(finding, now)
        return None if empty is None else _rate_limited(finding, empty, now)

    def explain(self, finding: Finding, now: float) -> Defer | None:
        """Return what `check` would; takes no place in a queue."""
        empty = self.peek(finding, now)
        return None if empty is None else _rate_limited(finding, empty, now)

    def enter(self, finding: Finding, now: float) -> BucketEmpty | None:
        """Return a bucket that has no token for the pod, which then waits for one; None if all do.

        Where several have none, it is the one that has a token for this caller last, but the
        cluster's at once in a storm, when as many wait for it as may.
        """
        self._follow(now)
        if now >= self._grows_at:
            self._follow_size(now)
        names = self._scopes_of(finding).buckets
        if (booked := self._booked_up_cluster(finding.pod.uid, names, now)) is not None:
            return booked
        empty: list[tuple[ScopeBuckets, TokenBucket]] = []
        for scope in self._limited:
            name = names[scope.index]
            bucket = scope.buckets.get(name) or self._open_empty(scope, name, now)
            if bucket is not None:
                if bucket.rate is not scope.pace:
                    scope.fill(bucket, now)
                if not bucket.has_token(now):
                    empty.append((scope, bucket))
        return self._refuse_longest(finding.pod.uid, empty, names, now) if empty else None

    def decided(self, eviction: Eviction) -> None:
        """Reserve one token in every scope of the pod: `check` found one in each."""
        now, names = eviction.decided_at, eviction.scopes.buckets
        self._leave_queue(eviction.pod_uid, names, now)
        for scope in self._limited:
            scope.hold(names[scope.index], now)

    def peek(self, finding: Finding, now: float) -> BucketEmpty | None:
        """Return the bucket that has no token for longest; takes no token and no place in a queue.

        That is the one that `enter` returns.
        """
        self._follow(now)
        names = self._scopes_of(finding).buckets
        longest: tuple[ScopeBuckets, TokenBucket, float] | None = None
        for scope in self._limited:
            bucket = scope.bucket(names[scope.index])
            if bucket is None or scope.fill(bucket, now).has_token(now):
                continue
            at = bucket.earliest(now)
            if longest is None or at > longest[2]:
                longest = scope, bucket, at
        if longest is None:
            return None
        scope, bucket, at = longest
        schedule = None if self._schedule is None else self._schedule.beside()
        turn = self._turn_of(finding.pod.uid, names, scope, at, now, schedule)
        return BucketEmpty(scope.name, names[scope.index], bucket.rate, turn.at, turn)

    def _turn_of(
        self,
        pod: PodKey,
        names: EvictionScopes,
        scope: ScopeBuckets,
        at: float,
        now: float,
        schedule: TurnSchedule | None,
    ) -> Turn:
        """Return the turn of a pod that waits, or would wait, for a bucket that is empty until."""
        buckets, bucket = self._buckets_of(names), (scope.name, names[scope.index])
        turn = self._waiting.turn(pod, buckets)
        if schedule is None or not len(self._waiting):
            schedule = TurnSchedule(self._warm_up_pace(now), now, self._ratio)
        self._add_buckets(schedule, buckets, now)
        is_known = turn is not None
        if not is_known and len(self._waiting):
            turn, last = schedule.find(buckets, now)
            bucket = buckets[last]
        at = at if turn is None else max(at, turn)
        return self._turn(schedule, bucket, at, now, self._waiting.count(bucket) - is_known)

    def ended(self, eviction: Eviction, outcome: Outcome) -> None:
        """Spend what is held for a pod that was evicted, or free it for others."""
        del outcome
        assert eviction.ended_at is not None
        names = eviction.scopes.buckets
        for scope in self._limited:
            if (bucket := scope.buckets.get(names[scope.index])) is not None:
                scope.fill(bucket, eviction.ended_at)
                bucket.release(eviction.ended_at, consumed=eviction.counts)

    def restored(self, eviction: Eviction, now: float) -> None:
        """Spend the tokens of an earlier process's eviction; one without an outcome holds them."""
        ended_at = eviction.ended_at
        if not eviction.counts:
            return
        names = eviction.scopes.buckets
        for scope in self._limited:
            name = names[scope.index]
            if ended_at is None:
                scope.hold(name, now)
                continue
            is_late = self._empty_since is not None and self._empty_since < ended_at
            if is_late and name not in scope.buckets:
                self._open_empty(scope, name, ended_at)
            scope.spend(name, ended_at)

    def begin_restored(self) -> None:
        """Take away what the buckets of earlier processes hold, where a process begins empty."""
        self._empty_buckets()

    def min_available(self, now: float) -> dict[str, float]:
        """Return the fewest free tokens in any bucket of each scope."""
        self._follow(now)
        lowest = {scope.name: scope.available("", now) for scope in self._limited}
        for scope, _, level, _ in self.available(now):
            lowest[scope] = min(lowest[scope], level)
        return lowest

    @property
    def warm_up_ratio(self) -> float:
        """The share of the rates that counts, as it was at the last look: 1 when warmed up."""
        return self._ratio

    def warm_up_ratio_at(self, now: float) -> float:
        """Look, and return the share of the rates that counts now."""
        self._follow(now)
        return self._ratio

    def warm_up_left_s(self, now: float) -> float:
        """Return for how long the rates grow still; 0 when warmed up."""
        if self._warm_up is None or self._warming_since is None:
            return 0.0
        return max(0.0, self._warming_since + self._warm_up.duration_s - now)

    def available(self, now: float) -> Iterator[tuple[str, str, float, int]]:
        """Yield scope, name, free tokens and held ones of every bucket in use."""
        self._follow(now)
        for scope in self._limited:
            for name, bucket in scope.buckets.items():
                free = min(scope.fill(bucket, now).available(now), scope.pace.burst)
                yield scope.name, name, free, bucket.reserved

    def rates(self, now: float) -> dict[str, TokenRate]:
        """Return the rate of each limited scope as it is now."""
        self._follow(now)
        growth = self._growth(self._node_count())
        return {scope.name: scope.pace_at(self._ratio, growth) for scope in self._limited}

    def collect(self, now: float) -> Iterator[Metric]:
        """Yield tokens, rates and refusals by scope, and how far the rates have warmed up."""
        rates = self.rates(now)
        yield TOKENS.by_label(self.min_available(now))
        yield RATES.by_label({scope: rate.per_second * 60 for scope, rate in rates.items()})
        yield REFUSALS.by_label(self._refusals)
        yield WARM_UP.value(self._ratio)

    def _take_limits(self, limits: EvictionRateLimits) -> None:
        rates, growing = limits.by_scope(), limits.growing_scopes
        self._warm_up, self._growth = limits.warm_up, limits.growth
        self._limited = [
            ScopeBuckets(name, index, rate, grows=name in growing)
            for index, name in enumerate(SCOPES)
            if (rate := rates[name]) is not None
        ]
        self._by_name = {scope.name: scope for scope in self._limited}
        self._schedule = None

    def _open_empty(self, scope: ScopeBuckets, name: str, now: float) -> TokenBucket | None:
        """Make a bucket that is not full yet; None where none is needed, as it would be full."""
        if self._empty_since is None or scope.unused is None or not name:
            return None
        bucket = scope.open(name, now, self._empty_since)
        bucket.empty(self._empty_since)
        return scope.fill(bucket, now)

    def _empty_buckets(self) -> None:
        if self._empty_since is not None:
            for scope in self._limited:
                for bucket in scope.buckets.values():
                    scope.fill(bucket, self._empty_since).empty(self._empty_since)

    def _booked_up_cluster(
        self, pod: PodKey, names: EvictionScopes, now: float
    ) -> BucketEmpty | None:
        """Refuse for the cluster where so many wait that no other bucket need be looked at."""
        scope = self._limited[0] if self._limited and names.cluster else None
        if scope is None or scope.index or (bucket := scope.buckets.get(scope.name)) is None:
            return None
        if self._schedule is None or not len(self._waiting) or pod in self._waiting:
            return None
        scope.fill(bucket, now)
        cluster = scope.name, scope.name
        if bucket.has_token(now) or self._schedule.next_free(cluster, now) <= now + MAX_WAIT_S:
            return None
        return self._refuse(pod, scope, bucket, names, now)

    def blocked(self, decision: Defer | Refuse) -> None:
        """Keep the place of a pod that waits for others of its StatefulSet before it comes."""
        if decision.gate == GuardName.STATEFUL_SET_ORDER:
            pod = decision.finding.pod
            self._waiting.come(pod.uid, pod.namespace)

    def _refuse_longest(
        self,
        pod: PodKey,
        empty: list[tuple[ScopeBuckets, TokenBucket]],
        names: EvictionScopes,
        now: float,
    ) -> BucketEmpty:
        scope, bucket = empty[0]
        if len(empty) > 1:
            scope, bucket = max(empty, key=lambda pair: pair[1].earliest(now))
        return self._refuse(pod, scope, bucket, names, now)

    def _refuse(
        self,
        pod: PodKey,
        scope: ScopeBuckets,
        bucket: TokenBucket,
        names: EvictionScopes,
        now: float,
    ) -> BucketEmpty:
        self._refusals[scope.name] += 1
        buckets = self._buckets_of(names)
        known = self._waiting.turn(pod, buckets)
        if known is None:
            turn = self._new_turn(buckets, now)
        else:
            # a pod that finds no token at its turn has a time slot of its own
            at = bucket.next_available(now) if known <= now else bucket.earliest(now)
            turn = self._turn_of(pod, names, scope, at, now, self._schedule)
        look_at = max(bucket.earliest(now), min(turn.at, now + MAX_WAIT_S))
        self._waiting.enter(pod, names.namespace, buckets, turn.at, look_at)
        self._waiting.forget_gone(now)
        return BucketEmpty(scope.name, names[scope.index], bucket.rate, look_at, turn)

    def _leave_queue(self, pod: PodKey, names: EvictionScopes, now: float) -> None:
        """Record that a pod has its tokens, whether it waited for them or not."""
        has_waited = pod in self._waiting
        self._waiting.serve(pod)
        if self._schedule is None:
            return
        if not has_waited and len(self._waiting):
            self._schedule.take(self._buckets_of(names), now)
        if not len(self._waiting):
            self._schedule = None

    def _new_turn(self, buckets: Sequence[Bucket], now: float) -> Turn:
        """Return the turn of a pod that comes now, behind all that wait."""
        if self._schedule is None or not len(self._waiting):
            self._schedule = TurnSchedule(self._warm_up_pace(now), now, self._ratio)
        schedule = self._schedule
        self._add_buckets(schedule, buckets, now)
        at, last = schedule.add_pod(buckets, now)
        bucket, waiting = buckets[last], self._waiting.count(buckets[last])
        return self._turn(schedule, bucket, at, now, waiting)

    def _turn(
        self, schedule: TurnSchedule, bucket: Bucket, at: float, now: float, others: int
    ) -> Turn:
        """Return a turn as of now: the rate and its share may have grown since the schedule was."""
        place, pace = schedule.place(bucket, at, now, others), self._by_name[bucket[0]].pace
        return Turn(*bucket, pace, place, others + 1, at, self._ratio)

    def _add_buckets(self, schedule: TurnSchedule, buckets: Sequence[Bucket], now: float) -> None:
        for bucket in buckets:
            if not schedule.has_bucket(bucket):
                scope = self._by_name[bucket[0]]
                schedule.add_bucket(scope.level(bucket[1], now), now)

    def _buckets_of(self, names: EvictionScopes) -> tuple[Bucket, ...]:
        return tuple(
            [(scope.name, name) for scope in self._limited if (name := names[scope.index])]
        )

    @property
    def waiting(self) -> WaitingPods:
        """The pods that wait for a token."""
        return self._waiting

    def _warm_up_pace(self, now: float) -> WarmUpPace:
        left_s = self.warm_up_left_s(now)
        if self._ratio >= _FULL or self._warm_up is None or left_s <= 0:
            return WARM
        ratio = self._warm_up.ratio(self._warm_up.duration_s - left_s)
        growth = (_FULL - ratio) / left_s
        step_s = self._warm_up.duration_s / _WARM_UP_STEPS
        return WarmUpPace(max(0.01, ratio - growth * step_s), growth, left_s)

    def foresee(
        self, waiting: Iterable[tuple[Finding, float]], now: float
    ) -> Generator[None, None, dict[PodKey, Turn]]:
        """Return each pod's turn, in steps.

        `waiting` are the findings that wait for a token, each with a time before which it is not
        evaluated. That is a look: it changes no turn of the pods that come later.
        """
        self._follow(now)
        schedule = TurnSchedule(self._warm_up_pace(now), now, self._ratio)
        turns = yield from self._schedule_all(waiting, schedule, now)
        yield from schedule.take_apart()
        return turns

    def plan_turns(
        self, waiting: Iterable[tuple[Finding, float]], now: float
    ) -> Generator[None, None, dict[PodKey, Turn]]:
        """Foresee the turns, and let the pods that come later find theirs behind these."""
        self._follow(now)
        schedule = TurnSchedule(self._warm_up_pace(now), now, self._ratio)
        turns = yield from self._schedule_all(waiting, schedule, now)
        former, self._schedule = self._schedule, schedule
        if former is not None:
            yield from former.take_apart()
        return turns

    def _schedule_all(
        self, waiting: Iterable[tuple[Finding, float]], schedule: TurnSchedule, now: float
    ) -> Generator[None, None, dict[PodKey, Turn]]:
        found: list[tuple[Ticket, int, WaitingPod]] = []
        names: dict[Bucket, Bucket] = {}  # one object for equal ones: fewer for the collector
        for number, (finding, at) in enumerate(waiting):
            buckets = tuple(
                [names.setdefault(n, n) for n in self._buckets_of(self._scopes_of(finding).buckets)]
            )
            ticket = self._waiting.ticket(finding.pod.uid)
            found.append((ticket, number, WaitingPod(finding.pod.uid, at, buckets)))
            if number % FINDINGS_PER_SLICE == 0:
                yield
        pods = []
        ordered = lazily_sorted(found)
        del found
        for number, (_, _, each) in enumerate(ordered):
            pods.append(each)
            self._add_buckets(schedule, each.buckets, now)
            if number % FINDINGS_PER_SLICE == 0:
                yield
        pods.reverse()
        return (yield from schedule_turns(_taken_out(pods), schedule))

    def _begin_paces(self, now: float) -> None:
        """Let other rates, or another warm-up, count from now on."""
        self._step = 0
        if self._warm_up is not None and self._warming_since is not None:
            elapsed_s = now - self._warming_since
            if elapsed_s >= self._warm_up.duration_s:
                self._step = _WARM_UP_STEPS
            elif elapsed_s > 0:
                self._step = floor(elapsed_s / self._warm_up.duration_s * _WARM_UP_STEPS)
        self._grown = self._growth(self._node_count())
        self._set_paces(now)

    def _follow(self, now: float) -> None:
        """Take the steps of the warm-up until now, each at its own time."""
        while now >= self._next_step_at:
            self._step += 1
            self._set_paces(self._next_step_at)

    def _follow_size(self, now: float) -> None:
        """Let the rates follow the size of the cluster; that is no part of a look."""
        self._grows_at = (floor(now / _GROWTH_INTERVAL_S) + 1) * _GROWTH_INTERVAL_S
        if (growth := self._growth(self._node_count())) != self._grown:
            self._grown = growth
            self._set_paces(now)
        if (
            self._empty_since is not None
            and self._ratio >= _FULL
            and all(scope.is_unused_full(now) for scope in self._limited)
        ):
            self._empty_since = None
            for scope in self._limited:
                scope.begin_full()

    def _set_paces(self, at: float) -> None:
        self._ratio, self._next_step_at = _FULL, inf
        if self._warm_up is not None and self._warming_since is not None:
            step_s = self._warm_up.duration_s / _WARM_UP_STEPS
            if self._step < _WARM_UP_STEPS and step_s > 0:
                self._ratio = self._warm_up.ratio(self._step * step_s)
                self._next_step_at = self._warming_since + (self._step + 1) * step_s
        for scope in self._limited:
            scope.set_pace(self._ratio, self._grown, at)


def _taken_out(pods: list[WaitingPod]) -> Iterator[WaitingPod]:
    """Yield pods from the last on, and keep none: to free all at once would hold the loop."""
    while pods:
        yield pods.pop()


def _rate_limited(finding: Finding, empty: BucketEmpty, now: float) -> Defer:
    comes_soon = empty.available_at <= now + TURN_COMES_S
    return RATE_LIMITED.defer(
        finding,
        empty.turn.where,
        empty.available_at,
        scope_exhausted=_EXHAUSTED_FOR_PLUGINS[empty.scope],
        setting=f"budgets.{empty.turn.scope}",
        turn=empty.name if empty.scope == "owner" and comes_soon else "",
        end=empty.turn.end,
    )
