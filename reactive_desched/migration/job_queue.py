"""The work queue of migration jobs: those of which something may have to be written.

As in controller-runtime's work queue a job is in it once, and may be added after a time.
"""

from collections.abc import Callable
from typing import Final

from reactive_desched.primitives.timers import Timers
from reactive_desched.primitives.wakeup import Wakeup


class JobQueue:
    """Holds the names of jobs, of each at most one; times are seconds since the epoch.

    `changed` is notified when a job is added.
    """

    def __init__(self, wall_clock: Callable[[], float], changed: Wakeup) -> None:
        self._wall_clock: Final = wall_clock
        self._changed: Final = changed
        self._due: Final[dict[str, None]] = {}
        self._timers: Final[Timers[str]] = Timers()

    @property
    def is_due(self) -> bool:
        """Say whether there is a job to take."""
        return bool(self._due) or self.next_due_s() == 0

    def next_due_s(self) -> float | None:
        """Return in how many seconds time alone makes a job due; None where it makes none."""
        at = self._timers.next_due()
        return None if at is None else max(0.0, at - self._wall_clock())

    def take(self) -> str | None:
        """Take out a job that is due."""
        if (name := self._timers.pop_due(self._wall_clock())) is not None:
            return name
        name = next(iter(self._due), None)
        if name is not None:
            del self._due[name]
        return name

    def add(self, name: str) -> None:
        """Make a job due now."""
        self._due[name] = None
        self._changed.notify()

    def add_after(self, name: str, wait_s: float) -> None:
        """Make a job due later, unless it is due sooner."""
        self._timers.set_if_sooner(name, self._wall_clock() + wait_s)
        self._changed.notify()

    def add_at(self, name: str, at_s: float) -> None:
        """Make a job due at a time, in place of the time that was set before."""
        if self._timers.due(name) != at_s:
            self._timers.set(name, at_s)

    def remove(self, name: str) -> None:
        """Take out a job that is gone."""
        self._timers.cancel(name)
        self._due.pop(name, None)
