"""Ids that sort by time, so that two logs joined on them stay in order."""

from collections.abc import Callable
from datetime import datetime
from random import Random

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_RANDOM_BITS = 80
_PAIRS = tuple(high + low for high in _ALPHABET for low in _ALPHABET)


class Ids:
    """Makes ULIDs: 48 bits of milliseconds, 80 of chance, in 26 letters.

    Two made in one millisecond, or after the clock went back, still rise: the next is the last
    plus one.
    """

    def __init__(self, clock: Callable[[], datetime], rng: Random) -> None:
        self._clock = clock
        self._rng = rng
        self._last = 0

    def next(self) -> str:
        """Return an id greater than every one before it."""
        milliseconds = int(self._clock().timestamp() * 1000)
        fresh = milliseconds << _RANDOM_BITS | self._rng.getrandbits(_RANDOM_BITS)
        same_or_back = milliseconds <= self._last >> _RANDOM_BITS
        self._last = self._last + 1 if same_or_back else fresh
        return _letters(self._last)


def _letters(number: int) -> str:
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)])
