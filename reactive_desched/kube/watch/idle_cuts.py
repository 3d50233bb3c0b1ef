"""Finds out after how long a proxy cuts a watch that is idle, so that watches end before that.

A watch that is cut leaves its kind out of sync until another is open, and nothing is evicted
meanwhile. One that the server ends itself is followed by the next without such a gap.
"""

from typing import Final

__all__ = ["IdleCuts"]

_COUNTS_FOR_S: Final = 600.0
_ALIKE_S, _ALIKE = 0.5, 0.1
"""Two watches lived for as long if their lives differ by so much, or by this part of them."""
_SHARE: Final = 0.8
"""So much of the time that an idle watch lives is the next one requested for."""
_LEAST_S: Final = 1
"""Servers count whole seconds: a cut after less than one and a quarter cannot be met so."""


class IdleCuts:
    """Says for how long the watches of a kind are to be requested, by how those before it broke.

    Two in a row that brought nothing and broke after as long were cut because they were idle. After
    ten minutes a long one is tried; if it breaks after that time again, once is enough.
    """

    def __init__(self) -> None:
        self._idle_s = float("-inf")
        self._until = float("-inf")

    def note(self, lived_s: float, now: float) -> None:
        """A watch brought nothing, and broke after so long."""
        if lived_s * _SHARE < _LEAST_S:  # no shorter watch would end before
            return
        if abs(lived_s - self._idle_s) <= max(_ALIKE_S, _ALIKE * lived_s):
            self._until = now + _COUNTS_FOR_S
        self._idle_s = lived_s

    def limit_s(self, wanted_s: float, now: float) -> float:
        """Return for how long to request a watch that would be requested for `wanted_s`."""
        if now >= self._until:
            return wanted_s
        return min(wanted_s, max(_LEAST_S, int(_SHARE * self._idle_s)))
