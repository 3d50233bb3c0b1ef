"""Every gate in its order: the first refusal or deferral decides, and none means an eviction."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, Protocol

from reactive_desched.api.index import Index
from reactive_desched.model.decisions import (
    TURN_COMES_S,
    Decision,
    Defer,
    Evict,
    GateReason,
    Refuse,
)
from reactive_desched.model.findings import Finding
from reactive_desched.model.history import PastEviction
from reactive_desched.model.objects import Pod, PodKey
from reactive_desched.model.outcomes import COUNTS_AGAINST_LIMITS, POD_LEAVES, Outcome

if TYPE_CHECKING:  # a sweep has neither, and their settings are a tenth of its start
    from reactive_desched.gate.rate_limits import BucketEmpty, EvictionRateLimiter
    from reactive_desched.moves.tracker import MoveTracker

RATE_LIMITED: Final = GateReason(
    "EvictionRateLimit",
    "EvictionRateLimited",
    "The rate limit of the cluster, of the pod's zone, node, namespace or topmost controller, or "
    "of the plugin has no token left; the message names it.",
    "budgets",
)


_EXHAUSTED_FOR_PLUGINS: Final = {
    "cluster": "cluster",
    "plugin": "cluster",  # nothing more for this plugin, wherever it looks
    "zone": "node",
    "node": "node",
    "namespace": "namespace",
    "owner": "",
}
"""What an empty bucket of a scope means to a balance plugin, which goes by three kinds of scope."""


class GateFilter(Protocol):
    """One gate: it refuses or defers a finding, or returns None. `now` is monotonic seconds."""

    @property
    def name(self) -> str:
        """The gate's name in records and metrics."""
        ...

    def check(self, finding: Finding, now: float) -> Defer | Refuse | None:
        """Return a refusal, a deferral, or None."""
        ...


class EvictionLimit(GateFilter, Protocol):
    """A filter that counts evictions, from their decision on."""

    def reserve(self, finding: Finding) -> None:
        """Count an eviction that was decided."""
        ...

    def release(self, pod: PodKey, now: float, *, evicted: bool) -> None:
        """Record that an eviction has its outcome: one that did not happen does not count."""
        ...

    def restore(self, past: Iterable[PastEviction], now: float, wall_now: float) -> None:
        """Count evictions of earlier processes that happened, or have no outcome yet.

        They are in the order of their ends; `now` and `wall_now` are one moment by both clocks.
        """
        ...


class EvictionTracker(Protocol):
    """Keeps account of evictions between the decision and the outcome."""

    def reserve(self, pod: Pod) -> None:
        """Record that the pod's eviction was decided."""
        ...

    def release(self, pod: Pod, *, evicted: bool) -> None:
        """Record that the pod's eviction has its outcome."""
        ...


class BlockObserver(Protocol):
    """Keeps account of what blocks pods."""

    def note_blocked(self, decision: Defer | Refuse) -> None:
        """Record that a gate refused a pod, or lets it wait."""
        ...


class Gate:
    """The gates of one profile, cheap and final ones first; the rate limits come last."""

    def __init__(
        self,
        filters: tuple[GateFilter, ...],
        limits: tuple[EvictionLimit, ...],
        rate_limiter: "EvictionRateLimiter",
        trackers: tuple[EvictionTracker, ...] = (),
        moves: "MoveTracker | None" = None,
        observers: tuple[BlockObserver, ...] = (),
    ) -> None:
        self.filters = (*filters, *limits)
        self._limits = limits
        self._rate_limiter = rate_limiter
        self._trackers = trackers
        self._moves = moves
        self._observers = observers

    @property
    def indexes(self) -> tuple[type[Index], ...]:
        """The indexes that the filters read."""
        return tuple(kind for step in self.filters for kind in getattr(step, "indexes", ()))

    def decide(self, finding: Finding, now: float) -> Decision:
        """Return the first gate's refusal or deferral, or Evict, which holds its tokens."""
        if self._moves is not None:
            self._moves.observe(finding, now)
        if (decision := self._block(finding, now)) is not None:
            for observer in self._observers:
                observer.note_blocked(decision)
            return decision
        for limit in self._limits:
            limit.reserve(finding)
        for tracker in self._trackers:
            tracker.reserve(finding.pod)
        if self._moves is not None:
            self._moves.begin(finding, now)
        return Evict(finding)

    def _block(self, finding: Finding, now: float) -> Defer | Refuse | None:
        """Return the first refusal or deferral; None where the tokens are reserved."""
        for gate_filter in self.filters:
            if (decision := gate_filter.check(finding, now)) is not None:
                return decision
        empty = self._rate_limiter.reserve(finding, now)
        return None if empty is None else _rate_limited(finding, empty, now)

    def explain(self, finding: Finding, now: float) -> Iterator[tuple[str, Defer | Refuse | None]]:
        """Yield each gate's name, in their order, with its refusal or deferral, or None.

        `decide` ends at the first of them. Nothing is reserved, and no place in a queue is taken.
        """
        for gate_filter in self.filters:
            yield gate_filter.name, gate_filter.check(finding, now)
        empty = self._rate_limiter.peek(finding, now)
        yield RATE_LIMITED.gate, None if empty is None else _rate_limited(finding, empty, now)

    def release(self, pod: Pod, outcome: Outcome, now: float) -> None:
        """Record the outcome of an eviction; only one that happened costs its tokens."""
        leaves = outcome.result in POD_LEAVES
        for tracker in self._trackers:
            tracker.release(pod, evicted=leaves)
        if self._moves is not None:
            self._moves.settle(pod.uid, outcome, now)
        counts = outcome.result in COUNTS_AGAINST_LIMITS
        for limit in self._limits:
            limit.release(pod.uid, now, evicted=counts)
        self._rate_limiter.release(pod.uid, now, consumed=counts)


def _rate_limited(finding: Finding, empty: "BucketEmpty", now: float) -> Defer:
    comes_soon = empty.available_at <= now + TURN_COMES_S
    return RATE_LIMITED.defer(
        finding,
        empty.turn.message(now),
        empty.available_at,
        scope_exhausted=_EXHAUSTED_FOR_PLUGINS[empty.scope],
        setting=f"budgets.{empty.turn.scope}",
        turn=empty.name if empty.scope == "owner" and comes_soon else "",
    )
