"""Holds a pod back for longer each time that its eviction fails."""

from collections import OrderedDict
from collections.abc import Iterator
from zlib import crc32

from msgspec import Struct

from reactive_desched.model.objects import PodKey
from reactive_desched.model.outcomes import CANCELLED, PDB_REFUSED, Outcome
from reactive_desched.policy.settings.controller_settings import RetrySettings
from reactive_desched.telemetry.metrics import Metric, gauge

MAX_BACKOFF_ENTRIES = 20_000

BACKOFF_PODS = gauge(
    "backoff_pods", "Pods whose failed evictions are remembered: at most 20,000, then the latest."
)


class BackoffEntry(Struct, frozen=True, gc=False):
    """The result of the last try; the pod is left alone `until` then, in monotonic seconds."""

    failures: int
    until: float
    outcome: Outcome


class PodBackoff:
    """Doubling waits per pod, from the first to the longest, in seconds.

    Each wait is shorter by up to the share `retry.jitter` of it, by the pod's uid and the number
    of failures: pods that were refused together do not try again together.

    A pod that had rest for the longest wait starts over from the first. 20,000 pods are
    remembered; at the bound the one whose failure is oldest starts over, too.
    """

    def __init__(self, retry: RetrySettings) -> None:
        self._retry = retry
        self._entries: OrderedDict[PodKey, BackoffEntry] = OrderedDict()

    def collect(self) -> Iterator[Metric]:
        """Yield of how many pods failures are remembered."""
        yield BACKOFF_PODS.value(len(self._entries))

    def reconfigure(self, retry: RetrySettings) -> None:
        """Use other waits for later failures; a wait that has begun keeps its length."""
        self._retry = retry

    def record_failure(self, pod: PodKey, outcome: Outcome, now: float) -> float:
        """Count one more failure and return when to try again, never before the server said."""
        last = self._entries.pop(pod, None)
        failures = last.failures if last and now < last.until + self._retry.max_s else 0
        if len(self._entries) >= MAX_BACKOFF_ENTRIES:
            self._entries.popitem(last=False)
        wait_s = min(self._retry.max_s, self._retry.initial_s * 2.0 ** min(failures, 30))
        wait_s *= 1 - self._retry.jitter * _fraction(f"{pod}/{failures}")
        until = now + max(wait_s, outcome.retry_after_s or 0.0)
        counts = outcome.result != CANCELLED  # no request was sent
        self._entries[pod] = BackoffEntry(failures + counts, until, outcome)
        return until

    def backing_off(self, pod: PodKey, now: float) -> BackoffEntry | None:
        """Return why and how long to leave a pod alone, or None when it may be tried."""
        entry = self._entries.get(pod)
        return entry if entry is not None and now < entry.until else None

    def pdb_changed(self, pod: PodKey, now: float) -> None:
        """End the rest of a pod that only a disruption budget stopped."""
        entry = self.backing_off(pod, now)
        if entry is not None and entry.outcome.result == PDB_REFUSED:
            self._entries[pod] = BackoffEntry(entry.failures, now, entry.outcome)

    def reset(self, pod: PodKey) -> None:
        """Start over from the first wait."""
        self._entries.pop(pod, None)


def _fraction(text: str) -> float:
    """Return a number from 0 to 1, always the same for a text and spread evenly over texts."""
    return crc32(text.encode()) / 2**32
