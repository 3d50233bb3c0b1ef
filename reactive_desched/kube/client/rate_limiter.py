"""Our own limit on calls per second, so that we are a polite client whatever happens."""

from enum import IntEnum
from heapq import heapify, heappop, heappush
from itertools import count

from msgspec import Struct

from reactive_desched.errors import ConfigError, Saturated
from reactive_desched.kube.client.clock import Clock

__all__ = ["Lane", "Rate", "Throttle"]


class Lane(IntEnum):
    """Who goes first when calls have to wait."""

    ACT = 0
    """Evictions and leases: late is wrong, and they may use the reserve."""
    WATCH = 1
    """Opening a watch: without it nothing else makes sense."""
    BULK = 2
    """Lists, events and everything that may be late."""


class Rate(Struct, frozen=True, gc=False):
    """The limit: calls per second, the burst above it, and how much of that only ACT may use."""

    per_s: float = 50.0
    burst: int = 100
    reserve: int = 20
    waiting: int = 1000

    def __post_init__(self) -> None:
        if self.per_s <= 0 or not 0 <= self.reserve < self.burst:
            raise ConfigError(
                f"a rate of {self.per_s} calls/s with burst {self.burst} and reserve {self.reserve}"
                " lets nothing through: the rate must be positive and the reserve below the burst"
            )


class Throttle:
    """A token bucket with lanes.

    Holds at most `rate.waiting` waiting calls; one more is refused with `Saturated`. A waiting
    call of a higher lane is served before all lower ones, within a lane the earliest first.
    """

    def __init__(self, rate: Rate, clock: Clock) -> None:
        self.rate = rate
        self.waited_s = 0.0
        self.refused = 0
        self._clock = clock
        self._tokens = float(rate.burst)
        self._filled_at = clock.now()
        self._queue: list[tuple[Lane, int]] = []
        self._tickets = count()

    @property
    def waiting(self) -> int:
        """How many calls wait now."""
        return len(self._queue)

    def take(self, lane: Lane) -> bool:
        """Take a token at once if there is one and nobody of this or a higher lane waits."""
        if self._queue and self._queue[0][0] <= lane:
            return False
        return self._take(lane)

    async def wait(self, lane: Lane) -> None:
        """Come back with a token, or raise `Saturated` when too many calls wait already."""
        if self.take(lane):
            return
        if len(self._queue) >= self.rate.waiting:
            self.refused += 1
            raise Saturated(f"{self.waiting} calls already wait for the client-side limit")
        ticket = (lane, next(self._tickets))
        heappush(self._queue, ticket)
        began = self._clock.now()
        try:
            while self._queue[0] != ticket or not self._take(lane):
                await self._clock.sleep(self._until_next_s(lane))
        finally:
            self._leave(ticket)
            self.waited_s += self._clock.now() - began

    def _take(self, lane: Lane) -> bool:
        self._refill()
        if self._tokens < self._floor(lane):
            return False
        self._tokens -= 1.0
        return True

    def _refill(self) -> None:
        now = self._clock.now()
        fresh = (now - self._filled_at) * self.rate.per_s
        self._tokens = min(float(self.rate.burst), self._tokens + fresh)
        self._filled_at = now

    def _floor(self, lane: Lane) -> float:
        """Tell how full the bucket must be for this lane; a hair less, against rounding."""
        return (1.0 if lane is Lane.ACT else 1.0 + self.rate.reserve) - 1e-6

    def _until_next_s(self, lane: Lane) -> float:
        return max(self._floor(lane) - self._tokens, 0.1) / self.rate.per_s

    def _leave(self, ticket: tuple[Lane, int]) -> None:
        if self._queue[0] == ticket:
            heappop(self._queue)
            return
        self._queue.remove(ticket)
        heapify(self._queue)
