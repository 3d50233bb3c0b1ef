"""Let others run: long loops over small steps give the event loop back every millisecond."""

from reactive_desched.kube.clock import Clock

__all__ = ["Pace"]


class Pace:
    """Says when to yield: after `every` steps, or sooner once `budget_s` has passed."""

    def __init__(self, clock: Clock, every: int, budget_s: float = 0.001) -> None:
        self._now = clock.now
        self._every = every
        self._budget_s = budget_s
        self._left = every
        self._ends = clock.now() + budget_s

    def spent(self) -> bool:
        """Count one step; True means: pass a checkpoint now."""
        self._left -= 1
        return self._left <= 0 or self._now() >= self._ends

    def restart(self) -> None:
        """Begin a new turn, right after having yielded."""
        self._left = self._every
        self._ends = self._now() + self._budget_s
