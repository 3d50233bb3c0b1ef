"""One line of the report: a figure beside its floor and its goal."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One figure; `floor` is what the least program reached in the same run.

    `goal` is in the unit of the figure, `goal_of_floor` in multiples of the floor; the figure
    should be at most the goal, with `at_least` at least. Where it was measured several times it is
    the median, `best` is the best, and `of_floor` the median of the ratios of each two runs that
    followed one another. An `invalid` figure says why.
    """

    what: str
    measured: float
    goal: float | None = None
    unit: str = ""
    at_least: bool = False
    best: float | None = None
    floor: float | None = None
    of_floor: float | None = None
    goal_of_floor: float | None = None
    invalid: str = ""

    @property
    def result(self) -> str:
        """Say whether the goal is met; nothing fails for it."""
        if self.invalid:
            return "invalid"
        if self.goal_of_floor is not None and self.of_floor is not None:
            return self._compare(self.of_floor, self.goal_of_floor)
        return "" if self.goal is None else self._compare(self.measured, self.goal)

    def _compare(self, value: float, goal: float) -> str:
        met = value >= goal if self.at_least else value <= goal
        return "met" if met else "missed"
