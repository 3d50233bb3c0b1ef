"""One moment by both clocks, so that a moment of one can be written as one of the other."""

from datetime import datetime

from msgspec import Struct

from reactive_desched.text.times import utc_time


class ClockPair(Struct, frozen=True):
    """Now by both clocks: monotonic, and the time of day, in seconds."""

    now: float
    wall_now: float

    def wall_s(self, at: float) -> float:
        """Return the seconds since the epoch of a monotonic moment."""
        return at + self.wall_now - self.now

    def time(self, at: float) -> datetime:
        """Return the time of day of a monotonic moment."""
        return utc_time(self.wall_s(at))
