"""Notices that the process did not run for a while: what was read of the cluster is then old."""

from collections.abc import Callable

SUSPEND_THRESHOLD_S = 3.0
"""The process counts as suspended when so long passed between two checks."""

CHECK_INTERVAL_S = 0.5
"""How often the check is made while nothing else asks for it."""


class SuspendDetector:
    """Measures the time between two checks: SIGSTOP, starvation and a sleeping machine lengthen it.

    `clock` gives seconds and goes on while the machine sleeps.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._checked_at: float | None = None

    def check(self) -> float:
        """Return how many seconds the process was suspended since the last check, 0 if it ran."""
        now = self.clock()
        before, self._checked_at = self._checked_at, now
        if before is not None and now - before > SUSPEND_THRESHOLD_S:
            return now - before
        return 0.0
