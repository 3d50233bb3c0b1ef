"""Token buckets: a steady rate and a burst, with reservations and a fair queue."""

from bisect import bisect_left, insort

from msgspec import Struct

MAX_WAIT_S = 60.0
"""The longest time until a waiting caller tries again: callers before it may have given up."""

_EPSILON = 1e-9  # rounding must not delay a caller that comes exactly on time


class TokenRate(Struct, frozen=True):
    """A steady rate, and the number of tokens after a quiet time."""

    per_second: float
    burst: int


class TokenBucket:
    """Tokens that refill at a steady rate up to the burst; a reserved token does not refill."""

    __slots__ = ("_rate", "_rescheduled_at", "_reserved", "_scheduled", "_tokens", "_updated_at")

    def __init__(self, rate: TokenRate, now: float) -> None:
        self._rate = rate
        self._tokens = float(rate.burst)
        self._reserved = 0
        self._updated_at = now
        self._scheduled: list[float] = []
        self._rescheduled_at = now

    def reconfigure(self, rate: TokenRate, now: float) -> None:
        """Change the rate: spent tokens stay spent; reservations and the queue are dropped."""
        self._reserved = 0
        spent = self._rate.burst - self.available(now)
        self._tokens = rate.burst - spent
        self._rate = rate
        self._scheduled.clear()
        self._rescheduled_at = now

    def available(self, now: float) -> float:
        """Return the tokens that are free now."""
        if now > self._updated_at:
            gained = (now - self._updated_at) * self._rate.per_second
            self._tokens = min(self._rate.burst, self._tokens + gained)
            self._updated_at = now
        return self._tokens - self._reserved

    def has_token(self, now: float) -> bool:
        """Say whether a token can be reserved."""
        return self.available(now) >= 1 - _EPSILON

    def reserve(self, now: float) -> None:
        """Reserve one token; the caller has checked `has_token`."""
        self._reserved += 1
        if self._scheduled and self._scheduled[0] <= now:
            del self._scheduled[0]

    def release(self, now: float, *, consumed: bool) -> None:
        """End a reservation: the token is spent, or free again."""
        self.available(now)
        self._reserved -= 1
        self._tokens -= consumed

    def next_available(self, now: float) -> float:
        """Return when this caller should try again: one time slot per token, in order of the calls.

        Without the queue, all waiting callers would come back for the same token. A caller that
        comes when a slot is due takes that slot: tokens do not refill while all are reserved, so
        a token may be late, and the caller must not lose its place. One due slot is renewed for
        each token to come; other due callers go to the end of the queue.
        """
        step = 1 / self._rate.per_second
        earliest = now + max(0.0, 1 - self.available(now)) * step
        del self._scheduled[: bisect_left(self._scheduled, now - step)]  # their callers gave up
        if self._scheduled and self._scheduled[0] <= now:
            del self._scheduled[0]
            if self._rescheduled_at <= now:
                self._rescheduled_at = earliest
                insort(self._scheduled, earliest)
                return earliest
        available_at = max(earliest, self._scheduled[-1] + step) if self._scheduled else earliest
        if self._scheduled and available_at > now + MAX_WAIT_S:
            return max(earliest, now + MAX_WAIT_S)
        self._scheduled.append(available_at)
        return available_at

    def is_idle(self, now: float) -> bool:
        """Say whether nothing distinguishes this bucket from a fresh one."""
        is_awaited = bool(self._scheduled) and self._scheduled[-1] > now
        return self.available(now) >= self._rate.burst and not is_awaited

    def try_acquire(self, now: float) -> bool:
        """Spend a token if there is one; say whether there was."""
        if not self.has_token(now):
            return False
        self._tokens -= 1
        return True
