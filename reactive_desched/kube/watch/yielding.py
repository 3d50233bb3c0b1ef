"""Cuts long loops into slices, so that the event loop runs other tasks every millisecond."""

from anyio.lowlevel import checkpoint
from msgspec import Struct

from reactive_desched.kube.client.clock import Clock

__all__ = ["YieldPolicy", "Yielder"]


class YieldPolicy(Struct, frozen=True, gc=False):
    """The steps of a slice, and the turns of the loop that other tasks get after it.

    Reacting to an event takes several turns of the loop. Yielding several at once delays the
    reaction less and costs the long loop little.
    """

    steps_per_slice: int
    loop_turns: int = 1


_FIRST_STEPS = 2


class Yielder:
    """Ends a slice after as many steps as took `slice_s` in the slice before.

    A look at the clock for every step would cost a twentieth of reading a pod. A slice has at most
    twice the steps of the one before, and never more than the policy's.
    """

    def __init__(self, clock: Clock, policy: YieldPolicy, slice_s: float = 0.001) -> None:
        self._now = clock.now
        self._policy = policy
        self._slice_s = slice_s
        self._steps = self._steps_left = min(_FIRST_STEPS, policy.steps_per_slice)
        self._began_at = clock.now()

    @property
    def steps(self) -> int:
        """Return how many steps the slice has, for a loop that takes them at once."""
        return self._steps

    def slice_over(self) -> bool:
        """Count one step; returns True when it is time to `await yield_now()`."""
        self._steps_left -= 1
        return self._steps_left <= 0

    async def yield_now(self) -> None:
        """Let other tasks run, and begin a new slice."""
        took_s = self._now() - self._began_at
        for _ in range(self._policy.loop_turns):
            await checkpoint()
        most = min(2 * self._steps, self._policy.steps_per_slice)
        fitting = int(self._steps * self._slice_s / took_s) if took_s > 0 else most
        self._steps = self._steps_left = max(1, min(fitting, most))
        self._began_at = self._now()
