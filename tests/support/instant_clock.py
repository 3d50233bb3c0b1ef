"""A clock on which a sleep takes no time, and is remembered."""

from anyio.lowlevel import checkpoint

from tests.support.manual_clock import ManualClock

__all__ = ["InstantClock"]


class InstantClock(ManualClock):
    """Advances by itself as soon as a task sleeps; for a single task."""

    def __init__(self) -> None:
        super().__init__()
        self.slept_s: list[float] = []

    async def sleep(self, seconds: float) -> None:
        """Let this much time pass at once."""
        self.slept_s.append(seconds)
        self.advance(seconds)
        await checkpoint()
