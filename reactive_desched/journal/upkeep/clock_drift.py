"""Whether the time of day can be believed: a clock that is set wrong makes everything look old."""

from collections.abc import Callable
from typing import Final, NamedTuple

from msgspec import Struct

MAX_DRIFT_S: Final = 300.0
"""So far may the time of day go astray within a day: what is more was no drift but a jump."""

TRUST_AFTER_S: Final = 86_400.0
"""So long must it hold its course to be believed, at the beginning and after every jump."""

MAX_DOWNTIME_S: Final = 3600.0
"""After so long without anybody looking, a pause and a clock that was set cannot be told apart."""


class ClockState(Struct, frozen=True, rename="camel"):
    """What is handed on to the next process: a time of day, and for how long it was on course."""

    wall: float
    held_s: float


class ClockReading(NamedTuple):
    """The time of day in seconds, how far it jumped since the last look, and if it is believed."""

    wall: float
    jump_s: float
    is_trusted: bool


class ClockDriftMonitor:
    """The time of day, believed as long as it keeps pace with a clock that nobody can set.

    A machine that sleeps halts the monotonic clock, which looks like a jump of the other: it costs
    a day of doubt and nothing else. A clock that is wrong for longer than that day is believed.
    """

    def __init__(self, wall: Callable[[], float], monotonic: Callable[[], float]) -> None:
        """Begin in doubt; both clocks give seconds."""
        self._wall = wall
        self._monotonic = monotonic
        self._reference = wall(), monotonic()
        self._steady_before_s = 0.0

    def resume(self, state: ClockState) -> float:
        """Take up the course of the last process where the time of day fits it.

        Else stay in doubt, and return by how much it does not: that much passed, or it was set.
        """
        offset_s = self._wall() - state.wall
        if not -MAX_DRIFT_S <= offset_s <= MAX_DOWNTIME_S:
            return offset_s
        self._steady_before_s = max(state.held_s, 0.0)
        return 0.0

    def read(self) -> ClockReading:
        """Read the clock, and compare its course with the monotonic clock's."""
        wall, monotonic = now = self._wall(), self._monotonic()
        since_wall, since_monotonic = self._reference
        passed_s = monotonic - since_monotonic
        drift_s = wall - since_wall - passed_s
        if jumped := abs(drift_s) > MAX_DRIFT_S:
            self._reference, self._steady_before_s = now, 0.0
        elif passed_s >= TRUST_AFTER_S:
            self._reference, self._steady_before_s = now, TRUST_AFTER_S
        return ClockReading(
            wall, drift_s if jumped else 0.0, self._steady_s(monotonic) >= TRUST_AFTER_S
        )

    @property
    def state(self) -> ClockState:
        """What the next process is to know."""
        return ClockState(self._wall(), min(self._steady_s(self._monotonic()), TRUST_AFTER_S))

    def _steady_s(self, monotonic: float) -> float:
        return self._steady_before_s + monotonic - self._reference[1]
