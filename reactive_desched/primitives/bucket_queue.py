"""The callers that wait for the tokens of one bucket, each with its place and the time of it."""

from bisect import bisect_left
from typing import Final

from msgspec import Struct

from reactive_desched.primitives.token_bucket import MAX_WAIT_S, TokenBucket

GIVES_UP_AFTER_S: Final = 10.0
"""A caller that was to ask again so long ago, and did not, does not wait any more."""
LOOKED_THROUGH: Final = 4
"""So many callers that gave up are forgotten whenever one asks."""


class QueuePlace(Struct, frozen=True, gc=False):
    """The `place` of a caller among the `of` that wait, and when its token comes (monotonic s).

    It asks again at `look_at`: callers before it may have given up by then.
    """

    place: int
    of: int
    at: float
    look_at: float


class BucketQueue:
    """Callers in the order in which they came; bounded by the findings that wait."""

    def __init__(self) -> None:
        self._tickets: list[int] = []
        self._waiting: dict[str, tuple[int, float]] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._tickets)

    def wait(self, caller: str, bucket: TokenBucket, now: float) -> QueuePlace:
        """Let a caller wait, at the end unless it waits already."""
        self._forget_gone(now)
        known = self._waiting.pop(caller, None)
        if known is None:
            self._next += 1
            self._tickets.append(self._next)
        ticket = self._next if known is None else known[0]
        place = self._place(bisect_left(self._tickets, ticket), bucket, now)
        self._waiting[caller] = ticket, place.look_at + GIVES_UP_AFTER_S
        return place

    def look(self, caller: str, bucket: TokenBucket, now: float) -> QueuePlace:
        """Return the place of a caller, or that which it would get; takes none."""
        if (known := self._waiting.get(caller)) is not None:
            return self._place(bisect_left(self._tickets, known[0]), bucket, now)
        place = self._place(len(self._tickets), bucket, now)
        return QueuePlace(place.place, place.of + 1, place.at, place.look_at)

    def leave(self, caller: str) -> None:
        """Take a caller out: it has its token, or does not want it any more."""
        if (known := self._waiting.pop(caller, None)) is not None:
            del self._tickets[bisect_left(self._tickets, known[0])]

    def _place(self, before: int, bucket: TokenBucket, now: float) -> QueuePlace:
        earliest = bucket.earliest(now)
        at = earliest + before / bucket.rate.per_second
        look_at = max(earliest, min(at, now + MAX_WAIT_S))
        return QueuePlace(before + 1, len(self._tickets), at, look_at)

    def _forget_gone(self, now: float) -> None:
        """Forget a few of the callers that gave up, those that have not asked for longest."""
        for _ in range(LOOKED_THROUGH):
            first = next(iter(self._waiting), None)
            if first is None or self._waiting[first][1] > now:
                return
            self.leave(first)
