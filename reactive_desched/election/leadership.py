"""Says whether this process may act: asked before every eviction request, by one comparison."""

from collections.abc import Callable, Iterator
from math import inf
from typing import Final

from reactive_desched.telemetry.metrics import Metric, gauge

LEADER: Final = gauge(
    "leader", "1 while this process may act: it holds the Lease, or there is no leader election."
)
NO_LEADER_YET: Final = "no leader is known yet"
LAPSED: Final = "the Lease was not renewed in time"


class Leadership:
    """Until when this process may act; without an election, for ever.

    `clock` returns seconds and goes on while the machine sleeps. A term begins once and ends once:
    after a lapse or an end no renewal brings it back.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._reason = self._leader = ""
        self._until = inf
        self._is_over = False

    @property
    def fault(self) -> str:
        """Return why this process may not act now; empty when it may."""
        if self._reason:
            return self._reason
        if self._until == inf or self._clock() < self._until:
            return ""
        self.end(LAPSED)
        return LAPSED

    @property
    def is_standby(self) -> bool:
        """Say whether another process may act, and this one may follow it."""
        return bool(self._reason) and not self._is_over

    @property
    def leader(self) -> str:
        """Return which other process acts; empty where none is known to, and while this one may."""
        return self._leader if self.is_standby else ""

    def follow(self, leader: str) -> None:
        """Forbid this process to act until its term begins, as this other process acts."""
        self.stand_by(f"the leader is {leader}")
        self._leader = leader

    def stand_by(self, reason: str) -> None:
        """Forbid this process to act until its term begins."""
        if not self._is_over:
            self._reason, self._leader = reason, ""

    def renew(self, until: float) -> None:
        """Extend the term to this time of the clock, unless it has lapsed."""
        if not self.has_lapsed():
            self._until = until

    def begin(self) -> None:
        """Begin the term, which lasts until the time of the last renewal."""
        if not self._is_over:
            self._reason = ""

    def end(self, reason: str) -> None:
        """End the term."""
        if not self._is_over:
            self._reason, self._is_over = reason, True

    def has_lapsed(self) -> bool:
        """Say whether the time of the last renewal has passed, or the term has ended."""
        return self._is_over or (self._until != inf and self._clock() >= self._until)

    def remaining_s(self) -> float:
        """Return how long the term lasts without another renewal."""
        return 0.0 if self._is_over else max(0.0, self._until - self._clock())

    def collect(self) -> Iterator[Metric]:
        """Yield whether this process may act."""
        yield LEADER.value(not self.fault)
