"""Lets a kind stay in sync for some seconds until its next watch is open.

A server ends watches from time to time, and a proxy may break them every few seconds. Of twenty
kinds one or another is then always without a watch. Their objects are as of the end of the last
one: the controller evaluates, and a decision waits until each kind was read after it.
Where the proxy cuts watches that are idle for some time, the next ones end before that.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from reactive_desched.kube.client.clock import Clock, move_on_after
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.telemetry.metrics import Metric, gauge

__all__ = ["INTERRUPTED_WATCHES", "KEPT_FOR_S", "IdleCuts", "Interruptions", "Reopening"]

KEPT_FOR_S: Final = 20.0
"""So old may the objects of a kind get that counts as in sync without a watch."""

_TIMES: Final = 3
_WITHIN_S: Final = 60.0
_COUNT_FOR_S: Final = 600.0

INTERRUPTED_WATCHES = gauge(
    "reflector_interrupted_watches",
    "1 while watches break so often that a kind stays in sync while its watch is opened anew, and "
    "evictions wait until each kind was read after they were decided.",
)


class Interruptions:
    """Says whether watches of kinds in sync break again and again, as behind a proxy that cuts.

    The reflectors of a session share it. A kind that lost its watch three times within a minute
    begins it; ten minutes after the last watch that broke it has ended. An API server that restarts
    breaks each watch once, and one that is idle for too long is met after two.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._broke_at: dict[str, deque[float]] = {}
        self._until = float("-inf")

    def collect(self) -> Iterator[Metric]:
        """Yield whether watches break often."""
        yield INTERRUPTED_WATCHES.value(self.are_frequent)

    @property
    def are_frequent(self) -> bool:
        """Say whether a kind is to be kept in sync when its watch breaks."""
        return self._clock.now() < self._until

    def note(self, path: str) -> None:
        """The watch of a kind in sync broke."""
        now = self._clock.now()
        broke_at = self._broke_at.setdefault(path, deque(maxlen=_TIMES))
        broke_at.append(now)
        has_often = len(broke_at) == _TIMES and now - broke_at[0] <= _WITHIN_S
        if self.are_frequent or has_often:
            self._until = now + _COUNT_FOR_S

    def message(self) -> str:
        """Say what is done about them; empty while there are few."""
        if not self.are_frequent:
            return ""
        return (
            "watches break again and again: evictions wait until each kind was read after they "
            "were decided; look for a proxy before the API server that cuts connections"
        )


class Reopening:
    """Calls `on_late` when the watch of a kind in sync is not open again in time."""

    def __init__(self, clock: Clock, on_late: Callable[[], None]) -> None:
        self._clock = clock
        self._on_late = on_late
        self._until: float | None = None
        self._changed = Wakeup()

    def begin(self, until: float) -> None:
        """The watch has ended; it is to be open again by this time, in monotonic seconds."""
        if self._until is None:
            self._until = until
            self._changed.notify()

    def end(self) -> None:
        """The objects were read again, or are not in sync any more."""
        if self._until is not None:
            self._until = None
            self._changed.notify()

    async def run(self) -> None:
        """Watch over the time, until cancelled."""
        while True:
            if self._until is None:
                await self._changed.wait()
                continue
            async with move_on_after(self._clock, self._until - self._clock.now()):
                await self._changed.wait()
            if self._is_over():
                self._until = None
                self._on_late()

    def _is_over(self) -> bool:
        return self._until is not None and self._clock.now() >= self._until


_ALIKE_S, _ALIKE = 0.5, 0.1
"""Two watches lived for as long if their lives differ by so much, or by this part of them."""
_SHARE: Final = 0.8
"""So much of the time that an idle watch lives is the next one requested for."""
_LEAST_S: Final = 1
"""Servers count whole seconds: a cut after less than one and a quarter cannot be met so."""


class IdleCuts:
    """Says for how long the watches of a kind are to be requested, by how those before it broke.

    Two in a row that brought nothing and broke after as long were cut because they were idle. After
    ten minutes a long one is tried; if it breaks after that time again, once is enough.
    """

    def __init__(self) -> None:
        self._idle_s = float("-inf")
        self._until = float("-inf")

    def note(self, lived_s: float, now: float) -> None:
        """A watch brought nothing, and broke after so long."""
        if lived_s * _SHARE < _LEAST_S:  # no shorter watch would end before
            return
        if abs(lived_s - self._idle_s) <= max(_ALIKE_S, _ALIKE * lived_s):
            self._until = now + _COUNT_FOR_S
        self._idle_s = lived_s

    def limit_s(self, wanted_s: float, now: float) -> float:
        """Return for how long to request a watch that would be requested for `wanted_s`."""
        if now >= self._until:
            return wanted_s
        return min(wanted_s, max(_LEAST_S, int(_SHARE * self._idle_s)))
