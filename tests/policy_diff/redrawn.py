"""Chance of a simulated cluster that is the same as in another life as far as that life had it."""

import random
from collections import Counter
from collections.abc import Mapping
from typing import Final

import anyio

from reactive_desched.sim.dice import ObjectDice

ABOUT_THEN_S: Final = 5.0
"""A draw of another life is the same one if it was made so near to it in time."""

OTHER_LUCK: Final = 10**6

DrawTimes = Mapping[tuple[tuple[str, ...], int], float]
"""When each draw was made: about what, and the how manieth about it."""


class NotedDice(ObjectDice):
    """Notes when each draw is made."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.times: Final[dict[tuple[tuple[str, ...], int], float]] = {}
        self._made: Final[Counter[tuple[str, ...]]] = Counter()

    def about(self, what: tuple[str, ...]) -> random.Random:
        """Return the source of the next draw about something."""
        self.times[what, self._made[what]] = anyio.current_time()
        self._made[what] += 1
        return super().about(what)


class RedrawnDice(ObjectDice):
    """Falls as in another life where that made the same draw about then, and otherwise anew.

    What falls anew is in no recording of that life: how long a pod takes to start that only this
    life has, and which of equal nodes it gets.
    """

    def __init__(self, seed: int, of_other_life: DrawTimes) -> None:
        super().__init__(seed)
        self._known: Final = of_other_life
        self._anew: Final = ObjectDice(seed + OTHER_LUCK)
        self._made: Final[Counter[tuple[str, ...]]] = Counter()

    def about(self, what: tuple[str, ...]) -> random.Random:
        """Return the source of the next draw about something."""
        at_s = self._known.get((what, self._made[what]))
        self._made[what] += 1
        same, anew = super().about(what), self._anew.about(what)
        is_same = at_s is not None and abs(at_s - anyio.current_time()) <= ABOUT_THEN_S
        return same if is_same else anew
