"""How long to leave a pod alone after its eviction failed, again and again."""

from msgspec import Struct

from reactive_desched.model.objects import PodKey
from reactive_desched.model.outcomes import BUDGET_REFUSED, WITHHELD, Outcome

REMEMBERED_FAILURES = 50_000


class Rest(Struct, frozen=True, gc=False):
    """Leave the pod alone until then (monotonic seconds), for what came of the last try."""

    failures: int
    until: float
    outcome: Outcome


class Backoff:
    """Doubling waits per pod, from the first to the longest, in seconds.

    A pod that had rest for the longest wait starts over from the first. 50,000 pods are
    remembered; at the bound the one whose failure is oldest starts over, too.
    """

    def __init__(self, first_s: float = 5.0, longest_s: float = 300.0) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._rests: dict[PodKey, Rest] = {}

    def adopt(self, first_s: float, longest_s: float) -> None:
        """Let future waits be of other lengths; rests that have begun stay as they are."""
        self._first_s = first_s
        self._longest_s = longest_s

    def failed(self, pod: PodKey, outcome: Outcome, now: float) -> float:
        """Count one more failure and return when to try again, never before the server said."""
        last = self._rests.pop(pod, None)
        failures = last.failures if last and now < last.until + self._longest_s else 0
        if len(self._rests) >= REMEMBERED_FAILURES:
            del self._rests[next(iter(self._rests))]
        wait_s = min(self._longest_s, self._first_s * 2.0 ** min(failures, 30))
        until = now + max(wait_s, outcome.retry_after_s or 0.0)
        counts = outcome.result != WITHHELD  # nobody was asked
        self._rests[pod] = Rest(failures + counts, until, outcome)
        return until

    def resting(self, pod: PodKey, now: float) -> Rest | None:
        """Return why and how long to leave a pod alone, or None when it may be tried."""
        rest = self._rests.get(pod)
        return rest if rest is not None and now < rest.until else None

    def budget_changed(self, pod: PodKey, now: float) -> None:
        """End the rest of a pod that only a disruption budget stopped."""
        rest = self.resting(pod, now)
        if rest is not None and rest.outcome.result == BUDGET_REFUSED:
            self._rests[pod] = Rest(rest.failures, now, rest.outcome)

    def forget(self, pod: PodKey) -> None:
        """Start over from the first wait."""
        self._rests.pop(pod, None)
