"""The pods that wait for a node: ready to be tried, backing off, or parked until a change comes."""

from heapq import heappop, heappush
from typing import Final

from reactive_desched.sim.pods import Key
from reactive_desched.sim.work_set import AT_ONCE, WorkSet

__all__ = ["Backlog"]

_FIRST_BACKOFF_S: Final = 1.0
_LONGEST_BACKOFF_S: Final = 10.0
_LONGEST_PARKED_S: Final = 300.0


class _Waiting:
    """One pod's place in the backlog."""

    def __init__(self, uid: str, priority: int) -> None:
        self.uid = uid
        self.priority = priority
        self.failures = 0
        self.not_before = AT_ONCE
        self.heeds_neighbours = False


class Backlog:
    """Pods by priority, then by arrival; holds one entry per pending pod.

    A pod that failed is tried again when a change may help it, but not before its back-off (1 s,
    doubling to 10 s) has passed; without a change after five minutes.
    """

    def __init__(self) -> None:
        self._waiting: dict[Key, _Waiting] = {}
        self._ready: list[tuple[int, int, Key, str]] = []
        self._later: WorkSet[Key] = WorkSet()
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, key: Key) -> bool:
        return key in self._waiting

    def offer(self, key: Key, uid: str, priority: int) -> None:
        """Record a pending pod; one that is known already keeps its place."""
        known = self._waiting.get(key)
        if known is not None and known.uid == uid:
            return
        self._waiting[key] = _Waiting(uid, priority)
        self._later.drop(key)
        self._enter(key)

    def drop(self, key: Key) -> None:
        """Forget a pod that no longer waits."""
        if self._waiting.pop(key, None) is not None:
            self._later.drop(key)

    def put_off(self, key: Key, now: float, *, heeds_neighbours: bool) -> None:
        """Park a pod that fits nowhere; return whether changes of other pods may help it."""
        waiting = self._waiting.get(key)
        if waiting is None:
            return
        backoff = min(_FIRST_BACKOFF_S * 2**waiting.failures, _LONGEST_BACKOFF_S)
        waiting.failures = min(waiting.failures + 1, 10)
        waiting.not_before = now + backoff
        waiting.heeds_neighbours = heeds_neighbours
        self._later.add(key, now + _LONGEST_PARKED_S)

    def stir(self, *, neighbours_only: bool) -> None:
        """Let parked pods try again after their back-off: all, or those that heed neighbours."""
        for key, waiting in self._waiting.items():
            if key in self._later and (waiting.heeds_neighbours or not neighbours_only):
                self._later.add(key, waiting.not_before)

    def due(self) -> float | None:
        """Return when the next pod may be tried, or None."""
        return AT_ONCE if self._ready else self._later.due()

    def take(self, now: float) -> Key | None:
        """Remove and return the pod to try next; it stays known until dropped."""
        for key in self._later.take_due(now, len(self._waiting)):
            self._enter(key)
        while self._ready:
            _, _, key, uid = heappop(self._ready)
            waiting = self._waiting.get(key)
            if waiting is not None and waiting.uid == uid:
                return key
        return None

    def _enter(self, key: Key) -> None:
        waiting = self._waiting[key]
        self._arrivals += 1
        heappush(self._ready, (-waiting.priority, self._arrivals, key, waiting.uid))
