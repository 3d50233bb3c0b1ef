"""Every gate in its order: the first "no" is the decision, none is an eviction."""

from typing import Protocol

from reactive_desched.api.index import Index
from reactive_desched.gate.rate_limits import EvictionRateLimiter
from reactive_desched.gate.windows import SlidingWindowLimits
from reactive_desched.model.decisions import Decision, Defer, Evict, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import Pod
from reactive_desched.model.outcomes import COUNTS_AGAINST_LIMITS, POD_LEAVES, Outcome


class GateFilter(Protocol):
    """One gate: a reason to refuse or to wait, or None. `now` is monotonic seconds."""

    @property
    def name(self) -> str:
        """What records and metrics call it."""
        ...

    def check(self, finding: Finding, now: float) -> Defer | Refuse | None:
        """Say no, not now, or nothing."""
        ...


class EvictionTracker(Protocol):
    """Remembers evictions between the decision and their end."""

    def reserve(self, pod: Pod) -> None:
        """The pod's eviction was decided."""
        ...

    def release(self, pod: Pod, *, evicted: bool) -> None:
        """The pod's eviction has its outcome."""
        ...


class Gate:
    """The gates of one profile, cheap and final ones first; the budgets, which cost, come last."""

    def __init__(
        self,
        filters: tuple[GateFilter, ...],
        window_limits: SlidingWindowLimits,
        rate_limiter: EvictionRateLimiter,
        trackers: tuple[EvictionTracker, ...] = (),
    ) -> None:
        self.filters = (*filters, window_limits)
        self._window_limits = window_limits
        self._rate_limiter = rate_limiter
        self._trackers = trackers

    @property
    def indexes(self) -> tuple[type[Index], ...]:
        """The indexes that the filters read."""
        return tuple(kind for step in self.filters for kind in getattr(step, "indexes", ()))

    def decide(self, finding: Finding, now: float) -> Decision:
        """Return the first gate's no, or Evict; an Evict holds its tokens."""
        for gate_filter in self.filters:
            if (decision := gate_filter.check(finding, now)) is not None:
                return decision
        bucket_empty = self._rate_limiter.reserve(finding.pod, now)
        if bucket_empty is not None:
            reason = f"the eviction budget of the {bucket_empty.scope} is spent"
            until, scope = bucket_empty.available_at, bucket_empty.scope.partition(" ")[0]
            return Defer(finding, "EvictionBudget", reason, until, scope)
        self._window_limits.reserve(finding.pod)
        for tracker in self._trackers:
            tracker.reserve(finding.pod)
        return Evict(finding)

    def release(self, pod: Pod, outcome: Outcome, now: float) -> None:
        """Take in the end of an eviction; only one that happened costs its tokens."""
        left = outcome.result in POD_LEAVES
        for tracker in self._trackers:
            tracker.release(pod, evicted=left)
        evicted = outcome.result in COUNTS_AGAINST_LIMITS
        self._window_limits.release(pod, now, evicted=evicted)
        self._rate_limiter.release(pod, now, consumed=evicted)
