"""The client-side limit on requests per second."""

from enum import IntEnum
from heapq import heapify, heappop, heappush
from itertools import count

from msgspec import Struct

from reactive_desched.errors import ConfigError, RateLimited
from reactive_desched.kube.client.clock import Clock

__all__ = ["RateLimit", "RateLimiter", "RequestPriority"]


class RequestPriority(IntEnum):
    """The order in which waiting requests get a token."""

    CRITICAL = 0
    """Evictions and leases; they may use the reserve."""
    WATCH = 1
    """Opening a watch, and probing the server."""
    BACKGROUND = 2
    """Lists, Events and all other requests."""


class RateLimit(Struct, frozen=True, gc=False):
    """Requests per second, the burst above it, and the part that only CRITICAL requests may use."""

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
    """A token bucket with priorities.

    Holds at most `rate.max_waiting` waiting requests; one more raises RateLimited. Higher
    priorities go first, and within a priority the earliest.
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
        """The number of waiting requests."""
        return len(self._queue)

    def try_accept(self, priority: RequestPriority) -> bool:
        """Take a token if there is one and no request of this or a higher priority waits."""
        if self._queue and self._queue[0][0] <= priority:
            return False
        return self._take_token(priority)

    async def wait(self, priority: RequestPriority) -> None:
        """Return with a token, or raise RateLimited when too many requests wait already."""
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
        """Return how many tokens the bucket must hold for this priority, less a rounding error."""
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
