"""One line of the report: a number beside its goal."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One number beside its goal; `at_least` goals are better when greater.

    Where it was measured several times it is the one in the middle, and `best` is the best.
    """

    what: str
    measured: float
    goal: float | None = None
    unit: str = ""
    at_least: bool = False
    best: float | None = None

    @property
    def verdict(self) -> str:
        """Say whether the goal is met; nothing fails for it."""
        if self.goal is None:
            return ""
        met = self.measured >= self.goal if self.at_least else self.measured <= self.goal
        return "met" if met else "missed"
