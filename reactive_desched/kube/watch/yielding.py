"""Cuts long loops into slices, so that the event loop runs other tasks every millisecond."""

from anyio.lowlevel import checkpoint

from reactive_desched.kube.client.clock import Clock

__all__ = ["Yielder"]

_FIRST_STEPS = 2
_SLICE_S = 0.001


class Yielder:
    """Ends a slice after as many steps as took a millisecond in the slice before.

    A look at the clock for every step would cost a twentieth of reading a pod. A slice has at most
    twice the steps of the one before, and never more than `most_steps`.
    """

    def __init__(self, clock: Clock, most_steps: int) -> None:
        self._now = clock.now
        self._most_steps = most_steps
        self._steps = self._steps_left = min(_FIRST_STEPS, most_steps)
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
        await checkpoint()
        most = min(2 * self._steps, self._most_steps)
        fitting = int(self._steps * _SLICE_S / took_s) if took_s > 0 else most
        self._steps = self._steps_left = max(1, min(fitting, most))
        self._began_at = self._now()
