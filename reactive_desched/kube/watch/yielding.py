"""Let others run: long loops over small steps give the event loop back every millisecond."""

from anyio.lowlevel import checkpoint
from msgspec import Struct

from reactive_desched.kube.client.clock import Clock

__all__ = ["YieldPolicy", "Yielder"]


class YieldPolicy(Struct, frozen=True, gc=False):
    """How many steps make a turn, and how many turns of the loop others get after it.

    Reacting to an event takes several turns of the loop. Where events must be answered while a
    long loop runs, giving several turns away at once costs little and spares them most waits.
    """

    steps_per_slice: int
    loop_turns: int = 1


class Yielder:
    """Says when a turn is over: after its steps, or sooner once `budget_s` has passed."""

    def __init__(self, clock: Clock, policy: YieldPolicy, slice_s: float = 0.001) -> None:
        self._now = clock.now
        self._policy = policy
        self._slice_s = slice_s
        self._steps_left = policy.steps_per_slice
        self._slice_ends_at = clock.now() + slice_s

    def slice_over(self) -> bool:
        """Count one step; True means: `await give_way()` now."""
        self._steps_left -= 1
        return self._steps_left <= 0 or self._now() >= self._slice_ends_at

    async def yield_now(self) -> None:
        """Let others run, and begin a new turn."""
        for _ in range(self._policy.loop_turns):
            await checkpoint()
        self._steps_left = self._policy.steps_per_slice
        self._slice_ends_at = self._now() + self._slice_s
