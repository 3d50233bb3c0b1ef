"""Chance in the simulated cluster: one stream of draws, or draws that depend on their object."""

import random
from collections import Counter
from typing import Final

__all__ = ["ObjectDice", "dice_for"]


class ObjectDice(random.Random):
    """Chance that depends on what is drawn for which object, and on how often it was drawn before.

    Two clusters of one seed then have the same luck, though something was done in one of them
    alone: a pod of the same name takes as long to start, and has the same uid.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._seed: Final = seed
        self._drawn: Counter[tuple[str, ...]] = Counter()

    def about(self, what: tuple[str, ...]) -> random.Random:
        """Return the source of the next draw about something."""
        number = self._drawn[what]
        self._drawn[what] += 1
        return random.Random(f"{self._seed} {number} {what}")  # noqa: S311 -- no secret


def dice_for(rng: random.Random, *about: str) -> random.Random:
    """Return the source of a draw about an object: its own, or the one stream for all."""
    return rng.about(about) if isinstance(rng, ObjectDice) else rng
