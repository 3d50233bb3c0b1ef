"""The clocks of a controller, which stand still while it decides, or is given something.

All that happens in one turn of the event loop happens at one moment, however long it takes: a wait
is then counted from the same moment from which it is measured, a recording has the time by which
the controller went, and a replay of the turn, which takes no time, decides the same.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Self


class TurnClocks:
    """Shows monotonic seconds and the time of day, which stand still in `with clocks.still():`.

    `clock` is monotonic, `wall_clock` the time of day, both in seconds. A block within another one
    is at the moment of that; nothing is awaited in it.
    """

    __slots__ = ("_blocks", "_clock", "_stopped", "_stopped_wall", "_wall_clock")

    def __init__(self, clock: Callable[[], float], wall_clock: Callable[[], float]) -> None:
        self._clock = clock
        self._wall_clock = wall_clock
        self._blocks = 0
        self._stopped = self._stopped_wall = 0.0

    def monotonic(self) -> float:
        """Return monotonic seconds."""
        return self._stopped if self._blocks else self._clock()

    def wall(self) -> float:
        """Return seconds since the epoch."""
        return self._stopped_wall if self._blocks else self._wall_clock()

    def still(self) -> Self:
        """Return these clocks, which stand still in a block."""
        return self

    def __enter__(self) -> float:
        """Stand still from now on; return which moment that is, in monotonic seconds."""
        if not self._blocks:  # on the way of each event of a watch: no further call
            self._stopped, self._stopped_wall = self._clock(), self._wall_clock()
        self._blocks += 1
        return self._stopped

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Show the time again."""
        self._blocks -= 1
