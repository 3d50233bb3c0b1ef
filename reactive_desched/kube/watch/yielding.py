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


class Yielder:
    """Ends a slice after its steps, or sooner once `slice_s` has passed."""

    def __init__(self, clock: Clock, policy: YieldPolicy, slice_s: float = 0.001) -> None:
        self._now = clock.now
        self._policy = policy
        self._slice_s = slice_s
        self._steps_left = policy.steps_per_slice
        self._slice_ends_at = clock.now() + slice_s

    def slice_over(self) -> bool:
        """Count one step; returns True when it is time to `await yield_now()`."""
        self._steps_left -= 1
        return self._steps_left <= 0 or self._now() >= self._slice_ends_at

    async def yield_now(self) -> None:
        """Let other tasks run, and begin a new slice."""
        for _ in range(self._policy.loop_turns):
            await checkpoint()
        self._steps_left = self._policy.steps_per_slice
        self._slice_ends_at = self._now() + self._slice_s
