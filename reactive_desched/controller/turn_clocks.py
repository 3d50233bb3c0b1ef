"""The clocks of a controller, which stand still while it decides, or is given something.

All that happens in one turn of the event loop happens at one moment, however long it takes: a wait
is then counted from the same moment from which it is measured, a recording has the time by which
the controller went, and a replay of the turn, which takes no time, decides the same.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

TOGETHER_S: Final = 0.001
"""Read so shortly after one another both clocks show one moment."""

_READINGS: Final = 5
"""So often both are read anew where the process did not run in between; then the last counts."""


class TurnClocks:
    """Shows monotonic seconds and the time of day, which stand still in `with clocks.still():`.

    `clock` is monotonic, `wall_clock` the time of day, both in seconds. A block within another one
    is at the moment of that; nothing is awaited in it.
    """

    __slots__ = ("_blocks", "_clock", "_moment", "_wall_clock")

    def __init__(self, clock: Callable[[], float], wall_clock: Callable[[], float]) -> None:
        self._clock = clock
        self._wall_clock = wall_clock
        self._blocks = 0
        self._moment = 0.0, 0.0

    def monotonic(self) -> float:
        """Return monotonic seconds."""
        return self._moment[0] if self._blocks else self._clock()

    def wall(self) -> float:
        """Return seconds since the epoch."""
        return self._moment[1] if self._blocks else self._wall_clock()

    def moment(self) -> tuple[float, float]:
        """Return monotonic seconds and the time of day, as of one moment."""
        return self._moment if self._blocks else self._read()

    def _read(self) -> tuple[float, float]:
        now = wall = 0.0
        for _ in range(_READINGS):
            now, wall = self._clock(), self._wall_clock()
            if self._clock() - now < TOGETHER_S:
                break
        return now, wall

    def still(self) -> Self:
        """Return these clocks, which stand still in a block."""
        return self

    def __enter__(self) -> float:
        """Stand still from now on; return which moment that is, in monotonic seconds."""
        if not self._blocks:  # on the way of each event of a watch: no further call
            now, wall = self._clock(), self._wall_clock()
            is_one = self._clock() - now < TOGETHER_S
            self._moment = (now, wall) if is_one else self._read()
        self._blocks += 1
        return self._moment[0]

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Show the time again."""
        self._blocks -= 1
