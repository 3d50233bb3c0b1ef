"""Named budgets: a rate of evictions for single namespaces, node pools, profiles or plugins.

They come beside the rates of the scopes: an eviction takes a token of each named budget that
concerns it as well, all or nothing. Its tokens are held while it is under way, and spent when it
has happened.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from reactive_desched.gate.concerned import Concerned
from reactive_desched.gate.turns import NAMED, Turn
from reactive_desched.ledger.eviction import Eviction
from reactive_desched.ledger.participant import EvictionParticipant
from reactive_desched.model.decisions import Defer, GateReason, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.moves import is_clean_up
from reactive_desched.model.objects import PodKey
from reactive_desched.model.outcomes import Outcome
from reactive_desched.policy.settings.limits import EachOf, NamedBudget
from reactive_desched.primitives.bucket_queue import BucketQueue, QueuePlace
from reactive_desched.primitives.token_bucket import TokenBucket
from reactive_desched.state.cluster import ClusterView
from reactive_desched.telemetry.metrics import Metric, counter, gauge

NAMED_BUDGET_SPENT: Final = GateReason(
    "NamedBudget",
    "NamedBudgetSpent",
    "A budget of `budgets.named` that concerns the eviction has no token left; the message names "
    "it.",
    "budgets.named",
)

TOKENS = gauge(
    "named_budget_tokens_available",
    "Evictions that a named budget allows now, in the emptiest of its buckets.",
    "budget",
)
REFUSALS = counter("named_budget_refused", "Evictions deferred by a named budget.", "budget")

SWEEP_SIZE: Final = 1000
"""A budget with so many buckets drops those that are full again, and so as new."""

_NO_QUEUE: Final = BucketQueue()
"""One in which no pod waits, to look at."""

_ONE: Final = ""
"""The bucket of a budget that has one for all."""


class _Budget:
    """One entry of the settings, and its buckets by what it has one of each for."""

    def __init__(self, settings: NamedBudget, view: ClusterView) -> None:
        self.settings = settings
        self.concerned = Concerned(settings, view)
        self.refusals = 0
        self.rate = settings.rate
        self.buckets: dict[str, TokenBucket] = {}
        self.queues: dict[str, BucketQueue] = {}
        self.empty_since: float | None = None
        self._sweep_at = SWEEP_SIZE

    def key(self, namespace: str, node: str) -> str:
        """Name the bucket of a pod's eviction."""
        match self.settings.each:
            case EachOf.NAMESPACE:
                return namespace
            case EachOf.NODE:
                return node
            case None:
                return _ONE

    def bucket(self, key: str, now: float) -> TokenBucket:
        """Return a bucket, made when first needed; it begins full, or empty where that is asked."""
        if (known := self.buckets.get(key)) is not None:
            return known
        if len(self.buckets) >= self._sweep_at:
            self.buckets = {
                name: each for name, each in self.buckets.items() if not each.is_idle(now)
            }
            self.queues = {name: each for name, each in self.queues.items() if name in self.buckets}
            self._sweep_at = max(SWEEP_SIZE, 2 * len(self.buckets))
        since = now if self.empty_since is None else self.empty_since
        made = self.buckets[key] = TokenBucket(self.rate, since)
        if self.empty_since is not None:
            made.empty(since)
        return made

    def begin_empty(self, now: float) -> None:
        """Let the buckets, also those made later, have no token now and fill from now on."""
        self.empty_since = now
        for each in self.buckets.values():
            each.empty(now)

    def go_on_from(self, old: "_Budget", now: float) -> None:
        """Go on with the buckets of another rate: what was spent stays spent."""
        self.buckets, self.empty_since = old.buckets, old.empty_since
        self.queues, self.refusals = old.queues, old.refusals
        more = self.rate.burst - old.rate.burst
        for each in self.buckets.values():
            each.add(more, now)
            each.adjust(self.rate, now)

    def available(self, now: float) -> float:
        """Return the fewest free tokens of any bucket."""
        burst = float(self.rate.burst)
        return min((each.available(now) for each in self.buckets.values()), default=burst)

    @property
    def scope_exhausted(self) -> str:
        """The scope of pods that get the same answer, as a balance plugin goes by it."""
        return self.settings.each or self.settings.scope_exhausted

    def describe(self, key: str) -> str:
        """Name the budget, and what the bucket is for, as messages do."""
        of = f" of {self.settings.each} {key}" if self.settings.each else ""
        return f'"{self.settings.name}"{of}'

    def turn(self, key: str, place: QueuePlace) -> Turn:
        """Return a place in the queue of a bucket as messages have it; other limits may delay."""
        name, rate = self.describe(key), self.buckets[key].rate
        return Turn(NAMED, name, rate, place.place, place.of, place.at, is_least=True)

    def wait(self, pod: PodKey, key: str, now: float) -> QueuePlace:
        """Let a pod wait for a token of a bucket, at the end unless it waits already."""
        self.refusals += 1
        return self.queues.setdefault(key, BucketQueue()).wait(pod, self.buckets[key], now)

    def look(self, pod: PodKey, key: str, now: float) -> QueuePlace:
        """Return the place of a pod, or that which it would get."""
        return self.queues.get(key, _NO_QUEUE).look(pod, self.buckets[key], now)

    def leave(self, pod: PodKey, key: str) -> None:
        """Take a pod out of the queue of a bucket."""
        if (queue := self.queues.get(key)) is not None:
            queue.leave(pod)
            if not len(queue):
                del self.queues[key]


class NamedBudgets(EvictionParticipant):
    """All named budgets; `view` has the labels of namespaces and nodes."""

    name = NAMED_BUDGET_SPENT.gate

    def __init__(self, budgets: Sequence[NamedBudget], view: ClusterView) -> None:
        self._view = view
        self._budgets = [_Budget(each, view) for each in budgets]
        self._held: dict[PodKey, list[TokenBucket]] = {}
        self._restored: list[tuple[Eviction, float]] = []

    @property
    def are_set(self) -> bool:
        """Say whether there is any."""
        return bool(self._budgets)

    def of_profile(self, profile: str) -> "ProfileBudgets":
        """Return the gate of a profile: the budgets that concern its findings."""
        return ProfileBudgets(self, profile)

    def reconfigure(
        self, budgets: Sequence[NamedBudget], now: float, under_way: Iterable[Eviction]
    ) -> None:
        """Apply other budgets; one of the same name for the same evictions keeps what it counts.

        The others count from now on, including the evictions `under_way`.
        """
        before = {each.settings.concerned_by: each for each in self._budgets}
        made = [_Budget(each, self._view) for each in budgets]
        added = []
        for each in made:
            if (old := before.get(each.settings.concerned_by)) is not None:
                each.go_on_from(old, now)
            else:
                added.append(each)
        self._budgets = made
        to_take = {eviction.pod_uid for eviction, _ in self._restored}
        for eviction in under_way:
            if eviction.pod_uid not in to_take:
                self._hold(eviction, added, now)

    def begin_empty(self, now: float) -> None:
        """Let every budget have no token now, for a process that does not know what was evicted."""
        for each in self._budgets:
            each.begin_empty(now)

    def ask(
        self, finding: Finding, profile: str, now: float, *, waits: bool
    ) -> Defer | Refuse | None:
        """Defer a pod until each budget that concerns it has a token; name the one that has last.

        One that `waits` takes a place in the queue of each that has none.
        """
        if (found := self._last_empty(finding, profile, now, waits=waits)) is None:
            return None
        budget, key, place = found
        turn = budget.turn(key, place)
        scope, at = budget.scope_exhausted, place.look_at
        if wakes := budget.concerned.wakes(finding):
            refusal = NAMED_BUDGET_SPENT.refuse(
                finding, turn.where, wakes, at, scope_exhausted=scope
            )
            return refusal.ending(turn.end)
        return NAMED_BUDGET_SPENT.defer(
            finding, turn.where, at, scope_exhausted=scope, end=turn.end
        )

    def turn(self, finding: Finding, profile: str, now: float) -> Turn | None:
        """Return the place of a pod that waits, as it is now; None where it would pass."""
        found = self._last_empty(finding, profile, now, waits=False)
        return None if found is None else found[0].turn(*found[1:])

    def _last_empty(
        self, finding: Finding, profile: str, now: float, *, waits: bool
    ) -> tuple[_Budget, str, QueuePlace] | None:
        """Return the budget that has a token for the pod last, its bucket, and the pod's place."""
        if not self._budgets or is_clean_up(finding.pod):
            return None
        self._take_restored()
        pod = finding.pod
        found: tuple[_Budget, str, QueuePlace] | None = None
        for each in self._budgets:
            if not each.concerned.finding(finding, profile):
                continue
            key = each.key(pod.namespace, pod.node)
            if each.bucket(key, now).has_token(now):
                continue
            place = (each.wait if waits else each.look)(pod.uid, key, now)
            if found is None or place.at > found[2].at:
                found = each, key, place
        return found

    def decided(self, eviction: Eviction) -> None:
        """Reserve a token in each budget that concerns the eviction."""
        self._take_restored()
        self._hold(eviction, self._budgets, eviction.decided_at)
        for each, key in self._keys_of(eviction, self._budgets):
            each.leave(eviction.pod_uid, key)

    def ended(self, eviction: Eviction, outcome: Outcome) -> None:
        """Spend what is held for a pod that was evicted, or free it."""
        del outcome
        assert eviction.ended_at is not None
        for bucket in self._held.pop(eviction.pod_uid, ()):
            bucket.release(eviction.ended_at, consumed=eviction.counts)

    def restored(self, eviction: Eviction, now: float) -> None:
        """Spend the tokens of an earlier process's eviction; one without an outcome holds them.

        That is done at the first look at a finding, when the cluster is known: labels may say whom
        a budget concerns.
        """
        if self._budgets:
            self._restored.append((eviction, now))

    def _take_restored(self) -> None:
        if not self._restored:
            return
        restored, self._restored = self._restored, []
        for eviction, now in restored:
            if eviction.counts and eviction.ended_at is None:
                self._hold(eviction, self._budgets, now)
            elif eviction.counts and eviction.ended_at is not None:
                for bucket in self._buckets_of(eviction, self._budgets, eviction.ended_at):
                    bucket.spend(eviction.ended_at)

    def _hold(self, eviction: Eviction, budgets: Iterable[_Budget], now: float) -> None:
        for bucket in self._buckets_of(eviction, budgets, now):
            bucket.reserve(now)
            self._held.setdefault(eviction.pod_uid, []).append(bucket)

    def _buckets_of(
        self, eviction: Eviction, budgets: Iterable[_Budget], now: float
    ) -> Iterator[TokenBucket]:
        for each, key in self._keys_of(eviction, budgets):
            yield each.bucket(key, now)

    @staticmethod
    def _keys_of(eviction: Eviction, budgets: Iterable[_Budget]) -> Iterator[tuple[_Budget, str]]:
        """Yield each budget that concerns an eviction, with the name of its bucket."""
        if eviction.is_clean_up:
            return
        for each in budgets:
            if each.concerned.eviction(eviction):
                yield each, each.key(eviction.scopes.namespace, eviction.scopes.node)

    def available(self, now: float) -> Iterator[tuple[str, TokenBucket, float]]:
        """Yield the name of each budget that is not full, its bucket, and the free tokens."""
        for each in self._budgets:
            for key, bucket in each.buckets.items():
                name = f"{each.settings.name} {key}".rstrip()
                yield name, bucket, min(bucket.available(now), bucket.rate.burst)

    def collect(self, now: float) -> Iterator[Metric]:
        """Yield the tokens that are left, and how many evictions were deferred, by budget."""
        yield TOKENS.by_label({each.settings.name: each.available(now) for each in self._budgets})
        yield REFUSALS.by_label({each.settings.name: each.refusals for each in self._budgets})


class ProfileBudgets:
    """The gate of one profile: the named budgets that concern its findings."""

    name = NAMED_BUDGET_SPENT.gate

    def __init__(self, budgets: NamedBudgets, profile: str) -> None:
        self._budgets = budgets
        self._profile = profile

    def check(self, finding: Finding, now: float) -> Defer | Refuse | None:
        """Defer a pod until each budget that concerns it has a token; it waits in a queue."""
        return self._budgets.ask(finding, self._profile, now, waits=True)

    def explain(self, finding: Finding, now: float) -> Defer | Refuse | None:
        """Return what `check` would; takes no place in a queue."""
        return self._budgets.ask(finding, self._profile, now, waits=False)
