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

    def __str__(self) -> str:
        units = ((60, "a minute"), (3600, "an hour"), (86_400, "a day"))
        counts = ((self.per_second * unit_s, unit) for unit_s, unit in units)
        per_day = self.per_second * 86_400, "a day"
        count, unit = next((each for each in counts if each[0] >= 1 - _EPSILON), per_day)
        return f"{count:.3g} {unit}, {self.burst} at once"

    def times(self, factor: float) -> "TokenRate":
        """Return a share or a multiple of the rate; its burst is a whole number, 1 or more."""
        burst = max(1, int(self.burst * factor + _EPSILON))
        return TokenRate(self.per_second * factor, burst)


class TokenBucket:
    """Tokens that refill at a steady rate up to the burst; a reserved token does not refill.

    To ask changes nothing: the tokens are those of the last change, and what came since.
    """

    __slots__ = ("_rescheduled_at", "_reserved", "_scheduled", "_tokens", "_updated_at", "rate")

    def __init__(self, rate: TokenRate, now: float) -> None:
        self.rate = rate
        self._tokens = float(rate.burst)
        self._reserved = 0
        self._updated_at = now
        self._scheduled: list[float] = []
        self._rescheduled_at = now

    @property
    def reserved(self) -> int:
        """Return how many tokens are reserved."""
        return self._reserved

    @property
    def updated_at(self) -> float:
        """Return when the bucket changed last: until then it has been filled."""
        return self._updated_at

    def adjust(self, rate: TokenRate, now: float) -> None:
        """Change the rate: no tokens are added, and those beyond the new burst are lost."""
        self._fill(now)
        self.rate = rate
        self._tokens = min(self._tokens, rate.burst)

    def add(self, tokens: int, now: float) -> None:
        """Add tokens that a larger burst allows, or take them away for a smaller one.

        What was spent stays spent. Callers that wait stand in a new queue from now on.
        """
        self._fill(now)
        self._tokens += tokens
        self._scheduled.clear()
        self._rescheduled_at = self._updated_at

    def spend(self, at: float) -> None:
        """Spend a token at a time in the past, not before the last one, whether there was one."""
        self._fill(at)
        self._tokens -= 1

    def empty(self, at: float) -> None:
        """Take away the tokens that the bucket holds; a debt stays."""
        self._fill(at)
        self._tokens = min(self._tokens, 0.0)

    def available(self, now: float) -> float:
        """Return the tokens that are free now."""
        return self._tokens_at(now) - self._reserved

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
        self._fill(now)
        self._reserved -= 1
        self._tokens -= consumed

    def next_available(self, now: float) -> float:
        """Return when this caller should try again: one time slot per token, in order of the calls.

        Without the queue, all waiting callers would come back for the same token. A caller that
        comes when a slot is due takes that slot: tokens do not refill while all are reserved, so
        a token may be late, and the caller must not lose its place. One due slot is renewed for
        each token to come; other due callers go to the end of the queue.
        """
        step = 1 / self.rate.per_second
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

    def earliest(self, now: float) -> float:
        """Return when there is a token, if no other caller takes it before."""
        return now + max(0.0, 1 - self.available(now)) / self.rate.per_second

    def next_unclaimed(self, now: float) -> float:
        """Return when there is a token that no waiting caller was given a time slot for."""
        step = 1 / self.rate.per_second
        earliest = now + max(0.0, 1 - self.available(now)) * step
        if not self._scheduled or self._scheduled[0] <= now:
            return earliest
        return max(earliest, min(self._scheduled[-1] + step, now + MAX_WAIT_S))

    def is_idle(self, now: float) -> bool:
        """Say whether nothing distinguishes this bucket from a fresh one."""
        is_awaited = bool(self._scheduled) and self._scheduled[-1] > now
        return self.available(now) >= self.rate.burst and not is_awaited

    def try_acquire(self, now: float) -> bool:
        """Spend a token if there is one; say whether there was."""
        if not self.has_token(now):
            return False
        self._fill(now)
        self._tokens -= 1
        return True

    def _fill(self, now: float) -> None:
        """Count the tokens that have come until now, before something changes."""
        self._tokens = self._tokens_at(now)
        self._updated_at = max(self._updated_at, now)

    def _tokens_at(self, now: float) -> float:
        if now <= self._updated_at:
            return self._tokens
        gained = (now - self._updated_at) * self.rate.per_second
        return min(self.rate.burst, self._tokens + gained)
