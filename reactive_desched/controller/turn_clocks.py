"""The clocks of a controller, which stand still while it decides.

All that is decided in one turn of the event loop is decided at one moment, however long it takes: a
wait is then counted from the same moment from which it is measured, and a replay of the turn, which
takes no time, decides the same.
"""

from collections.abc import Callable


class TurnClocks:
    """Shows monotonic seconds and the time of day; between `stop_at` and `go_on` always the same.

    `clock` is monotonic, `wall_clock` the time of day, both in seconds.
    """

    __slots__ = ("_clock", "_stopped", "_stopped_wall", "_wall_clock")

    def __init__(self, clock: Callable[[], float], wall_clock: Callable[[], float]) -> None:
        self._clock = clock
        self._wall_clock = wall_clock
        self._stopped: float | None = None
        self._stopped_wall = 0.0

    def monotonic(self) -> float:
        """Return monotonic seconds."""
        return self._clock() if self._stopped is None else self._stopped

    def wall(self) -> float:
        """Return seconds since the epoch."""
        return self._wall_clock() if self._stopped is None else self._stopped_wall

    def stop_at(self, now: float) -> None:
        """Show this moment from now on, which has just begun, in monotonic seconds."""
        self._stopped, self._stopped_wall = now, self._wall_clock()

    def go_on(self) -> None:
        """Show the time again."""
        self._stopped = None
