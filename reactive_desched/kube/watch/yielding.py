"""Let others run: long loops over small steps give the event loop back every millisecond."""

from anyio.lowlevel import checkpoint
from msgspec import Struct

from reactive_desched.kube.client.clock import Clock

__all__ = ["Gait", "Pace"]


class Gait(Struct, frozen=True, gc=False):
    """How many steps make a turn, and how many turns of the loop others get after it.

    Reacting to an event takes several turns of the loop. Where events must be answered while a
    long loop runs, giving several turns away at once costs little and spares them most waits.
    """

    steps: int
    turns_given: int = 1


class Pace:
    """Says when a turn is over: after its steps, or sooner once `budget_s` has passed."""

    def __init__(self, clock: Clock, gait: Gait, budget_s: float = 0.001) -> None:
        self._now = clock.now
        self._gait = gait
        self._budget_s = budget_s
        self._left = gait.steps
        self._ends = clock.now() + budget_s

    def spent(self) -> bool:
        """Count one step; True means: `await give_way()` now."""
        self._left -= 1
        return self._left <= 0 or self._now() >= self._ends

    async def give_way(self) -> None:
        """Let others run, and begin a new turn."""
        for _ in range(self._gait.turns_given):
            await checkpoint()
        self._left = self._gait.steps
        self._ends = self._now() + self._budget_s
