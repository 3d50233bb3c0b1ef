"""Notices that this process stood still: then the picture is old, however fresh it looks."""

from collections.abc import Callable

import anyio

STOOD_STILL_S = 3.0
"""So long without a look, and we stood still: stopped, starved, or with the machine asleep."""

LOOK_EVERY_S = 0.5
"""How often somebody looks, if nobody does it for another reason."""


class Vigil:
    """Tells `woke`, before anything else is done, how long this process has stood still.

    Whoever is about to judge or to act asks `look` first. `clock` gives seconds that also go on
    while the machine sleeps.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.woke: Callable[[float], None] = _nobody
        self._clock = clock
        self._seen_at: float | None = None

    def look(self) -> None:
        """Look at the clock; too long after the last look, tell how long that was."""
        now = self._clock()
        before, self._seen_at = self._seen_at, now
        if before is not None and now - before > STOOD_STILL_S:
            self.woke(now - before)

    async def keep(self) -> None:
        """Look again and again, so that idling is not taken for standing still."""
        while True:
            self.look()
            await anyio.sleep(LOOK_EVERY_S)


def _nobody(_: float) -> None:
    """Hear nothing."""
