"""Tokens that refill: how fast something may happen, and how much of it at once."""

from bisect import bisect_left, insort
from dataclasses import dataclass

LONGEST_PROMISE_S = 60.0
"""Whoever waits looks again after this at the latest: those before it may have given up."""

_A_HAIR = 1e-9  # rounding must not cost the one who comes just in time another turn


@dataclass(frozen=True, slots=True)
class Rate:
    """A steady rate, and how many may go at once after a quiet time."""

    per_second: float
    burst: int


class Bucket:
    """Tokens that refill at a steady rate up to the burst; held ones still count as there."""

    __slots__ = ("_at", "_held", "_promises", "_rate", "_renewed", "_tokens")

    def __init__(self, rate: Rate, now: float) -> None:
        self._rate = rate
        self._tokens = float(rate.burst)
        self._held = 0
        self._at = now
        self._promises: list[float] = []
        self._renewed = now

    def adopt(self, rate: Rate, now: float) -> None:
        """Go on at another rate: what was spent stays spent, holds and promises are forgotten."""
        self._held = 0
        spent = self._rate.burst - self.free(now)
        self._tokens = rate.burst - spent
        self._rate = rate
        self._promises.clear()
        self._renewed = now

    def free(self, now: float) -> float:
        """Return the tokens there are now and nobody holds."""
        if now > self._at:
            gained = (now - self._at) * self._rate.per_second
            self._tokens = min(self._rate.burst, self._tokens + gained)
            self._at = now
        return self._tokens - self._held

    def has_one(self, now: float) -> bool:
        """Say whether a token can be held."""
        return self.free(now) >= 1 - _A_HAIR

    def hold(self, now: float) -> None:
        """Hold one token; the caller has seen that there is one."""
        self._held += 1
        if self._promises and self._promises[0] <= now:
            del self._promises[0]

    def let_go(self, now: float, *, spent: bool) -> None:
        """End the hold on one token: it is spent, or free again."""
        self.free(now)
        self._held -= 1
        self._tokens -= spent

    def promise(self, now: float) -> float:
        """Return when a token may be there for this asker, behind those who asked before.

        Without the queue, everyone who waits would come back for the same token. Whoever asks when
        a promise is due counts as the one it was made to: a token may come a moment late, as none
        refills while all are held, and that must not cost the asker's place. One promise is renewed
        for each token to come; who else is due goes to the end, lest all come back together.
        """
        step = 1 / self._rate.per_second
        earliest = now + max(0.0, 1 - self.free(now)) * step
        del self._promises[: bisect_left(self._promises, now - step)]  # who had them gave up
        if self._promises and self._promises[0] <= now:
            del self._promises[0]
            if self._renewed <= now:
                self._renewed = earliest
                insort(self._promises, earliest)
                return earliest
        told = max(earliest, self._promises[-1] + step) if self._promises else earliest
        if self._promises and told > now + LONGEST_PROMISE_S:
            return max(earliest, now + LONGEST_PROMISE_S)
        self._promises.append(told)
        return told

    def is_new(self, now: float) -> bool:
        """Say whether nothing distinguishes this bucket from a fresh one."""
        is_awaited = bool(self._promises) and self._promises[-1] > now
        return self.free(now) >= self._rate.burst and not is_awaited

    def take(self, now: float) -> bool:
        """Spend a token if there is one; say whether there was."""
        if not self.has_one(now):
            return False
        self._tokens -= 1
        return True
