"""Whether what a process takes grows on: slopes over the time in which it should be flat."""

from collections.abc import Mapping, Sequence
from statistics import linear_regression
from typing import Any, Final

SETTLED_S: Final = 600.0
"""By then the caches that fill are filled, or as good as."""

FLAT: Final[Mapping[str, tuple[str, str, float]]] = {
    "rss_mb": ("memory", "MB", 20.0),
    "tasks": ("tasks", "more", 5.0),
}
"""What is looked at: its name, its unit, and how much more an hour still counts as flat."""

Sample = Mapping[str, Any]  # Any: numbers by name, as JSON has them


def slopes(samples: Sequence[Sample]) -> dict[str, float]:
    """Return how much each grows an hour after ten minutes, or in the later half of a short run.

    `from_s` says since when.
    """
    end_s = samples[-1]["at_s"]
    from_s = SETTLED_S if end_s >= 2 * SETTLED_S else end_s / 2
    settled = [each for each in samples if each["at_s"] >= from_s]
    times_h = [each["at_s"] / 3600 for each in settled]
    grown = {
        what: round(linear_regression(times_h, [each[what] for each in settled]).slope, 2)
        for what in FLAT
    }
    return {"from_s": round(from_s, 1), **grown}
