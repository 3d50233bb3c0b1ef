"""Notices that this process stood still: then the picture is old, however fresh it looks."""

from collections.abc import Callable

import anyio

SUSPEND_THRESHOLD_S = 3.0
"""So long without a look, and we stood still: stopped, starved, or with the machine asleep."""

CHECK_INTERVAL_S = 0.5
"""How often somebody looks, if nobody does it for another reason."""


class SuspendDetector:
    """Tells `woke`, before anything else is done, how long this process has stood still.

    Whoever is about to judge or to act asks `look` first. `clock` gives seconds that also go on
    while the machine sleeps.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.on_resume: Callable[[float], None] = _ignore
        self._clock = clock
        self._checked_at: float | None = None

    def check(self) -> None:
        """Look at the clock; too long after the last look, tell how long that was."""
        now = self._clock()
        before, self._checked_at = self._checked_at, now
        if before is not None and now - before > SUSPEND_THRESHOLD_S:
            self.on_resume(now - before)

    async def run(self) -> None:
        """Look again and again, so that idling is not taken for standing still."""
        while True:
            self.check()
            await anyio.sleep(CHECK_INTERVAL_S)


def _ignore(_: float) -> None:
    """Hear nothing."""
