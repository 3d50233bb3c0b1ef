"""Our own limit on calls per second, so that we are a polite client whatever happens."""

from enum import IntEnum
from heapq import heapify, heappop, heappush
from itertools import count

from msgspec import Struct

from reactive_desched.errors import ConfigError, RateLimited
from reactive_desched.kube.client.clock import Clock

__all__ = ["RateLimit", "RateLimiter", "RequestPriority"]


class RequestPriority(IntEnum):
    """Who goes first when calls have to wait."""

    CRITICAL = 0
    """Evictions and leases: late is wrong, and they may use the reserve."""
    WATCH = 1
    """Opening a watch: without it nothing else makes sense."""
    BACKGROUND = 2
    """Lists, events and everything that may be late."""


class RateLimit(Struct, frozen=True, gc=False):
    """The limit: calls per second, the burst above it, and how much of that only ACT may use."""

    qps: float = 50.0
    burst: int = 100
    critical_reserve: int = 20
    max_waiting: int = 1000

    def __post_init__(self) -> None:
        if self.qps <= 0 or not 0 <= self.critical_reserve < self.burst:
            raise ConfigError(
                f"a rate of {self.qps} calls/s with burst {self.burst} and reserve "
                f"{self.critical_reserve}"
                " lets nothing through: the rate must be positive and the reserve below the burst"
            )


class RateLimiter:
    """A token bucket with lanes.

    Holds at most `rate.waiting` waiting calls; one more is refused with `Saturated`. A waiting
    call of a higher lane is served before all lower ones, within a lane the earliest first.
    """

    def __init__(self, limit: RateLimit, clock: Clock) -> None:
        self.limit = limit
        self.waited_s = 0.0
        self.rejected = 0
        self._clock = clock
        self._tokens = float(limit.burst)
        self._refilled_at = clock.now()
        self._queue: list[tuple[RequestPriority, int]] = []
        self._tickets = count()

    @property
    def waiting(self) -> int:
        """How many calls wait now."""
        return len(self._queue)

    def try_accept(self, priority: RequestPriority) -> bool:
        """Take a token at once if there is one and nobody of this or a higher lane waits."""
        if self._queue and self._queue[0][0] <= priority:
            return False
        return self._take_token(priority)

    async def wait(self, priority: RequestPriority) -> None:
        """Come back with a token, or raise `Saturated` when too many calls wait already."""
        if self.try_accept(priority):
            return
        if len(self._queue) >= self.limit.max_waiting:
            self.rejected += 1
            raise RateLimited(f"{self.waiting} calls already wait for the client-side limit")
        ticket = (priority, next(self._tickets))
        heappush(self._queue, ticket)
        began = self._clock.now()
        try:
            while self._queue[0] != ticket or not self._take_token(priority):
                await self._clock.sleep(self._until_next_s(priority))
        finally:
            self._dequeue(ticket)
            self.waited_s += self._clock.now() - began

    def _take_token(self, priority: RequestPriority) -> bool:
        self._refill()
        if self._tokens < self._min_tokens(priority):
            return False
        self._tokens -= 1.0
        return True

    def _refill(self) -> None:
        now = self._clock.now()
        fresh = (now - self._refilled_at) * self.limit.qps
        self._tokens = min(float(self.limit.burst), self._tokens + fresh)
        self._refilled_at = now

    def _min_tokens(self, priority: RequestPriority) -> float:
        """Tell how full the bucket must be for this lane; a hair less, against rounding."""
        return (
            1.0 if priority is RequestPriority.CRITICAL else 1.0 + self.limit.critical_reserve
        ) - 1e-6

    def _until_next_s(self, priority: RequestPriority) -> float:
        return max(self._min_tokens(priority) - self._tokens, 0.1) / self.limit.qps

    def _dequeue(self, ticket: tuple[RequestPriority, int]) -> None:
        if self._queue[0] == ticket:
            heappop(self._queue)
            return
        self._queue.remove(ticket)
        heapify(self._queue)
