"""How long to leave a subject alone after its eviction failed, again and again."""

from collections.abc import Hashable

REMEMBERED_FAILURES = 50_000


class Backoff:
    """Doubling waits per key, from the first to the longest, in seconds.

    50,000 keys are remembered; at the bound the oldest starts over from the first wait.
    """

    def __init__(self, first_s: float = 5.0, longest_s: float = 300.0) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._failures: dict[Hashable, int] = {}

    def next_wait_s(self, key: Hashable) -> float:
        """Count one more failure and return how long to wait after it."""
        failures = self._failures.pop(key, 0)
        if len(self._failures) >= REMEMBERED_FAILURES:
            del self._failures[next(iter(self._failures))]
        self._failures[key] = failures + 1
        return float(min(self._longest_s, self._first_s * 2 ** min(failures, 30)))

    def forget(self, key: Hashable) -> None:
        """Start over from the first wait."""
        self._failures.pop(key, None)
